"""The tables of real launch lines: their facts, in a shell and as plain arguments, and the place of each fact."""

from collections.abc import Mapping, Sequence

import pytest

from reconciler.launch import Launch, NotEditable, edit_launch, parse_launch, script_flag
from reconciler.sizing.training import Attention, Method, Offload, Precision, Strategy
from tests.launch.cases import LaunchCase, cases, shown

CASES = cases()
WORDS = {
    "method": {value.value for value in Method},
    "precision": {value.value for value in Precision},
    "attention": {value.value for value in Attention},
    "strategy": {value.value for value in Strategy},
    "offload": {value.value for value in Offload},
}


def read_values(argv: Sequence[str], env: Mapping[str, str | None], case: LaunchCase) -> dict[str, str]:
    parsed = parse_launch(argv, [], env, case.files.get)
    assert parsed.launch is not None, parsed.diagnostics
    return {name: fact.value for name, fact in parsed.launch.facts.items()}


def launch_of(case: LaunchCase) -> Launch | None:
    return parse_launch(["/bin/bash", "-ec"], [case.script], case.env, case.files.get).launch


def test_the_tables_are_long() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_script(case: LaunchCase) -> None:
    """F-001: all facts of `sh -c` scripts, exactly as in the table."""
    parsed = parse_launch(["sh", "-c", case.script], [], case.env, case.files.get)
    assert shown(parsed) == case.expected


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_plain_arguments(case: LaunchCase) -> None:
    """F-002: an argument list with the same words, as `--k v` or `--k=v`, has the same facts."""
    launch = launch_of(case)
    if launch is None or launch.unresolved:
        return
    argv = [field.text for field in launch.line.invocation.fields]
    here = {name: fact.value for name, fact in launch.facts.items()}
    env = launch.line.env
    assert read_values(argv, env, case) == here
    joined = _split_flags(argv)
    if launch.framework.name not in {"torchtune", "litgpt"}:
        assert read_values(joined, env, case) == here


def _split_flags(argv: Sequence[str]) -> list[str]:
    """Replace `--k=v` by `--k v`."""
    words: list[str] = []
    for word in argv:
        name, separator, value = word.partition("=")
        words += [name, value] if separator and word.startswith("--") and value[:1] not in {"", "-"} else [word]
    return words


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_fact_is_at_its_span(case: LaunchCase) -> None:
    """The characters at the span of a fact are its snippet."""
    launch = launch_of(case)
    if launch is None:
        return
    texts = {"command": launch.command, "args": launch.args}
    for name, fact in launch.facts.items():
        assert fact.value in WORDS.get(name, {fact.value}), name
        if fact.span is not None:
            text = texts[fact.span.field][fact.span.index][fact.span.start : fact.span.end]
            shown_text = " ".join(text.replace("\\\n", " ").split())
            assert shown_text == fact.snippet or fact.snippet.endswith("…"), name
        else:
            assert (
                fact.origin or not launch.line.source.items or "$" in case.script or name in {"method", "quantisation"}
            )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_edited_numbers_are_read_back(case: LaunchCase) -> None:
    """F-012: after an edit, the line has the new numbers, and all other facts as before."""
    launch = launch_of(case)
    if launch is None or any(field.may_split for field in launch.line.invocation.fields):
        return
    flags = launch.line.invocation.process_flags
    batch = script_flag(launch, "batch")
    launcher_flags = {} if flags.of_script or not flags.processes else {flags.processes: "6", flags.machines: "2"}
    script_flags = {batch: "3"} | ({flags.processes: "6", flags.machines: "2"} if flags.of_script else {})
    if launch.not_editable:
        with pytest.raises(NotEditable):
            edit_launch(launch, launcher_flags, script_flags)
        return
    command, args = edit_launch(launch, launcher_flags, script_flags)
    again = parse_launch(command, args, case.env, case.files.get).launch
    assert again is not None
    new = {name: fact.value for name, fact in again.facts.items()}
    old = {name: fact.value for name, fact in launch.facts.items()}
    assert new.pop("batch") == "3"
    old.pop("batch", None)
    if flags.processes:
        assert new["processes"] == ("6" if flags.counts_all else "12")
        assert new["machines"] == "2"
    for name in ("processes", "machines", "accumulation"):
        new.pop(name, None)
        old.pop(name, None)
    assert new == old
