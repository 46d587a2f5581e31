"""The changes of a plan by name, for one line: jobs, queues, deletions, the other objects by kind, settings."""

from collections import Counter
from collections.abc import Iterator

from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural
from reconciler.plan import Change, JobChange, Operation, Plan
from reconciler.plan.outputs.groups import queue_edit
from reconciler.plan.outputs.summary import short_name
from reconciler.plan.outputs.summary.queues import QueueRow, arrow, gpus, queue_rows

_VERBS = {"added": "adds", "removed": "deletes", "suspended": "suspends", "resumed": "resumes"}


def changed_names(plan: Plan) -> list[str]:
    """Return each change in a few words, the most important first: jobs by the GPUs that they change."""
    resized = sorted((job for job in plan.jobs if job.gpus_before != job.gpus_after), key=_largest)
    queues = [row for row in queue_rows(plan) if row.quota_is_changed and not row.is_total]
    known = {job.key for job in resized}
    names = {row.queue for row in queues}
    rest = [one for one in plan.changes if one.key not in known and not (one.key.name in names and _is_queue(one))]
    moved = {one.key: queue for one in rest if (queue := queue_edit(one))}
    return [
        *map(_job, resized),
        *dict.fromkeys(map(_queue, queues)),
        *(f"{short_name(key.name)} moves to queue {short_name(queue)}" for key, queue in moved.items()),
        *_others([one for one in rest if one.key not in moved]),
        *_settings(plan),
    ]


def _largest(job: JobChange) -> float:
    return -abs(float(job.gpus_after - job.gpus_before))


def _job(job: JobChange) -> str:
    name, verb = short_name(job.key.name), _VERBS.get(job.word)
    if verb is None:
        return f"{name} {arrow(job.gpus_before, job.gpus_after)} GPUs"
    return f"{verb} {name} with {gpus(job.gpus_after or job.gpus_before)}"


def _is_queue(change: Change) -> bool:
    return change.queue == change.key.name


def _queue(row: QueueRow) -> str:
    """Return a queue without its quota, which the headline and the first table have."""
    name = f"{'cohort' if row.is_cohort else 'queue'} {short_name(row.queue)}"
    return f"{'' if row.exists_before else 'adds '}{'' if row.exists_after else 'deletes '}{name}"


def _others(changes: list[Change]) -> Iterator[str]:
    yield from (f"deletes {_named(change.key)}" for change in changes if change.operation is Operation.DELETE)
    left = {change.key.kind: change.key for change in changes if change.operation is not Operation.DELETE}
    kinds = Counter(change.key.kind for change in changes if change.operation is not Operation.DELETE)
    yield from (_named(left[kind]) if count == 1 else plural(count, kind) for kind, count in kinds.most_common())


def _named(key: ObjectKey) -> str:
    return f"{key.kind} {short_name(key.name)}"


def _settings(plan: Plan) -> Iterator[str]:
    """Yield changed settings, first those that become weaker."""
    for one in sorted(plan.settings, key=lambda one: not one.weakens):
        before = f"{short_name(one.before)} → " if one.before else ""
        yield f"{short_name(one.setting)} {before}{short_name(one.after)}{' (weaker)' if one.weakens else ''}"
