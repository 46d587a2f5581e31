"""ProgramCache that an earlier run has left give the same answers as those that are composed."""

from reconciler.core.policy.cel import Clause, ProgramCache, activation

PARTS = [Clause(expression="variables.many > 2 && params.on", variables=[("many", "size(object.items)")])]


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
