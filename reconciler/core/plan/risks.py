"""Risks: what a reviewer must see before approving, because Git can undo the text and not the effect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from reconciler.core.kinds.facts import KindId
from reconciler.core.manifests.ownership import IMMUTABLE, KEEP
from reconciler.core.objects import ObjectKey, SourceRef
from reconciler.core.plan.edits import Edit, source_of
from reconciler.core.plan.inputs import Inputs
from reconciler.core.plan.plan import Operation, QueueLine, Risk
from reconciler.core.plan.sides import Sides
from reconciler.core.quantities import parse_quantity
from reconciler.core.queues import QueueUsage
from reconciler.core.summary import ObjectSummary


def risks(
    edits: Sequence[Edit], sides: Sides, queues: Iterable[QueueLine], after: Mapping[str, QueueUsage], inputs: Inputs
) -> tuple[Risk, ...]:
    """Return every risk, those that lose data first."""
    found: list[Risk] = []
    is_any_gone = any(edit.change.operation in _GONE for edit in edits)
    users = _users(chain(inputs.common.rows(), sides.after.values())) if is_any_gone else {}
    for edit in edits:
        if edit.change.operation in _GONE:
            found += _gone(edit, users, inputs)
        if edit.change.operation is Operation.UPDATE:
            found += _updated(edit)
        found += _suspended(edit)
    found += _kept(sides, inputs.config.rendered)
    found += _quotas(queues, after)
    return tuple(sorted(found, key=_weight))


_GONE = (Operation.DELETE, Operation.MOVE)
_Target = tuple[str, KindId, str, str]
"""Cluster, kind, namespace and name of an object that others refer to."""
_ORDER = (
    "risk.pvc-data-loss",
    "risk.namespace-delete",
    "risk.crd-delete",
    "risk.queue-delete",
    "risk.workload-delete",
    "risk.immutable-object",
    "risk.recreate",
    "risk.not-applied",
    "risk.pvc-shrink",
    "risk.quota-below-requests",
    "risk.suspend",
    "risk.kept",
)
RISKS: Mapping[str, str] = {
    "risk.pvc-data-loss": "a claim is deleted or renamed, and its volume with it unless the class retains it",
    "risk.namespace-delete": "a namespace is deleted with everything in it, also what this repository does not know",
    "risk.crd-delete": "a definition is deleted, and with it every object of its kind",
    "risk.queue-delete": "a queue is deleted: its workloads are no longer admitted",
    "risk.workload-delete": "a workload with GPUs is deleted or renamed: what runs of it stops",
    "risk.immutable-object": "an object that its owner marked as immutable changes",
    "risk.recreate": "a field changes that the API server only accepts on a new object",
    "risk.not-applied": "a change reaches no pod that runs already: those go on as they are",
    "risk.pvc-shrink": "a claim asks for less than before: the API server refuses to shrink a volume",
    "risk.quota-below-requests": "a queue's guarantee falls below what this repository's own workloads ask of it",
    "risk.suspend": "a workload with GPUs is suspended: its pods are removed",
    "risk.kept": "an object is no longer asked for, but is marked to be kept",
}
"""Every risk and what it means: the catalogue."""


def _weight(risk: Risk) -> tuple[int, str, str, str]:
    return (_ORDER.index(risk.rule), risk.cluster, str(risk.key), risk.message)


def _users(rows: Iterable[ObjectSummary]) -> Mapping[_Target, int]:
    """Count, by cluster, kind, namespace and name, the objects that refer to another one."""
    users: dict[_Target, int] = {}
    for row in rows:
        for reference in row.references:
            target = (row.cluster, (reference.group, reference.kind), reference.namespace, reference.name)
            users[target] = users.get(target, 0) + 1
    return users


def _old_key(edit: Edit) -> ObjectKey:
    return edit.row_before.key if edit.row_before else edit.change.key


def _of(edit: Edit, rule: str, message: str, hint: str) -> Risk:
    return Risk(
        rule=rule, cluster=edit.change.cluster, key=_old_key(edit), message=message, hint=hint, place=source_of(edit)
    )


def _gone(edit: Edit, users: Mapping[_Target, int], inputs: Inputs) -> Iterator[Risk]:
    key = _old_key(edit)
    cluster = edit.row_before.cluster if edit.row_before else edit.change.cluster
    verb = "renamed, which deletes the old one" if edit.change.operation is Operation.MOVE else "deleted"
    deletion = inputs.kinds.find(key.group, key.kind).deletion
    if deletion is not None:
        left = users.get((cluster, (key.group, key.kind), key.namespace, key.name), 0)
        still = (
            f"; {left} object{'s' if left > 1 else ''} of this repository still refer{'' if left > 1 else 's'} to it"
        )
        message = f"the {deletion.noun} is {verb}{deletion.effect}{still if left and deletion.names_users else ''}"
        yield _of(edit, deletion.rule, message, deletion.hint)
    elif edit.row_before and edit.row_before.is_workload and edit.change.gpus_before:
        gpus = edit.change.gpus_before
        yield _of(
            edit,
            "risk.workload-delete",
            f"the workload is {verb}: what runs on its {gpus} GPUs stops",
            "let it finish or save a checkpoint first",
        )


def _updated(edit: Edit) -> Iterator[Risk]:
    found = edit.comparison
    if found is None or not found.replaces:
        return
    if found.is_immutable and edit.change.fields:
        yield _of(
            edit,
            "risk.immutable-object",
            f"it is marked {IMMUTABLE} and changes in {_listed(edit)}",
            "make a new object under another name, or remove the annotation in a change of its own",
        )
    frozen = _differing(edit, found.frozen)
    if frozen:
        yield _of(
            edit,
            "risk.recreate",
            f"{', '.join(frozen)} cannot be changed in place: the API server refuses",
            "rename the object, or delete it in the cluster so that it is created anew; what runs of it stops",
        )
    unapplied = _differing(edit, found.unapplied)
    if unapplied:
        yield _of(
            edit,
            "risk.not-applied",
            f"{', '.join(unapplied)}: the operator replaces no pod that runs, so they go on as they are",
            "suspend the job in one change and let it go on in the next, or rename it",
        )
    yield from _shrunk(edit, *found.storage)


def _differing(edit: Edit, paths: Iterable[str]) -> list[str]:
    """Return the paths at or below which the meaning differs: 1Gi and 1024Mi are one to the API server as well."""
    changed = [change.path for change in edit.change.fields]
    return [path for path in paths if any(f"{one}.".startswith((f"{path}.", f"{path}[")) for one in changed)]


def _listed(edit: Edit) -> str:
    shown = [change.path for change in edit.change.fields[:3]]
    more = len(edit.change.fields) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _shrunk(edit: Edit, was: Any, now: Any) -> Iterator[Risk]:
    left = parse_quantity(was) if isinstance(was, str | int) else None
    right = parse_quantity(now) if isinstance(now, str | int) else None
    if left is not None and right is not None and right < left:
        yield _of(
            edit,
            "risk.pvc-shrink",
            f"the claim asks for {now} instead of {was}: a volume cannot shrink",
            "keep the size, or move the data to a new, smaller claim",
        )


def _suspended(edit: Edit) -> Iterator[Risk]:
    before, after = edit.row_before, edit.row_after
    if before and after and after.suspended and not before.suspended and before.gpus:
        yield _of(
            edit,
            "risk.suspend",
            f"suspending it removes the pods that hold {before.gpus} GPUs",
            "make sure that it can go on from a checkpoint",
        )


def _kept(sides: Sides, rendered: str) -> Iterator[Risk]:
    for path in sides.kept:
        row = sides.before.get(path)
        if row is not None:
            yield Risk(
                rule="risk.kept",
                cluster=row.cluster,
                key=row.key,
                message="nothing asks for it any more, but it is marked to be kept, so it stays",
                hint=f"to let it go, remove the annotation {KEEP} from the rendered file in a change of its own",
                place=SourceRef(path=f"{rendered}/{path}"),
            )


def _quotas(queues: Iterable[QueueLine], after: Mapping[str, QueueUsage]) -> Iterator[Risk]:
    for line in queues:
        if line.after is None or not line.exists_after or line.after >= line.requested:
            continue
        if not line.exists_before or (line.before is not None and line.before <= line.after):
            continue
        row = _queue_row(after[line.cluster], line.queue)
        if row is not None:
            was = "unlimited" if line.before is None else f"{line.before:g}"
            product = f" {line.product}" if line.product else ""
            yield Risk(
                rule="risk.quota-below-requests",
                cluster=line.cluster,
                key=row.key,
                message=f"guarantees {line.after:g}{product} GPUs instead of {was}, its workloads ask {line.requested}",
                hint="workloads over the guarantee wait or can be preempted: keep the quota or shrink the workloads",
                place=row.place,
            )


def _queue_row(usage: QueueUsage, name: str) -> ObjectSummary | None:
    return next((row for key, row in sorted(usage.queues.items()) if key.name == name), None)
