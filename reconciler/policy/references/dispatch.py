"""Workloads that Kueue sends to worker clusters (MultiKueue)."""

from collections.abc import Sequence

from reconciler.kinds.kueue.workers import COPIED
from reconciler.kinds.summary import ObjectSummary
from reconciler.policy.references.rules import Evaluation
from reconciler.queues.queues import QueueUsage


def check_dispatch(evaluation: Evaluation, rows: Sequence[ObjectSummary], usage: QueueUsage) -> Sequence[ObjectSummary]:
    """Check the workloads that run on worker clusters, and return all other objects: their nodes are here."""
    if not usage.dispatchers:
        return rows
    sent: dict[str, list[ObjectSummary]] = {}
    here: list[ObjectSummary] = []
    for row in rows:
        queue = usage.queue_of(row)
        clusters = usage.dispatched_to(queue) if row.is_workload else ""
        if not clusters:
            here.append(row)
            continue
        sent.setdefault(clusters, []).append(row)
        if (row.group, row.kind) not in COPIED:
            message = f"queue {queue.name} runs its workloads on worker clusters, and MultiKueue copies no {row.kind}"
            hint = "use a Job, a JobSet or a queue without MultiKueue; or configure Kueue's external frameworks"
            evaluation.report("quota.multikueue", row, message, hint=hint, field=row.references[0].field)
    for clusters, workloads in sorted(sent.items()):
        first = min(workloads, key=lambda row: row.place)
        others = f" and {len(workloads) - 1} more" if len(workloads) > 1 else ""
        message = f"runs on a cluster of MultiKueueConfig {clusters}, so its GPUs are not checked (this object{others})"
        hint = "check the nodes of these clusters; what it mounts and names must exist on each of them"
        evaluation.report("quota.workers", first, message, hint=hint)
    return here
