"""`Edit`: a change together with what it was made from, which risks are judged by and a plan does not keep."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.objects import ObjectKey
from reconciler.core.plan.comparison import Comparison, compare, redacted
from reconciler.core.plan.differences import differences
from reconciler.core.plan.inputs import Inputs
from reconciler.core.plan.moves import Move, find_moves
from reconciler.core.plan.plan import Change, FieldChange, Operation
from reconciler.core.plan.sides import Sides
from reconciler.core.reasons import Why
from reconciler.core.summary import ObjectSummary

MOST_DETAILED = 500
"""Creations (and deletions) that are listed field by field, the first by path. Nobody reads thousands of whole objects
in a plan, and they would fill the memory; `rendered/` shows them, and `explain` says why they are what they are."""

_MOST_REASONS = 8  # that a change lists of its own: every field has its own anyway


class Edit(Struct, frozen=True, kw_only=True):
    """One change and what it was computed from; what is only counted, or only goes, was compared with nothing."""

    change: Change
    comparison: Comparison | None
    row_before: ObjectSummary | None
    row_after: ObjectSummary | None


def edits(inputs: Inputs, sides: Sides) -> tuple[Edit, ...]:
    """Return every change, in the order of clusters, namespaces, kinds and names."""
    moves = find_moves(inputs, sides)
    arrived, left = {move.new for move in moves}, {move.old for move in moves}
    created = [path for path in sides.created if path not in arrived]
    deleted = [path for path in sides.deleted if path not in left]
    found = [_moved(inputs, sides, move) for move in moves]
    found += [_written(inputs, sides, path, Operation.CREATE) for path in created[:MOST_DETAILED]]
    found += [_created(inputs, sides, path) for path in created[MOST_DETAILED:]]
    found += [_written(inputs, sides, path, Operation.UPDATE) for path in sides.updated]
    found += [_deleted(inputs, sides, path) for path in deleted[:MOST_DETAILED]]
    found += [_deleted(inputs, sides, path, detailed=False) for path in deleted[MOST_DETAILED:]]
    return tuple(sorted(found, key=lambda edit: _order(edit.change)))


def _order(change: Change) -> tuple[str, str, str, str, str]:
    key = change.key
    return (change.cluster, key.namespace, key.kind, key.name, change.path)


def running(row: ObjectSummary | None) -> int:
    """GPUs that a row asks for now: none while it is suspended."""
    return 0 if row is None or row.suspended else row.gpus


def _written(inputs: Inputs, sides: Sides, path: str, operation: Operation) -> Edit:
    return _edit(inputs, sides, operation, path, path)


def _moved(inputs: Inputs, sides: Sides, move: Move) -> Edit:
    edit = _edit(inputs, sides, Operation.MOVE, move.old, move.new)
    return replace(edit, change=replace(edit.change, moved_from=f"{inputs.config.rendered}/{move.old}"))


def _edit(inputs: Inputs, sides: Sides, operation: Operation, old: str, new: str) -> Edit:
    found = inputs.comparisons.get(new) if operation is Operation.UPDATE else None
    if found is None:
        before = None if operation is Operation.CREATE else inputs.body(old)
        found = compare(
            inputs.kinds, before, inputs.manifest(new), list_keys=inputs.list_keys, is_quantity=inputs.is_quantity
        )
    row_before, row_after = sides.before.get(old) if found.replaces else None, sides.after[new]
    change = Change(
        operation=operation,
        cluster=found.cluster,
        key=found.key,
        path=f"{inputs.config.rendered}/{new}",
        source=found.source,
        fields=found.fields,
        because=_because(found.fields) or (_SAME_MEANING if found.replaces else (found.whole,)),
        gpus_before=running(row_before),
        gpus_after=running(row_after),
        digest_before=inputs.existing.get(old, "") if operation is not Operation.CREATE else "",
        digest_after=row_after.digest,
        sizing=found.sizing,
    )
    return Edit(change=change, comparison=found, row_before=row_before, row_after=row_after)


_SAME_MEANING = (Why(rule="plan.formatting", text="the bytes differ, the meaning does not"),)
_NO_SOURCE = (Why(rule="plan.no-source", text="no document asks for it any more"),)


def _created(inputs: Inputs, sides: Sides, path: str) -> Edit:
    """Make a creation from its row alone: no manifest is rendered for it."""
    row = sides.after[path]
    change = Change(
        operation=Operation.CREATE,
        cluster=row.cluster,
        key=row.key,
        path=f"{inputs.config.rendered}/{path}",
        source=row.place,
        because=(Why(rule="plan.new", text="a document asks for it", places=(row.place,), fields=("",)),),
        gpus_after=running(row),
        digest_after=row.digest,
    )
    return Edit(change=change, comparison=None, row_before=None, row_after=row)


def _deleted(inputs: Inputs, sides: Sides, path: str, *, detailed: bool = True) -> Edit:
    body, row = inputs.body(path), sides.before.get(path)
    change = Change(
        operation=Operation.DELETE,
        cluster=row.cluster if row else path.partition("/")[0],
        key=row.key if row else _key_of(path),
        path=f"{inputs.config.rendered}/{path}",
        source=None,
        fields=redacted(differences(body, None)) if body and detailed else (),
        because=_NO_SOURCE,
        gpus_before=running(row),
        digest_before=inputs.existing[path],
    )
    return Edit(change=change, comparison=None, row_before=row, row_after=None)


def _key_of(path: str) -> ObjectKey:
    """Guess a key from a path: all there is of a file that cannot be read."""
    _, _, below = path.partition("/")
    namespace, _, file = below.rpartition("/")
    kind, _, name = file.removesuffix(".yaml").partition("-")
    return ObjectKey(group="", kind=kind, namespace="" if namespace == "_cluster" else namespace, name=name)


def _because(fields: Iterable[FieldChange]) -> tuple[Why, ...]:
    """Distinct reasons of the fields, the one that speaks for most of them first; places are those of its fields."""
    weights: dict[tuple[str, str], int] = {}
    first: dict[tuple[str, str], Why] = {}
    for change in fields:
        if change.why is not None:
            reason = (change.why.rule, change.why.text)
            weights[reason] = weights.get(reason, 0) + 1
            first.setdefault(reason, change.why)
    ordered = sorted(first, key=lambda reason: (-weights[reason], reason))
    return tuple(first[reason] for reason in ordered[:_MOST_REASONS])
