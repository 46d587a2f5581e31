"""Why a job waits, in words: its queue, the GPUs of the cluster, the quota, a check, a node, an image."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.devices import product_label
from reconciler.core.kinds.facts import QueueRole
from reconciler.core.kinds.kueue import CLUSTER_QUEUE
from reconciler.core.kinds.kueue.labels import QUEUE_LABEL
from reconciler.core.kinds.kueue.workers import is_dispatched
from reconciler.core.kinds.progress import conditions, holds
from reconciler.core.quantities import parse_quantity
from reconciler.core.status.live import ClusterObjects
from reconciler.core.status.pods import Waiting, why_pods_wait
from reconciler.core.summary import ObjectSummary
from reconciler.core.summary.object_summary import Demand
from reconciler.core.values import mapping, sequence, text

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
    same = [body for body in state.aliases if _metadata(body, "name") == row.queue]
    alias = next((body for body in same if _metadata(body, "namespace") == row.namespace), None)
    if alias is None:
        if not same:
            return Waiting(reason="QueueNotFound", message=f"no LocalQueue {row.queue} in namespace {row.namespace}")
        where = ", ".join(sorted(_metadata(body, "namespace") for body in same))
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
                reason="QueueStopped", message=f"{text(body.get('kind'))} {_metadata(body, 'name')}: {detail}"
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
    return next((body for body in bodies if (body.get("kind"), _metadata(body, "name")) == (kind, name)), None)


def _metadata(body: Body, field: str) -> str:
    return text(mapping(body.get("metadata")).get(field))
