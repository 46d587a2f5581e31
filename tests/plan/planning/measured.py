"""Plans of edited sources in memory, and how many of their changed fields name the edited line."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.kube.objects import SourceRef
from reconciler.kube.reasons import Why
from reconciler.plan import Change, Operation, Plan
from tests.index.fleets import MemoryFleet
from tests.plan.planning.edited_sources import FILES, SourceEdit


class Leaf(Struct, frozen=True, kw_only=True):
    """A changed field of a plan: whether its reasons name the edited line, and whether they name the edited file."""

    kind: str
    path: str
    names_line: bool
    names_file: bool
    reason: str


def rendered_fleet(files: Mapping[str, str] = FILES) -> MemoryFleet:
    """Return a repository whose `rendered/` is what its sources render to."""
    fleet = MemoryFleet(dict(files))
    for path, content in fleet.plan().contents().items():
        if content is not None:
            fleet.repository.work[path] = content
    fleet.repository.save({})
    return fleet


def plan_of(fleet: MemoryFleet, edits: Mapping[str, str]) -> Plan:
    """Return the plan of the working tree with these files, and restore it."""
    kept = {path: fleet.repository.work[path] for path in edits}
    try:
        for path, text in edits.items():
            fleet.write(path, text)
        return fleet.plan().plan
    finally:
        fleet.repository.work.update(kept)


def measure(fleet: MemoryFleet, edit: SourceEdit) -> list[Leaf]:
    """Return the changed fields of a plan of one edit; of a deleted object the object itself."""
    text = FILES[edit.path]
    plan = plan_of(fleet, {edit.path: edit.apply(text)})
    errors = [problem for problem in plan.errors if not problem.rule.startswith("immutable.")]
    assert not errors, (edit, errors)
    expected = edit.expected(text)
    return [
        Leaf(
            kind=edit.kind,
            path=f"{change.path} {path}",
            names_line=any(_is_at(place, expected) for why in reasons for place in _places(why)),
            names_file=any(place.path == edit.path for why in reasons for place, _ in _places(why)),
            reason=" / ".join(_show(why) for why in reasons),
        )
        for change in plan.changes
        for path, reasons in _reasons(change)
    ]


def _reasons(change: Change) -> Iterator[tuple[str, tuple[Why, ...]]]:
    if change.operation is Operation.DELETE:
        yield "", change.because
        return
    for field in change.fields:
        yield field.path, (field.why,) if field.why is not None else ()


def _places(why: Why) -> list[tuple[SourceRef, bool]]:
    return [*((place, False) for place in (*why.edited, *why.places)), *((place, True) for place in why.removed)]


def _is_at(found: tuple[SourceRef, bool], expected: tuple[str, int, bool]) -> bool:
    place, removed = found
    return (place.path, place.line, removed) == expected


def _show(why: Why) -> str:
    return f"{why.rule} {[str(place) for place in why.places]} edited {[*map(str, why.edited)]} removed {[*map(str, why.removed)]}"


def measure_together(fleet: MemoryFleet, edits: tuple[SourceEdit, ...]) -> list[Leaf]:
    """Return the changed fields of a plan of several edits whose cause is known: they change alike in a plan of one."""
    texts = dict(FILES)
    for edit in edits:
        texts[edit.path] = edit.apply(texts[edit.path])
    files = {edit.path: texts[edit.path] for edit in edits}
    plan = plan_of(fleet, files)
    alone = [_values(plan_of(fleet, {edit.path: edit.apply(FILES[edit.path])})) for edit in edits]
    leaves = []
    for change in plan.changes:
        for path, reasons in _reasons(change):
            value = _values_of(change).get(path)
            owners = [edit for edit, values in zip(edits, alone, strict=True) if (change.path, path) in values]
            if len(owners) != 1 or alone[edits.index(owners[0])][change.path, path] != value:
                continue
            expected = owners[0].expected_in(texts[owners[0].path])
            leaves.append(
                Leaf(
                    kind=owners[0].kind,
                    path=f"{change.path} {path}",
                    names_line=any(_is_at(place, expected) for why in reasons for place in _places(why)),
                    names_file=any(place.path == owners[0].path for why in reasons for place, _ in _places(why)),
                    reason=" / ".join(_show(why) for why in reasons),
                )
            )
    return leaves


def _values(plan: Plan) -> dict[tuple[str, str], str]:
    return {(change.path, path): value for change in plan.changes for path, value in _values_of(change).items()}


def _values_of(change: Change) -> dict[str, str]:
    if change.operation is Operation.DELETE:
        return {"": "deleted"}
    return {field.path: repr((field.before, field.after, field.has_before, field.has_after)) for field in change.fields}
