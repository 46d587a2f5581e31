"""ProgramCache that an earlier run has left give the same answers as those that are composed."""

import pytest

from reconciler.core.policy.cel import Clause, ProgramCache, activation

PARTS = [Clause(expression="variables.many > 2 && params.on", variables=(("many", "size(object.items)"),))]


def answer(programs: ProgramCache) -> object:
    values = {"object": {"items": [1, 2, 3]}, "params": {"on": True}}
    return programs.compose(PARTS).evaluate(activation(values))


def test_what_was_made_once_is_recalled() -> None:
    first, second = ProgramCache(), ProgramCache()
    assert answer(first) is True
    second.recall(first.made)
    assert answer(second) is True
    assert len(first.made) == 1
    assert not second.made


def test_what_cannot_be_recalled_is_composed() -> None:
    first, second = ProgramCache(), ProgramCache()
    assert answer(first) is True
    second.recall({key: raw[:-1] + b"?" for key, raw in first.made.items()} | {"other": b""})
    assert answer(second) is True


def test_programs_of_other_parts_are_other_programs() -> None:
    programs = ProgramCache()
    assert programs.compose(PARTS) is programs.compose(PARTS)
    assert programs.compose([Clause(expression="false")]) is not programs.compose(PARTS)


def test_several_clauses_with_too_many_variables_are_refused_before_the_engine_sees_them() -> None:
    variables = tuple((f"v{number}", f"object.items[{number}] + {number}") for number in range(20))
    clauses = [Clause(expression=f"variables.v{number} > 0", variables=variables) for number in range(20)]
    with pytest.raises(RuntimeError, match="20 variables are too many"):
        ProgramCache().compose(clauses)


def test_a_refusal_is_remembered_too() -> None:
    """A combination of policies that is too large for the engine is not composed again by the next run."""
    first, second = ProgramCache(), ProgramCache()
    with pytest.raises(RuntimeError) as refused:
        first.compose([Clause(expression="object.(")])
    second.recall(first.made)
    with pytest.raises(RuntimeError) as again:
        second.compose([Clause(expression="object.(")])
    assert str(again.value) == str(refused.value)
    assert len(first.made) == 1
    assert not second.made


def test_a_constant_variable_is_not_a_level_of_nesting() -> None:
    variables = tuple((f"v{number}", f"'item{number}'") for number in range(40))
    clauses = [Clause(expression=f"variables.v{number} in object.items", variables=variables) for number in range(40)]
    program = ProgramCache().compose(clauses)
    values = activation({"object": {"items": [f"item{number}" for number in range(40)]}})
    assert program.evaluate(values) is True
    assert program.evaluate(activation({"object": {"items": ["item0"]}})) is False
