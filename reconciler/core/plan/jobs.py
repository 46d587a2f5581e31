"""Workloads in one word each: added, removed, resized, suspended or resumed."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.core.plan.edits import Edit, running
from reconciler.core.plan.plan import JobChange
from reconciler.core.queues import QueueUsage
from reconciler.core.summary import ObjectSummary

_EMPTY = QueueUsage()


def job_changes(
    edits: Iterable[Edit], before: Mapping[str, QueueUsage], after: Mapping[str, QueueUsage]
) -> tuple[JobChange, ...]:
    """Return the workloads whose pods or GPUs change, in the order of the edits; a move alone changes none.

    A job that grows beyond one node may become another kind: one goes, one of its name comes, and it is one resize.
    """
    found = []
    for edit in edits:
        row = edit.row_after or edit.row_before
        word = _word(edit.row_before, edit.row_after)
        if row is None or not word:
            continue
        usage = (after if edit.row_after else before).get(row.cluster, _EMPTY)
        queue = usage.queue_of(row).name
        found.append(
            JobChange(
                word=word,
                cluster=row.cluster,
                key=row.key,
                queue=queue,
                product=row.product,
                gpus_before=running(edit.row_before),
                gpus_after=running(edit.row_after),
                source=edit.change.source,
            )
        )
    return tuple(_joined(found))


def _joined(found: list[JobChange]) -> Iterator[JobChange]:
    added = {_name(change): change for change in found if change.word == "added"}
    removed = {_name(change): change for change in found if change.word == "removed"}
    for change in found:
        gone, come = removed.get(_name(change)), added.get(_name(change))
        if gone is None or come is None or change not in (gone, come):
            yield change
        elif change is come:
            yield replace(change, word="resized", gpus_before=gone.gpus_before)


def _name(change: JobChange) -> tuple[str, str, str]:
    return (change.cluster, change.key.namespace, change.key.name)


def _word(before: ObjectSummary | None, after: ObjectSummary | None) -> str:
    was, now = before is not None and before.is_workload, after is not None and after.is_workload
    if not was or before is None:
        return "added" if now else ""
    if not now or after is None:
        return "removed"
    if before.suspended != after.suspended:
        return "suspended" if after.suspended else "resumed"
    return "resized" if (before.demands, before.pods) != (after.demands, after.pods) else ""
