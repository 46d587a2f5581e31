"""The status of each job: what its own status says, refined by its queue, its pods and the evidence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.agentaflow.wishes import placement_wish
from reconciler.kinds.facts import QueueRole
from reconciler.kinds.kind import Kinds
from reconciler.kinds.kueue import CLUSTER_QUEUE
from reconciler.kinds.kueue.labels import QUEUE_LABEL
from reconciler.kinds.kueue.workers import is_dispatched
from reconciler.kinds.manifests.ownership import is_owned
from reconciler.kinds.pods import is_paused, is_suspended
from reconciler.kinds.progress import ENDED, Phase, Progress, Workers, conditions, holds
from reconciler.kinds.quantities import Gpus
from reconciler.kinds.summary import ObjectSummary, summarize
from reconciler.kinds.summary.object_summary import Demand
from reconciler.kinds.workloads import PERSISTENT_VOLUME_CLAIM
from reconciler.kube.objects import ObjectKey
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import mapping, metadata_text, plural, sequence, text
from reconciler.live.observe.runs import key_of
from reconciler.live.status.live import ClusterObjects
from reconciler.live.status.pods import (
    Waiting,
    count_pods,
    is_preempted,
    restarts_of,
    why_pods_crash,
    why_pods_sync,
    why_pods_wait,
)
from reconciler.repo.evidence.runs import FinishedRun
from reconciler.sizing.devices import product_label

# Why a job waits, in words: its queue, the GPUs of the cluster, the quota, a check, a node, an image.


Body = Mapping[str, Any]

_QUOTA = ("quota", "exceeds", "borrowing", "limit")

_FLAVOR = ("taint", "affinity", "flavor", "topology")


def why_waiting(job: Body, row: ObjectSummary, state: ClusterObjects) -> Waiting | None:
    """Return the first thing that keeps a job from running; None if nothing says so."""
    gpus = None if is_dispatched(job) else _gpus(row, state)
    for finding in (_queue(row, state), gpus, _workload(job, state), _pod_groups(job, state)):
        if finding is not None:
            return finding
    if state.pods is None:
        return None
    return why_pods_wait(state.pods_of(job))


def unbound_claim(row: ObjectSummary, state: ClusterObjects, waiting: Waiting | None) -> Waiting | None:
    """Return the claim that the pods of a job wait for, if nothing else holds it; None if all are bound."""
    if waiting is not None and waiting.reason != "Volume":
        return None
    named = {(one.namespace, one.name) for one in row.references if (one.group, one.kind) == PERSISTENT_VOLUME_CLAIM}
    for claim in (state.claims or ()) if named else ():
        key = (metadata_text(claim, "namespace"), metadata_text(claim, "name"))
        if key in named and mapping(claim.get("status")).get("phase") == "Pending":
            storage = text(mapping(claim.get("spec")).get("storageClassName"))
            message = f"claim {key[1]} is Pending{f' (storage class {storage})' if storage else ''}"
            said = f": {waiting.message}" if waiting is not None else ""
            return Waiting(reason="Volume", message=message + said)
    return None


def worker_cluster(job: Body, state: ClusterObjects) -> Waiting | None:
    """Return the worker cluster that MultiKueue chose for a job; None if it runs here, or none is chosen yet."""
    workload = state.workload_of(job) if is_dispatched(job) and state.workloads is not None else None
    name = text(mapping(workload.get("status")).get("clusterName")) if workload is not None else ""
    return Waiting(reason="WorkerCluster", message=f"on worker cluster {name}") if name else None


def _queue(row: ObjectSummary, state: ClusterObjects) -> Waiting | None:
    """Check the queue that the job names."""
    if not row.queue:
        return None
    if row.queue_role is QueueRole.ALIAS:
        return _alias(row, state)
    if state.queues is not None and _named(state.queues, row.queue_kind[1], row.queue) is None:
        return Waiting(reason="QueueNotFound", message=f"queue {row.queue} does not exist")
    return None


def _alias(row: ObjectSummary, state: ClusterObjects) -> Waiting | None:
    if state.aliases is None or state.queues is None:
        return None
    same = [body for body in state.aliases if metadata_text(body, "name") == row.queue]
    alias = next((body for body in same if metadata_text(body, "namespace") == row.namespace), None)
    if alias is None:
        if not same:
            return Waiting(reason="QueueNotFound", message=f"no LocalQueue {row.queue} in namespace {row.namespace}")
        where = ", ".join(sorted(metadata_text(body, "namespace") for body in same))
        message = f"LocalQueue {row.queue} is in namespace {where}, not in {row.namespace}"
        return Waiting(reason="WrongQueueNamespace", message=message)
    name = text(mapping(alias.get("spec")).get("clusterQueue"))
    target = _named(state.queues, CLUSTER_QUEUE[1], name)
    if target is None:
        message = f"ClusterQueue {name} of LocalQueue {row.queue} does not exist"
        return Waiting(reason="ClusterQueueNotFound", message=message)
    for body in (target, alias):
        active = conditions(body).get("Active", {})
        if active.get("status") == "False":
            detail = text(active.get("message")) or text(active.get("reason"))
            return Waiting(
                reason="QueueStopped", message=f"{text(body.get('kind'))} {metadata_text(body, 'name')}: {detail}"
            )
    return None


def _gpus(row: ObjectSummary, state: ClusterObjects) -> Waiting | None:
    """Compare the GPUs that the job requests with those of all nodes, whether they are free or not."""
    if state.nodes is None:
        return None
    for demand in row.demands:
        total = sum(_offered(state.nodes, demand))
        what = demand.resource if demand.product in {"", demand.resource} else f"{demand.resource} ({demand.product})"
        if not total:
            return Waiting(reason="NoGPUs", message=f"no schedulable node has {what}")
        if demand.gpus > total:
            message = f"requests {demand.gpus} of {what}; the cluster has {total}"
            return Waiting(reason="InsufficientGPUs", message=message)
        largest = max(_offered(state.nodes, demand))
        if demand.gpus_per_pod > largest:
            message = f"requests {demand.gpus_per_pod} of {what} on one node; the largest node has {largest}"
            return Waiting(reason="InsufficientGPUs", message=message)
    return None


def _offered(nodes: Sequence[Body], demand: Demand) -> Iterator[int]:
    for node in nodes:
        if mapping(node.get("spec")).get("unschedulable") is True:
            continue
        product = product_label(mapping(mapping(node.get("metadata")).get("labels")))
        if demand.product in {"", demand.resource, product}:
            value = mapping(mapping(node.get("status")).get("allocatable")).get(demand.resource)
            exact = parse_quantity(value) if isinstance(value, str | int) else None
            yield int(exact or 0)


def _workload(job: Body, state: ClusterObjects) -> Waiting | None:
    """Read what Kueue says."""
    workload = None if state.workloads is None else state.workload_of(job)
    if workload is None or holds(workload, "Admitted") is not None:
        return None
    if mapping(workload.get("spec")).get("active") is False:
        return Waiting(reason="Deactivated", message=_evicted(workload) or "its Kueue workload is not active")
    if holds(workload, "QuotaReserved") is not None:
        for check in map(mapping, sequence(mapping(workload.get("status")).get("admissionChecks"))):
            if text(check.get("state")) != "Ready":
                detail = f": {text(check.get('message'))}" if text(check.get("message")) else ""
                message = f"admission check {text(check.get('name'))} is {text(check.get('state'))}{detail}"
                return Waiting(reason="AdmissionCheck", message=message)
        return None
    reserved = conditions(workload).get("QuotaReserved", {})
    message = text(reserved.get("message")) or _evicted(workload)
    if not message:
        return None
    return Waiting(reason=_kueue_reason(message), message=message)


def _kueue_reason(message: str) -> str:
    """Return the word for a message of Kueue's scheduler."""
    lower = message.lower()
    if "preempt" in lower:
        return "Priority"
    if any(word in lower for word in _FLAVOR) and "insufficient" not in lower:
        return "Flavor"
    return "Quota" if any(word in lower for word in _QUOTA) else "Queue"


def _evicted(workload: Body) -> str:
    evicted = holds(workload, "Evicted")
    return text(evicted.get("message")) if evicted is not None else ""


def _pod_groups(job: Body, state: ClusterObjects) -> Waiting | None:
    """Read what KAI says about the pod groups of a job."""
    for group in state.pod_groups_of(job) if state.pod_groups is not None else ():
        for condition in map(mapping, sequence(mapping(group.get("status")).get("schedulingConditions"))):
            if condition.get("status") == "False":
                continue
            reasons = [mapping(one) for one in sequence(condition.get("reasons"))]
            words = " ".join(text(one.get("reason")) for one in reasons) or text(condition.get("reason"))
            message = "; ".join(text(one.get("message")) for one in reasons if text(one.get("message")))
            message = message or text(condition.get("message"))
            is_quota = any(word in f"{words} {message}".lower() for word in _QUOTA)
            return Waiting(reason="Quota" if is_quota else "Node", message=" ".join(message.split()))
    return None


def has_queue_of_kueue(job: Body) -> bool:
    """Return whether Kueue holds and releases the job."""
    return bool(text(mapping(mapping(job.get("metadata")).get("labels")).get(QUEUE_LABEL)))


def _named(bodies: Sequence[Body], kind: str, name: str) -> Body | None:
    return next((body for body in bodies if (body.get("kind"), metadata_text(body, "name")) == (kind, name)), None)


class JobStatus(Struct, frozen=True, kw_only=True):
    """The status of one job. `reason` and `message` explain it, as far as anything does."""

    cluster: str
    key: ObjectKey
    phase: Phase
    queue: str = ""
    gpus: Gpus = 0
    workers: Workers = Workers()
    restarts: int | None = None
    started_at: str = ""
    finished_at: str = ""
    reason: str = ""
    message: str = ""
    priority: int | None = None  # as its annotation says, from 0 to 10
    gpu_memory_mib: int | None = None  # of a GPUWorkload
    nodes: tuple[str, ...] = ()  # those of its pods


def live_status(kinds: Kinds, cluster: str, job: Body, state: ClusterObjects) -> JobStatus:
    """Return the status of a job that exists."""
    row = summarize(kinds, cluster=cluster, body=job, path="", digest="")
    life = kinds.of(job).life
    reader = life.progress or life.serving
    progress = reader(job) if reader is not None else Progress(phase=Phase.UNKNOWN)
    wish = placement_wish(job)
    status = JobStatus(
        cluster=cluster,
        key=key_of(job),
        phase=progress.phase,
        queue=row.queue,
        gpus=row.gpus,
        workers=_workers(row, progress, job, state),
        restarts=_restarts(progress, job, state),
        started_at=progress.started_at,
        finished_at=progress.finished_at,
        message=progress.message,
        priority=wish.priority,
        gpu_memory_mib=wish.memory_mib,
        nodes=_nodes(job, state),
    )
    if mapping(job.get("metadata")).get("deletionTimestamp"):
        message = f"the job is deleted; {plural(_left(status), 'pod')} left"
        return replace(status, phase=Phase.TERMINATING, reason="Deleted", message=message)
    if progress.phase in ENDED:
        return replace(status, reason="" if progress.phase is Phase.SUCCEEDED else progress.phase.value)
    return _unfinished(status, job, row, state)


def _nodes(job: Body, state: ClusterObjects) -> tuple[str, ...]:
    pods = state.pods_of(job) if state.pods is not None else ()
    return tuple(sorted({name for pod in pods if (name := text(mapping(pod.get("spec")).get("nodeName")))}))


def _workers(row: ObjectSummary, progress: Progress, job: Body, state: ClusterObjects) -> Workers:
    """Count pods, those that ended and are gone too; without pods the job's own status counts."""
    pods = state.pods_of(job) if state.pods is not None else ()
    own = replace(progress.workers, wanted=row.pods or progress.workers.wanted)
    if not pods:
        return own
    counted = count_pods(pods, own.wanted)
    return replace(counted, succeeded=max(counted.succeeded, own.succeeded), failed=max(counted.failed, own.failed))


def _restarts(progress: Progress, job: Body, state: ClusterObjects) -> int | None:
    if state.pods is None:
        return progress.restarts
    return (progress.restarts or 0) + restarts_of(state.pods_of(job))


def _unfinished(status: JobStatus, job: Body, row: ObjectSummary, state: ClusterObjects) -> JobStatus:
    pods = state.pods_of(job) if state.pods is not None else ()
    workload = state.workload_of(job) if state.workloads is not None else None
    if workload is not None and mapping(workload.get("spec")).get("active") is False:
        phase = Phase.TERMINATING if _left(status) else Phase.TERMINATED
        return _with(status, phase, why_waiting(job, row, state))
    if status.phase in {Phase.SUSPENDED, Phase.TERMINATING} and (is_suspended(job) or is_paused(job)):
        return _suspended(status, job, row, state)
    if status.phase is Phase.ERROR:
        return _with(status, Phase.ERROR, why_pods_wait(pods) or why_pods_crash(pods))
    if (syncing := why_pods_sync(pods)) is not None:
        return _with(status, Phase.SYNCING, syncing)
    if status.phase is Phase.RUNNING or (status.workers.running and status.workers.running >= status.workers.wanted):
        return _with(status, Phase.RUNNING, why_pods_crash(pods) or worker_cluster(job, state))
    waiting = why_waiting(job, row, state) or worker_cluster(job, state)
    claim = unbound_claim(row, state, waiting)
    return _starting(status, waiting, claim, was_preempted=is_preempted(pods))


def _starting(status: JobStatus, waiting: Waiting | None, claim: Waiting | None, *, was_preempted: bool) -> JobStatus:
    """Return the status of a job some of whose pods do not run; claim: one of theirs that has no volume."""
    if claim is not None:
        return _with(status, Phase.PENDING, claim)
    if was_preempted and not status.workers.running:
        return _with(status, Phase.PREEMPTED, waiting)
    # KAI holds pods, not jobs: they are pending until the whole gang can start.
    is_held = bool(status.queue) and not status.workers.running
    is_held = is_held and waiting is not None and waiting.reason not in _STARTING
    return _with(status, Phase.QUEUED if is_held else status.phase, waiting)


def _left(status: JobStatus) -> int:
    return status.workers.pending + status.workers.running


_STARTING = frozenset({"Image", "Config", "Crash", "Volume", "WorkerCluster"})
"""Reasons of pods that have a node already, or whose volume no queue can give, or that another cluster starts."""


def _suspended(status: JobStatus, job: Body, row: ObjectSummary, state: ClusterObjects) -> JobStatus:
    """Tell a job that Kueue holds from one that the repository suspends."""
    if left := _left(status):
        return replace(status, phase=Phase.TERMINATING, reason="Suspended", message=f"{plural(left, 'pod')} left")
    if is_paused(job):
        return replace(status, phase=Phase.SUSPENDED, reason="Suspended", message="parallelism is 0")
    if not has_queue_of_kueue(job):
        return replace(status, phase=Phase.SUSPENDED, reason="Suspended", message="suspend is true")
    waiting = why_waiting(job, row, state)
    workload = state.workload_of(job) if state.workloads is not None else None
    evicted = holds(workload, "Evicted") if workload is not None else None
    if evicted is not None and text(evicted.get("reason")) == "Preempted":
        return _with(status, Phase.PREEMPTED, Waiting(reason="Priority", message=text(evicted.get("message"))))
    return _with(status, Phase.QUEUED, waiting)


def _with(status: JobStatus, phase: Phase, waiting: Waiting | None) -> JobStatus:
    if waiting is None:
        return replace(status, phase=phase)
    return replace(status, phase=phase, reason=waiting.reason, message=waiting.message)


def absent_status(cluster: str, key: ObjectKey, run: FinishedRun | None, state: ClusterObjects) -> JobStatus:
    """Return the status of a job that the repository renders and the cluster does not have."""
    if run is not None:
        return JobStatus(
            cluster=cluster,
            key=key,
            phase=Phase(run.result),
            started_at=run.started_at,
            finished_at=run.finished_at,
            message="ended, and is gone from the cluster",
        )
    failure = state.unread.get((key.group, key.kind))
    if failure:
        return JobStatus(cluster=cluster, key=key, phase=Phase.UNKNOWN, reason="Unread", message=failure)
    message = "the cluster does not have it; it has not been applied yet"
    return JobStatus(cluster=cluster, key=key, phase=Phase.PENDING, reason="NotApplied", message=message)


def gone_status(before: JobStatus) -> JobStatus:
    """Return the status of a job that was there a moment ago."""
    if before.phase in ENDED:
        return replace(before, message="ended, and is gone from the cluster")
    return replace(before, phase=Phase.TERMINATED, workers=Workers(), reason="Deleted", message="the job is deleted")


def job_statuses(
    kinds: Kinds,
    cluster: str,
    state: ClusterObjects,
    rendered: Iterable[ObjectKey],
    runs: Mapping[ObjectKey, FinishedRun],
) -> tuple[JobStatus, ...]:
    """Return the jobs that are ours, and the jobs and services that the repository renders, by namespace and name."""
    wanted = set(rendered)
    live = {key_of(job): job for job in state.jobs}
    ours = [job for key, job in live.items() if key in wanted or (is_owned(job) and kinds.of(job).life.progress)]
    found = [live_status(kinds, cluster, job, state) for job in ours]
    found += [absent_status(cluster, key, runs.get(key), state) for key in wanted if key not in live]
    return tuple(sorted(found, key=lambda status: (status.key.namespace, status.key.name, status.key.kind)))
