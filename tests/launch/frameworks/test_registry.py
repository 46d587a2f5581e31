"""The registry of frameworks: a new one is one file, and only its folder knows its name."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import reconciler
from reconciler.launch import (
    FRAMEWORKS,
    Framework,
    Launch,
    ProcessFlags,
    edit_launch,
    is_configuration,
    parse_launch,
    script_flag,
)
from reconciler.launch.frameworks import read_frameworks
from reconciler.launch.launchers import CLI, TORCHRUN
from tests.launch.frameworks.acme import ACME

PACKAGE = Path(reconciler.__file__).parent
OWN_FILES = PACKAGE / "launch" / "frameworks"
MODELS = PACKAGE / "sizing" / "models"  # compares types of models, of which some are named like frameworks
NAMES = {framework.name for framework in FRAMEWORKS} - {""}
RECIPE = b"acme_version: 1\nbase: org/model\nmode: adapters\ndata:\n  micro: 3\n  context: 2048\n"


def parse(script: str) -> Launch:
    files = {"recipe.yaml": RECIPE}
    parsed = parse_launch(["sh", "-c", script], [], {}, files.get, frameworks=(ACME, *FRAMEWORKS))
    assert parsed.launch is not None, parsed.diagnostics
    assert not parsed.diagnostics
    return parsed.launch


def values(launch: Launch) -> dict[str, str]:
    return {name: fact.value for name, fact in launch.facts.items()}


def test_a_command_of_a_new_framework_is_parsed() -> None:
    launch = parse("acme fit --workers 8 --hosts 2 recipe.yaml data.steps=4")
    assert launch.framework is ACME
    assert launch.launcher is CLI
    assert values(launch) == {
        "model": "org/model",
        "method": "lora",
        "batch": "3",
        "sequence": "2048",
        "accumulation": "4",
        "processes": "8",
        "machines": "2",
    }
    assert {name: fact.value for name, fact in launch.defaults.items()} == {
        "precision": "bf16",
        "lora_rank": "4",
        "lora_targets": "all-linear",
        "strategy": "ddp",
        "offload": "none",
    }
    assert launch.defaults["precision"].origin == "default of acme 1.0"
    assert launch.facts["batch"].origin == "file recipe.yaml"


def test_a_script_of_a_new_framework_is_parsed_under_a_launcher() -> None:
    launch = parse("torchrun --nproc_per_node 4 -m acme.fit --base m --mode all --data.micro 1 --data.context 512")
    assert launch.framework is ACME
    assert launch.launcher is TORCHRUN
    assert values(launch) == {"model": "m", "method": "full", "batch": "1", "sequence": "512", "processes": "4"}


def test_a_line_of_a_new_framework_is_edited() -> None:
    launch = parse("acme fit --workers 8 --hosts 2 recipe.yaml data.steps=4 | tee log")
    assert launch.line.invocation.process_flags == ProcessFlags(
        processes="--workers", machines="--hosts", counts_all=True, of_script=True
    )
    flags = {
        "--workers": "16",
        "--hosts": "4",
        script_flag(launch, "batch"): "6",
        script_flag(launch, "accumulation"): "1",
    }
    command, _ = edit_launch(launch, {}, flags)
    assert command[2] == "acme fit --workers 16 --hosts 4 recipe.yaml data.steps=1 data.micro=6 | tee log"
    assert values(parse(command[2])) == values(launch) | {
        "processes": "16",
        "machines": "4",
        "batch": "6",
        "accumulation": "1",
    }


def test_other_objectives_of_a_new_framework_are_rejected() -> None:
    parsed = parse_launch(["acme", "tune"], ["--base", "m", "--data.context=8"], {}, lambda _: None, frameworks=(ACME,))
    assert [diagnostic.rule for diagnostic in parsed.diagnostics] == ["launch.value"]
    assert "acme tune" in parsed.diagnostics[0].message


def test_a_new_framework_is_unknown_to_the_registry() -> None:
    """The registry is a value: a row that is not passed has no effect."""
    parsed = parse_launch(["acme", "fit", "--base", "m"], [], {}, lambda _: None)
    assert [diagnostic.rule for diagnostic in parsed.diagnostics] == ["launch.none"]
    assert is_configuration({"acme_version": 1}, (ACME,))
    assert not is_configuration({"acme_version": 1})


def test_the_message_lists_the_commands_of_the_registry() -> None:
    parsed = parse_launch(["sleep", "1"], [], {}, lambda _: None, frameworks=(ACME,))
    assert parsed.diagnostics[0].message == (
        "no launch line found; expected `accelerate launch`, `torchrun`, `deepspeed`, `acme fit` or a Python script"
    )


FILE = 'order = 1\nname = "one"\nprograms = "one"\n[settings]\nmodel = ["m"]\n'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            FILE + "lora_rank = 3",
            r"one\.toml: settings\.lora_rank: Expected `array`, got `int` - at `\$\.settings\[\.\.\.\]`",
        ),
        ("kind = 1\n" + FILE, r"one\.toml: Object contains unknown field `kind`"),
        (FILE + "[changes]\nlora = 3", r"one\.toml: changes\.lora: Expected `object`, got `int` - at `\$\.changes"),
        (FILE.replace('"one"\n[', '"("\n['), r"one\.toml: `\(` is no regular expression.* - at `\$\.programs`"),
        ('complete = "no colon"\n' + FILE, r"one\.toml: `no colon` is not `module:function` - at `\$\.complete`"),
        ('extends = {settings = "two"}\n' + FILE, r"one\.toml: there is no file two\.toml"),
        ("extends = 3\n" + FILE, r"one\.toml: expected names of files - at `\$\.extends`"),
        ('extends = {settings = "one"}\n' + FILE, r"one\.toml: extends itself"),
        ("name = ", r"one\.toml: Invalid value"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "one.toml").write_text(text)
    with pytest.raises(ValueError, match=place):
        read_frameworks(tmp_path)


def test_a_file_extends_tables_of_another(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(FILE)
    (tmp_path / "two.toml").write_text(
        'order = 0\nname = "two"\nextends = {settings = "one"}\n[settings]\nbatch = ["b"]\n'
    )
    two, one = read_frameworks(tmp_path)
    assert (one.name, two.name) == ("one", "two")
    assert two.settings == {"model": ("m",), "batch": ("b",)}


def test_every_function_of_a_file_exists() -> None:
    """Functions are imported when a line is read, so that a mistyped name would stay unnoticed until then."""
    rows = [*FRAMEWORKS, *(newer for row in FRAMEWORKS for newer in row.newer.values())]
    functions: list[Callable[..., object]] = []
    for row in rows:
        values = [*(getattr(row, field) for field in row.__struct_fields__), *(c.read_processes for c in row.commands)]
        functions += [value for value in values if callable(value)]
    assert len(functions) >= 60
    for function in functions:
        with pytest.raises(TypeError, match=r"missing \d required positional argument|takes \d positional argument"):
            function()


def _compared(tree: ast.AST) -> Iterator[str]:
    """Yield the strings in comparisons and patterns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.MatchValue):
            yield from _texts(node)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_other_module_compares_names_of_frameworks() -> None:
    others = [path for path in sorted(PACKAGE.rglob("*.py")) if {OWN_FILES, MODELS}.isdisjoint(path.parents)]
    assert [path for path in others if not NAMES.isdisjoint(_compared(ast.parse(path.read_text())))] == []


def test_the_row_that_matches_every_script_is_the_last() -> None:
    """A row behind it would never be asked by the flags of a script."""
    assert FRAMEWORKS[-1].name == ""


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name or "script")
def test_rows_are_complete(framework: Framework) -> None:
    """Each row is recognised by something, and names the settings of the facts that sizing needs."""
    assert framework.commands or framework.programs or framework.matches
    assert {"model", "batch", "sequence"} <= framework.settings.keys()
    assert bool(framework.defaults) <= bool(framework.source)


def test_every_fact_of_a_framework_is_read_somewhere() -> None:
    """A mistyped name of a fact would be extracted, and then read by nobody."""
    readers = [path for path in PACKAGE.rglob("*.py") if OWN_FILES not in path.parents]
    read = {text for path in readers for text in _texts(ast.parse(path.read_text()))}
    facts = {fact for row in FRAMEWORKS for fact in (*row.settings, *row.defaults)}
    assert facts <= read
