"""Checked expressions that an earlier run has left give the same answers as those that are checked again."""

from collections.abc import Callable

import pytest
import yaml
from msgspec.structs import replace

from reconciler.kube.cel import Activation, Program
from reconciler.kube.yaml import read
from reconciler.policy.admission.policies import Policy, Validation, read_policy
from reconciler.policy.admission.programs import Programs

SPEC = {
    "matchConstraints": {"resourceRules": []},
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "variables": [{"name": "many", "expression": "object.items.map(x, uint(x)).sum()"}],
    "validations": [{"expression": "variables.many > 2u && params.on && lists.range(2).size() == 2"}],
}


def policy(name: str = "rule") -> Policy:
    body = {"apiVersion": "v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": SPEC}
    (document,) = read("rule.yaml", yaml.safe_dump(body).encode()).documents
    return read_policy(document)[0]


def answer(programs: Programs) -> object:
    (program,) = programs.of(policy()).validations
    assert isinstance(program, Program)
    values = Activation({"object": {"items": [1, 2, 3]}})
    values.bind(1, {"on": True})
    return program.evaluate(values)


@pytest.fixture(params=["the same process", "another process"])
def begin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Programs]:
    """Return what begins another run: in a process that has built no programs, or in the same one."""

    def made() -> Programs:
        if request.param == "another process":
            monkeypatch.setattr(Programs, "_built", {})
            monkeypatch.setattr(Programs, "_known", {})
        return Programs()

    return made


def test_what_was_made_once_is_recalled(begin: Callable[[], Programs]) -> None:
    first = begin()
    assert answer(first) is True
    second = begin()
    second.recall(first.made)
    assert answer(second) is True
    assert len(first.made) == 2
    assert not second.made


def test_what_cannot_be_recalled_is_checked_again(begin: Callable[[], Programs]) -> None:
    first = begin()
    assert answer(first) is True
    second = begin()
    second.recall({key: raw[:-1] for key, raw in first.made.items()} | {"other": b""})
    assert answer(second) is True
    assert second.made == first.made


def test_every_run_has_what_a_later_one_recalls(begin: Callable[[], Programs]) -> None:
    """The cache of another repository is as full, whoever built the programs."""
    first = begin()
    assert answer(first) is True
    second = begin()
    assert answer(second) is True
    assert second.made == first.made


def test_many_policies_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that runs for long does not keep the programs of every policy that it ever saw."""
    monkeypatch.setattr("reconciler.policy.admission.programs._MAX_KEPT", 2)
    monkeypatch.setattr(Programs, "_built", {})
    monkeypatch.setattr(Programs, "_known", {})
    programs = Programs()
    for text in ("1 < 2", "1 < 3", "1 < 4"):
        programs.of(replace(policy(), validations=(Validation(expression=text),)))
    assert len(Programs._built) == 1
    assert len(programs.made) == 4


def test_equal_expressions_of_different_policies_are_one_program() -> None:
    programs = Programs()
    one, other = policy("one"), policy("other")
    assert programs.of(one) is programs.of(one)
    assert programs.of(one).validations == programs.of(other).validations
