"""The KAI scheduler (`scheduling.run.ai`): a tree of queues, and groups of pods."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.aspects import Life, Naming, Queueing
from reconciler.kinds.facts import QUEUE_DELETION, Body, KindId, QueueRole, Quota, Reference, Relations, Users
from reconciler.kinds.kind import Kind
from reconciler.kinds.quantities import MAX_QUOTA
from reconciler.kinds.terms import TreeTerms
from reconciler.kube.values import mapping, text

GROUP = "scheduling.run.ai"
QUEUE = (GROUP, "Queue")
POD_GROUP = (GROUP, "PodGroup")
POD = ("", "Pod")
QUEUE_LABELS = ("kai.scheduler/queue", "runai/queue")
SCHEDULER = "kai-scheduler"
PRIORITY_LABEL = "priorityClassName"
PREEMPTIBILITY_LABEL = "kai.scheduler/preemptibility"
_PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
"""Priority classes that are installed with KAI."""
_DEFAULT_CLASSES = {
    ("apps", "Deployment"): "inference",
    ("serving.knative.dev", "Service"): "inference",
    ("kubeflow.org", "Notebook"): "build",
}
"""Priority classes of pods that name none (pkg/podgrouper/podgrouper/plugins); of all others, `train`."""
_MIN_NON_PREEMPTIBLE = 100  # pkg/common/podgroup/preemptible.go
_SAID = frozenset(("preemptible", "non-preemptible"))


def priority_of(kind: KindId, name: str, priorities: Mapping[str, int]) -> int | None:
    """Return the priority of a workload that names a class, or none; None if the class is not known."""
    name = name or _DEFAULT_CLASSES.get(kind, "train")
    return priorities.get(name, _PRIORITIES.get(name))


def is_preemptible(preemptibility: str, priority: int | None) -> bool | None:
    """Return whether KAI may preempt a workload: what it says itself, else by its priority; None if that is unknown."""
    if preemptibility in _SAID:
        return preemptibility == "preemptible"
    return None if priority is None else priority < _MIN_NON_PREEMPTIBLE


def _queue(body: Body) -> Relations:
    """Read a queue: -1 is unlimited; an absent number is Go's zero (KAI-Scheduler pkg/scheduler/api/queue_info)."""
    spec = mapping(body.get("spec"))
    gpu = mapping(mapping(spec.get("resources")).get("gpu"))
    parent, priority = text(spec.get("parentQueue")), spec.get("priority")
    return Relations(
        parent_kind=QUEUE,
        parent=parent,
        quotas=(Quota("", _gpus(gpu.get("quota")), _gpus(gpu.get("limit"))),),
        references=(Reference(*QUEUE, "", parent, "spec.parentQueue"),) if parent else (),
        terms=TreeTerms(_gpus(gpu.get("overQuotaWeight")) or 0.0, priority if type(priority) is int else 100),
    )


def _gpus(value: Any) -> float | None:
    if type(value) not in (int, float) or (type(value) is float and not isfinite(value)):
        return 0.0
    return None if value < 0 else float(min(value, MAX_QUOTA))


def _pod_group(body: Body) -> Relations:
    queue = text(mapping(body.get("spec")).get("queue"))
    return Relations(references=(Reference(*QUEUE, "", queue, "spec.queue"),) if queue else ())


def _pods_in(queue: Body) -> Users:
    name = text(mapping(queue.get("metadata")).get("name"))
    return Users(kind=POD, labels=tuple(f"{label}={name}" for label in QUEUE_LABELS), runs=_is_running)


def _is_running(pod: Body) -> bool:
    """Return whether a pod may hold GPUs: it has a node, and has not ended."""
    is_over = mapping(pod.get("status")).get("phase") in ("Succeeded", "Failed")
    return bool(mapping(pod.get("spec")).get("nodeName")) and not is_over


KINDS = (
    Kind(
        group=GROUP,
        kind="Queue",
        is_cluster_scoped=True,
        relations=_queue,
        life=Life(
            deletion=replace(QUEUE_DELETION, users=_pods_in),
            is_stateful=True,
        ),
        queueing=Queueing(
            role=QueueRole.TREE, quota_fields=("spec.resources.gpu.quota", "spec.resources.gpu.limit"), follows_kai=True
        ),
        naming=Naming(rule="reference.queue", labels=QUEUE_LABELS, has_group_in_path=True),
    ),
    Kind(group="kai.scheduler", kind="Topology", is_cluster_scoped=True, naming=Naming(has_group_in_path=True)),
    Kind(group=GROUP, kind="PodGroup", relations=_pod_group, naming=Naming(has_group_in_path=True)),
)
