"""Forecast of the workloads of a plan in queues of KAI, by the nodes and the use of GPUs of the evidence."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from reconciler.kinds.kai import is_preemptible, priority_of
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.terms import TreeTerms
from reconciler.kube.objects import ObjectKey
from reconciler.kube.times import is_too_old, unix_time
from reconciler.kube.values import plural
from reconciler.plan.edits import Edit
from reconciler.plan.inputs import Inputs, UsageEvidence
from reconciler.plan.plan import AdmissionLine, Displaced, Operation
from reconciler.queues.forecast.gather import name_of
from reconciler.queues.forecast.kai import KaiJob, KaiOutcome, KaiQueueSpec, forecast_kai
from reconciler.queues.queues import QueueKey, QueueUsage
from reconciler.repo.evidence.usage import SUSPENDED, WAITING, UsedWorkload
from reconciler.sizing.devices import WHOLE_GPUS

STARTS, WAITS, PREEMPTS, NEVER, UNKNOWN = "starts", "waits", "preempts", "never", "unknown"
PREEMPTED, OVER = "preempted", "over"


def asks(edit: Edit) -> bool:
    """Return whether an edit makes a workload ask for quota: it is new, resized, resumed, replaced or elsewhere."""
    old, new = edit.row_before, edit.row_after
    if new is None or not new.is_workload or new.suspended or edit.change.is_refused:
        return False
    if old is None or old.suspended or edit.change.operation is not Operation.UPDATE:
        return True
    fields = ("pod_requests", "workloads", "queue", "queued_as")
    return any(getattr(old, field) != getattr(new, field) for field in fields)


def frees(edit: Edit) -> bool:
    """Return whether an edit makes a workload give back what it holds: it goes, stops, or asks again."""
    new = edit.row_after
    return edit.row_before is not None and (new is None or new.suspended or asks(edit))


def why_old(inputs: Inputs, evidence: UsageEvidence) -> str:
    """Return why the evidence is too old to tell anything; empty if it is not."""
    most = inputs.config.evidence_days
    if most is None or not is_too_old(evidence.days, most):
        return ""
    taken = evidence.found.observed_at
    return f"the evidence of use is of {taken}, and spec.evidence.maxAge allows {plural(most, 'day')}"


def kai_lines(
    inputs: Inputs, evidence: UsageEvidence, changed: Sequence[Edit], usage: QueueUsage
) -> Iterator[AdmissionLine]:
    """Yield a line for each workload in a queue of KAI that asks for GPUs by the change."""
    asking = {edit.change.key: edit.row_after for edit in changed if asks(edit) and edit.row_after is not None}
    rows = {key: row for key, row in asking.items() if row.gpus and _follows(inputs, usage, usage.queue_of(row))}
    if not rows:
        return
    unknown = why_old(inputs, evidence)
    if not unknown and evidence.found.cluster not in inputs.inventories:
        unknown = "there is no evidence of its nodes"
    if unknown:
        yield from (_line(evidence, usage, row, UNKNOWN, unknown) for _, row in sorted(rows.items()))
        return
    gone = {edit.row_before.key for edit in changed if edit.row_before is not None and frees(edit)}
    used = {name_of(one.key): one for one in evidence.found.workloads if one.key not in rows and one.key not in gone}
    outcome = _forecast(inputs, evidence, used, rows, usage)
    for key, row in sorted(rows.items()):
        name = name_of(key)
        if name not in outcome.placed:
            yield _line(evidence, usage, row, WAITS, f"for {outcome.reasons.get(name, 'its turn')}")
            continue
        displaces = tuple(
            displaced(evidence, used[other], used[other].queue, preempted.reason)
            for other, preempted in sorted(outcome.preempted.items())
            if preempted.by == name and other in used and used[other].state != WAITING
        )
        yield _line(evidence, usage, row, PREEMPTS if displaces else STARTS, displaces=displaces)


def _line(
    evidence: UsageEvidence,
    usage: QueueUsage,
    row: ObjectSummary,
    verdict: str,
    reason: str = "",
    *,
    displaces: tuple[Displaced, ...] = (),
) -> AdmissionLine:
    return AdmissionLine(
        cluster=evidence.found.cluster,
        key=row.key,
        queue=usage.queue_of(row).name,
        verdict=verdict,
        reason=reason,
        displaces=displaces,
        observed_at=evidence.found.observed_at,
        evidence_days=evidence.days,
        source=row.place,
    )


def _forecast(
    inputs: Inputs,
    evidence: UsageEvidence,
    used: Mapping[str, UsedWorkload],
    rows: Mapping[ObjectKey, ObjectSummary],
    usage: QueueUsage,
) -> KaiOutcome:
    """Forecast the queues of a cluster with what runs in them; other workloads only take GPUs of their nodes."""
    measured = inputs.inventories[evidence.found.cluster].nodes
    nodes = {node.name: node.gpus if node.is_open else 0 for node in measured}
    products = {node.name: node.product for node in measured}
    tree = {one.queue for one in used.values() if _follows(inputs, usage, _key(usage, one.queue))}
    jobs = [_used(one) for one in used.values() if one.queue in tree and one.gpus and one.state != SUSPENDED]
    for one in used.values():
        for pods in one.pod_sets if one.queue not in tree else ():
            for name, count in pods.nodes:
                nodes[name] = nodes.get(name, 0) - count * pods.pod_gpus
    now = unix_time(evidence.found.observed_at)
    jobs += [_asked(row, usage, now + number) for number, (_, row) in enumerate(sorted(rows.items()), start=1)]
    wanted = {name_of(key): row.product for key, row in rows.items()}
    return forecast_kai(
        _specs(usage), jobs, nodes, lambda job, node: wanted.get(job.name, "") in ("", products.get(node, ""))
    )


def _follows(inputs: Inputs, usage: QueueUsage, queue: QueueKey) -> bool:
    return usage.is_tree(queue) and inputs.kinds.find(queue.group, queue.kind).queueing.follows_kai


def _key(usage: QueueUsage, name: str) -> QueueKey:
    return next((key for key in usage.queues if key.name == name and usage.is_tree(key)), QueueKey("", "", name))


def _specs(usage: QueueUsage) -> Iterator[KaiQueueSpec]:
    for key, row in usage.queues.items():
        if usage.is_tree(key):
            quota = row.quotas[0]
            terms = row.terms if isinstance(row.terms, TreeTerms) else TreeTerms()
            yield KaiQueueSpec(
                name=key.name,
                parent=row.parent,
                quota=inf if quota.guaranteed is None else quota.guaranteed,
                limit=inf if quota.limit is None else quota.limit,
                weight=terms.weight,
                priority=terms.priority,
            )


def _asked(row: ObjectSummary, usage: QueueUsage, created: float) -> KaiJob:
    """Return a new job: its largest pods stand for all of them."""
    whole = [one for one in row.demands if one.resource in WHOLE_GPUS]
    priority = priority_of((row.group, row.kind), row.priority_class, usage.priorities)
    return KaiJob(
        name=name_of(row.key),
        queue=row.queue,
        pods=sum(one.pods - one.spare for one in whole) or 1,
        gpus=int(max((one.gpus_per_pod for one in whole), default=0)),
        priority=priority or 0,
        created=created,
        is_preemptible=is_preemptible(row.preemptibility, priority) is not False,
    )


def _used(one: UsedWorkload) -> KaiJob:
    nodes = [name for pods in one.pod_sets if pods.pod_gpus for name, count in pods.nodes for _ in range(count)]
    return KaiJob(
        name=name_of(one.key),
        queue=one.queue,
        pods=len(nodes) or sum(pods.count for pods in one.pod_sets if pods.pod_gpus),
        gpus=max(pods.pod_gpus for pods in one.pod_sets),
        priority=one.priority,
        created=unix_time(one.created_at),
        is_preemptible=is_preemptible("", one.priority) is not False,
        nodes=tuple(nodes),
    )


def displaced(evidence: UsageEvidence, one: UsedWorkload, queue: str, reason: str) -> Displaced:
    """Return a running workload that another one preempts, with how long it had run by the evidence."""
    ran = max(0, int(unix_time(evidence.found.observed_at) - unix_time(one.started_at))) if one.started_at else None
    return Displaced(key=one.key, queue=queue, gpus=one.gpus, seconds=ran, reason=reason)
