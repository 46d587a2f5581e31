"""Volcano (`batch.volcano.sh`, `scheduling.volcano.sh`): jobs of several tasks, a tree of queues, groups of pods."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.aspects import Life, Naming, Pods, Queueing
from reconciler.kinds.facts import (
    QUEUE_DELETION,
    Body,
    PodSet,
    QueueName,
    QueueRole,
    Quota,
    Reference,
    Relations,
    Users,
)
from reconciler.kinds.immutable import omit, same, value_of
from reconciler.kinds.kind import Kind
from reconciler.kinds.pods import of_spec, replicated
from reconciler.kinds.progress import ENDED, Phase, Progress, Workers, status_of
from reconciler.kinds.quantities import gpu_quantity
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.sizing.devices import WHOLE_GPUS

GROUP = "scheduling.volcano.sh"
QUEUE = (GROUP, "Queue")
POD_GROUP = (GROUP, "PodGroup")
SCHEDULER = "volcano"
DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"
"""Volcano creates both queues; that of all others is `root`, and no workload may be in it."""
_RUNNING = frozenset(("Inqueue", "Running", "Unknown"))


def _pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of each task. A gang starts with `minAvailable` pods, of whichever tasks.

    Source: CheckTaskValid of pkg/scheduler/api/job_info.go.
    """
    tasks = [mapping(task) for task in sequence(spec.get("tasks"))]
    pods = [pods for index, task in enumerate(tasks) for pods in replicated(task, f"{prefix}tasks[{index}].")]
    least = [count(task.get("minAvailable"), one.replicas) for task, one in zip(tasks, pods, strict=True)]
    gang = count(spec.get("minAvailable"), 0) or sum(least)
    rest = max(0, sum(one.replicas for one in pods) - gang)
    for one, own in zip(pods, least, strict=True):
        needed = own if gang >= sum(least) else 0
        yield one._replace(spare=max(0, min(one.replicas - needed, rest)))


_PHASES = {
    "": Phase.PENDING,
    "Pending": Phase.STARTING,
    "Running": Phase.RUNNING,
    "Restarting": Phase.STARTING,
    "Completing": Phase.RUNNING,
    "Completed": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Aborting": Phase.TERMINATING,
    "Aborted": Phase.SUSPENDED,
    "Terminating": Phase.TERMINATING,
    "Terminated": Phase.TERMINATED,
}


def volcano_job_progress(body: Body) -> Progress:
    """Read a job, whose status counts its pods."""
    tasks = map(mapping, sequence(mapping(body.get("spec")).get("tasks")))
    status = status_of(body)
    state = mapping(status.get("state"))
    phase = _PHASES.get(text(state.get("phase")), Phase.UNKNOWN)
    workers = Workers(
        wanted=sum(count(task.get("replicas"), 1) for task in tasks),
        pending=count(status.get("pending"), 0),
        running=count(status.get("running"), 0),
        ready=count(status.get("running"), 0),
        succeeded=count(status.get("succeeded"), 0),
        failed=count(status.get("failed"), 0),
    )
    return Progress(
        phase=phase,
        workers=workers,
        restarts=count(status.get("retryCount"), 0),
        finished_at=text(state.get("lastTransitionTime")) if phase in ENDED else "",
        message=text(state.get("message")),
    )


def gpu_quota(spec: Mapping[str, Any]) -> Quota:
    """Return the quota of whole GPUs: `capability` is the limit, `deserved` or `guarantee` is guaranteed.

    The scheduler takes the larger of the last two (pkg/scheduler/plugins/capacity/capacity.go). If a queue names GPUs
    of one resource, the quota is of this resource; GPUs of several vendors are added up.
    """
    capability, deserved = _gpus(spec.get("capability")), _gpus(spec.get("deserved"))
    guarantee = _gpus(mapping(spec.get("guarantee")).get("resource"))
    names = {*capability, *deserved, *guarantee}
    guaranteed = sum(max(deserved.get(name, 0.0), guarantee.get(name, 0.0)) for name in names)
    limit = sum(capability.values()) if names and names == {*capability} else None
    return Quota("", guaranteed, limit, min(names) if len(names) == 1 else "")


def _gpus(amounts: Any) -> dict[str, float]:
    found = ((name, gpu_quantity(amount)) for name, amount in mapping(amounts).items() if name in WHOLE_GPUS)
    return {name: amount for name, amount in found if amount is not None and amount >= 0}


def _queue_of_job(job: Body) -> QueueName:
    """Return the queue of a job: the webhook sets `default` where it names none (jobs/mutate/mutate_job.go)."""
    name = text(mapping(job.get("spec")).get("queue"))
    return QueueName(QUEUE, name or DEFAULT_QUEUE, "spec.queue" if name else "spec")


def _frozen(before: Body, after: Body) -> list[str]:
    """Check a job as its webhook does (validateJobUpdate of jobs/validate/admit_job.go): only numbers of pods change.

    A claim that Volcano names itself does not count.
    """
    old, new = (mapping(body.get("spec")) for body in (before, after))
    mutable = ("minAvailable", "priorityClassName", "tasks", "volumes")
    names = [name for name in sorted({*old, *new}) if name not in mutable]
    changed = [f"spec.{name}" for name in names if not same(old.get(name), new.get(name))]
    if not same(_volumes(old), _volumes(new)):
        changed.append("spec.volumes")
    tasks = [sequence(spec.get("tasks")) for spec in (old, new)]
    if len(tasks[0]) != len(tasks[1]):
        return [*changed, "spec.tasks"]
    for index, pair in enumerate(zip(*tasks, strict=True)):
        left, right = (omit(task, ("replicas", "minAvailable")) or {} for task in pair)
        differing = [name for name in sorted({*left, *right}) if not same(left.get(name), right.get(name))]
        changed += [f"spec.tasks[{index}].{name}" for name in differing]
    return changed


def _volumes(spec: Mapping[str, Any]) -> list[Any]:
    volumes = map(mapping, sequence(spec.get("volumes")))
    return [omit(one, ("volumeClaimName",)) if one.get("volumeClaim") else one for one in volumes]


def _queue(body: Body) -> Relations:
    """Read a queue: what it has of GPUs; of what it does not name it may use everything."""
    spec = mapping(body.get("spec"))
    parent = text(spec.get("parent"))
    return Relations(
        parent_kind=QUEUE,
        parent="" if parent == ROOT_QUEUE else parent,
        quotas=(gpu_quota(spec),),
        references=(Reference(*QUEUE, "", parent, "spec.parent"),) if parent else (),
    )


def _pod_group(body: Body) -> Relations:
    spec = mapping(body.get("spec"))
    queue, priority = text(spec.get("queue")), text(spec.get("priorityClassName"))
    return Relations(
        references=(
            *((Reference(*QUEUE, "", queue, "spec.queue"),) if queue else ()),
            *((Reference(*_PRIORITY_CLASS, "", priority, "spec.priorityClassName"),) if priority else ()),
        )
    )


_PRIORITY_CLASS = ("scheduling.k8s.io", "PriorityClass")


def _groups_in(queue: Body) -> Users:
    name = text(mapping(queue.get("metadata")).get("name"))

    def runs(group: Body) -> bool:
        return value_of(group, "spec.queue") == name and value_of(group, "status.phase") in _RUNNING

    return Users(kind=POD_GROUP, runs=runs)


KINDS = (
    Kind(
        group="batch.volcano.sh",
        kind="Job",
        pods=Pods(of_spec(_pods)),
        life=Life(immutable=_frozen, progress=volcano_job_progress),
        queueing=Queueing(named=_queue_of_job),
    ),
    Kind(
        group=GROUP,
        kind="Queue",
        is_cluster_scoped=True,
        relations=_queue,
        life=Life(
            deletion=replace(QUEUE_DELETION, users=_groups_in),
            is_stateful=True,
        ),
        queueing=Queueing(role=QueueRole.TREE, quota_fields=("spec.deserved", "spec.capability"), root=ROOT_QUEUE),
        naming=Naming(
            rule="reference.queue",
            labels=("volcano.sh/queue-name",),
            pod_annotations=((SCHEDULER, "scheduling.volcano.sh/queue-name"),),
            existing=(DEFAULT_QUEUE, ROOT_QUEUE),
            has_group_in_path=True,
        ),
    ),
    Kind(group=GROUP, kind="PodGroup", relations=_pod_group, naming=Naming(has_group_in_path=True)),
)
