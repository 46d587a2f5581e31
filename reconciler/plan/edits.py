"""`Edit`: a change with the summaries and the comparison that it was computed from, which a plan does not keep."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.facts import Loss
from reconciler.kinds.kind import Kinds
from reconciler.kinds.quantities import Gpus, exact
from reconciler.kinds.summary import ObjectSummary, Uncounted
from reconciler.kube.objects import ObjectKey
from reconciler.kube.reasons import Why
from reconciler.plan.causes import Cause
from reconciler.plan.changed_paths import ChangedPaths
from reconciler.plan.comparison import Comparison, compare, redact_reasons, team_of
from reconciler.plan.differences import differences
from reconciler.plan.inputs import Inputs
from reconciler.plan.moves import Move, find_moves, find_replacements, without
from reconciler.plan.plan import Change, FieldChange, Operation

MOST_DETAILED = 500
"""Most creations, and most deletions, whose fields a plan lists; the first by path.

A plan with thousands of whole objects would fill the memory. `rendered/` has them, and `explain` has their reasons.
"""

_MAX_REASONS = 8  # that a change lists besides those of its fields
_NO_SOURCE = Why(rule="plan.no-source", text="no source document defines it any more")
_REMOVED = (Why(rule="plan.kept-removed", text="its file was removed from rendered/, although an annotation keeps it"),)
_SAME_MEANING = (Why(rule="plan.formatting", text="the bytes differ, but not the meaning"),)


class Edit(Struct, frozen=True, kw_only=True):
    """A change and what it was computed from. Deletions and creations without details have no comparison."""

    change: Change
    comparison: Comparison | None
    row_before: ObjectSummary | None
    row_after: ObjectSummary | None
    losses: tuple[Loss, ...] = ()


def make_edits(inputs: Inputs, paths: ChangedPaths) -> tuple[Edit, ...]:
    """Return every change, ordered by cluster, namespace, kind and name."""
    replacements = find_replacements(paths.created, paths.deleted)
    rest = without(paths, replacements)
    moves = find_moves(inputs, rest)
    rest = without(rest, moves)
    created, deleted = rest.created, rest.deleted
    edits = [
        *(_replacement(inputs, paths, replacement) for replacement in replacements),
        *(_move(inputs, paths, move) for move in moves),
        *(_create_detailed(inputs, paths, path) for path in created[:MOST_DETAILED]),
        *(_create(inputs, paths, path) for path in created[MOST_DETAILED:]),
        *(_compare(inputs, paths, Operation.UPDATE, path, path) for path in paths.updated),
        *(_delete(inputs, paths, path, detailed=True) for path in deleted[:MOST_DETAILED]),
        *(_delete(inputs, paths, path, detailed=False) for path in deleted[MOST_DETAILED:]),
    ]
    return tuple(sorted(edits, key=lambda edit: _sort_key(edit.change)))


def _sort_key(change: Change) -> tuple[str, str, str, str, str]:
    key = change.key
    return (change.cluster, key.namespace, key.kind, key.name, change.path)


def running_gpus(row: ObjectSummary | None) -> Gpus:
    """Return the GPUs that an object requests now: none while it is suspended."""
    return 0 if row is None or row.suspended else row.gpus


def unknown_gpus(row: ObjectSummary | None) -> tuple[Uncounted, ...]:
    """Return what an object requests now, and no figure includes: nothing while it is suspended."""
    return () if row is None or row.suspended or row.provides else row.uncounted


_STOPPING = (Operation.DELETE, Operation.MOVE, Operation.REPLACE)


def stopped_gpus(edit: Edit) -> Gpus:
    """Return the GPUs whose running pods a change stops: it deletes, replaces, restarts, shrinks or suspends them."""
    before, after, comparison = edit.row_before, edit.row_after, edit.comparison
    if before is None or not before.is_workload or edit.change.is_refused or (after is not None and after.finished):
        return 0
    is_stopped = edit.change.operation in _STOPPING or (comparison is not None and comparison.restarts)
    return running_gpus(before) if is_stopped else exact(max(0, running_gpus(before) - running_gpus(after)))


def stops_unknown_gpus(edit: Edit, kinds: Kinds) -> bool:
    """Return whether a change may stop running pods that nobody could count.

    Of a kind that nobody knows, any field may stop them, except those of its metadata.
    """
    before, after, comparison = edit.row_before, edit.row_after, edit.comparison
    if before is None or edit.change.is_refused or not unknown_gpus(before) or (after is not None and after.finished):
        return False
    if edit.change.operation in _STOPPING or not unknown_gpus(after) or comparison is None or comparison.restarts:
        return True
    is_known = kinds.is_known(before.group, before.kind)
    return not is_known and any(not field.path.startswith("metadata.") for field in comparison.fields)


def _move(inputs: Inputs, paths: ChangedPaths, move: Move) -> Edit:
    edit = _compare(inputs, paths, Operation.MOVE, move.old, move.new)
    return replace(
        edit,
        change=replace(edit.change, moved_from=f"{inputs.config.rendered}/{move.old}", declared=move.declared),
        losses=_losses_of_deletion(inputs, edit.row_before, move.old),
    )


def _losses_of_deletion(inputs: Inputs, row: ObjectSummary | None, path: str) -> tuple[Loss, ...]:
    losses = inputs.kinds.find(row.group, row.kind).life.losses if row else None
    body = inputs.body(path) if losses else None
    return tuple(losses(body, None)) if losses and body else ()


def _replacement(inputs: Inputs, paths: ChangedPaths, replacement: Move) -> Edit:
    """Return a new generation of a job. An object that only follows the job's name, such as its Service, moves."""
    edit = _move(inputs, paths, replacement)
    row = edit.row_after
    operation = Operation.REPLACE if row is not None and row.is_workload else Operation.MOVE
    return replace(edit, change=replace(edit.change, operation=operation))


def _compare(inputs: Inputs, paths: ChangedPaths, operation: Operation, old: str, new: str) -> Edit:
    """Compare a rendered object with the existing one, unless that has been done already."""
    is_new = operation is Operation.CREATE
    comparison = None if is_new else inputs.comparisons.get((old, new))
    if comparison is None:
        before = None if is_new else inputs.body(old)
        manifest = inputs.manifest(new)
        cause = inputs.causes.of_object(manifest, "" if is_new else old)
        comparison = compare(inputs.kinds, inputs.schemas, before, manifest, cause)
    row_before, row_after = paths.before.get(old) if comparison.replaces else None, paths.after[new]
    if operation is Operation.UPDATE and comparison.frozen:
        operation = Operation.REPLACE
    change = Change(
        operation=operation,
        cluster=comparison.cluster,
        key=comparison.key,
        path=f"{inputs.config.rendered}/{new}",
        source=comparison.source,
        fields=comparison.fields,
        because=_main_reasons(comparison.fields) or (_SAME_MEANING if comparison.replaces else (comparison.why,)),
        gpus_before=running_gpus(row_before),
        gpus_after=running_gpus(row_after),
        digest_before="" if is_new else inputs.existing.get(old, ""),
        digest_after=row_after.digest,
        sizing=comparison.sizing,
        team=comparison.team,
        recreated=comparison.recreated if operation is Operation.REPLACE else "",
    )
    losses = comparison.losses
    if change.recreated:
        losses += _losses_of_deletion(inputs, row_before, old)
    return Edit(change=change, comparison=comparison, row_before=row_before, row_after=row_after, losses=losses)


def _create_detailed(inputs: Inputs, paths: ChangedPaths, path: str) -> Edit:
    """Return a creation with its fields: those of the saved plan, if that creates the same object."""
    known = inputs.reviewed.get(path)
    if known is None or known.digest_after != paths.after[path].digest:
        return _compare(inputs, paths, Operation.CREATE, path, path)
    edit = _create(inputs, paths, path)
    details = {name: getattr(known, name) for name in ("fields", "because", "sizing", "team")}
    return replace(edit, change=replace(edit.change, **details))


def _create(inputs: Inputs, paths: ChangedPaths, path: str) -> Edit:
    """Return a creation without fields. It needs no manifest."""
    row = paths.after[path]
    reason = Why(rule="plan.new", text="a source document defines it", places=(row.place,), fields=("",))
    change = Change(
        operation=Operation.CREATE,
        cluster=row.cluster,
        key=row.key,
        path=f"{inputs.config.rendered}/{path}",
        source=row.place,
        because=(reason,),
        gpus_after=running_gpus(row),
        digest_after=row.digest,
    )
    return Edit(change=change, comparison=None, row_before=None, row_after=row)


def _delete(inputs: Inputs, paths: ChangedPaths, path: str, *, detailed: bool) -> Edit:
    body, row = inputs.body(path), paths.before.get(path)
    cause = inputs.causes.of_deletion(path) if detailed else Cause()
    change = Change(
        operation=Operation.DELETE,
        cluster=row.cluster if row else path.partition("/")[0],
        key=row.key if row else _key_from_path(path),
        path=f"{inputs.config.rendered}/{path}",
        source=None if inputs.config.is_rendered else inputs.place(path),
        fields=redact_reasons(differences(body, None)) if body and detailed else (),
        because=_REMOVED if path in inputs.lost else (replace(_NO_SOURCE, edited=cause.edited, removed=cause.removed),),
        gpus_before=running_gpus(row),
        digest_before=inputs.existing[path],
        team=team_of(body),
    )
    losses = _losses_of_deletion(inputs, row, path)
    return Edit(change=change, comparison=None, row_before=row, row_after=None, losses=losses)


def _key_from_path(path: str) -> ObjectKey:
    """Return the key that a path suggests, for a file that cannot be read."""
    _, _, below = path.partition("/")
    namespace, _, file = below.rpartition("/")
    kind, _, name = file.removesuffix(".yaml").partition("-")
    return ObjectKey(group="", kind=kind, namespace="" if namespace == "_cluster" else namespace, name=name)


def _main_reasons(fields: Iterable[FieldChange]) -> tuple[Why, ...]:
    """Return the distinct reasons of the fields, the most frequent first, with the places of their first field."""
    reasons = [change.why for change in fields if change.why is not None]
    counts = Counter((why.rule, why.text) for why in reasons)
    first = {(why.rule, why.text): why for why in reversed(reasons)}
    ordered = sorted(counts, key=lambda reason: (-counts[reason], reason))
    return tuple(first[reason] for reason in ordered[:_MAX_REASONS])
