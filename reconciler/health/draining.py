"""Drain a node the way of its queue: Kueue stops the workloads on it, and they wait in their queues again.

`spec.active: false` makes Kueue evict a workload, as `kueuectl stop workload` does; once its quota is free it becomes
active again, and starts elsewhere, because our taint keeps it off the node. No pod is deleted by us.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from reconciler.health.deep_runs import uses_gpus
from reconciler.health.fleet_reading import find_owner, pods_on
from reconciler.kinds.kueue import WORKLOAD
from reconciler.kinds.progress import holds
from reconciler.kube.client.port import Body, ClusterError, LiveCluster, UnknownKind
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import mapping, plural, sequence, text
from reconciler.live.observe.placed import controller_of
from reconciler.nodehealth.nodes import MANAGER

DRAINED = "gpureconciler.io/drained"
"""Label of a workload that we stopped, until it is active again."""

_DEPTH = 4  # owners above a pod
_QUOTA = "QuotaReserved"


class DrainedNode(Struct, frozen=True, kw_only=True):
    """The workloads that move away from a node, and its pods with GPUs that no queue started: people move those."""

    workloads: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say what moves, and what stays."""
        parts = [f"{plural(len(self.workloads), 'workload')}: {', '.join(self.workloads)}"] if self.workloads else []
        parts += [f"no queue started {', '.join(self.left)}"] if self.left else []
        return "; ".join(parts) or "no pod with GPUs is left"


def drain_node(cluster: LiveCluster, node: str, *, is_shadow: bool) -> DrainedNode:
    """Stop the workloads with GPUs on a node; with `is_shadow` tell them only. Raises `ClusterError`."""
    pods = [pod for pod in pods_on(cluster, node) if uses_gpus(pod)]
    known = {namespace: _workloads(cluster, namespace) for namespace in {pod["metadata"]["namespace"] for pod in pods}}
    workloads: set[tuple[str, str]] = set()
    left: list[str] = []
    for pod in pods:
        found = _workload_of(cluster, pod, known[pod["metadata"]["namespace"]])
        if found is None:
            left.append(_name(pod))
        else:
            workloads.add((found["metadata"]["namespace"], found["metadata"]["name"]))
    for namespace, name in sorted(workloads) if not is_shadow else ():
        _patch(cluster, namespace, name, active=False)
    return DrainedNode(workloads=tuple(map("/".join, sorted(workloads))), left=tuple(sorted(left)))


def resume_drained(cluster: LiveCluster) -> tuple[str, ...]:
    """Let stopped workloads queue again whose quota Kueue has taken back; return those that could not be told."""
    try:
        stopped = [*cluster.list(cluster.resource(*WORKLOAD), labels=DRAINED).objects]
    except UnknownKind:
        return ()
    except ClusterError as error:
        return (f"workloads of drained nodes cannot be listed: {error.message}",)
    problems = []
    for one in stopped:
        if holds(one, _QUOTA) is None:
            try:
                _patch(cluster, one["metadata"]["namespace"], one["metadata"]["name"], active=True)
            except ClusterError as error:
                problems.append(f"workload {_name(one)} does not queue again: {error.message}")
    return tuple(problems)


def _patch(cluster: LiveCluster, namespace: str, name: str, *, active: bool) -> None:
    key = ObjectKey(group=WORKLOAD[0], kind=WORKLOAD[1], namespace=namespace, name=name)
    label = None if active else "true"
    cluster.patch(key, {"metadata": {"labels": {DRAINED: label}}, "spec": {"active": active}}, manager=MANAGER)


def _workloads(cluster: LiveCluster, namespace: str) -> list[Body]:
    """Return the workloads of a namespace; none without Kueue."""
    try:
        return [*cluster.list(cluster.resource(*WORKLOAD), namespace=namespace).objects]
    except UnknownKind:
        return []


def _workload_of(cluster: LiveCluster, pod: Body, known: Sequence[Body]) -> Body | None:
    """Return the workload of Kueue that holds the quota of a pod: it is owned by the pod, or by what made the pod."""
    if not known:
        return None
    owners = set(_owners(cluster, pod["metadata"]["namespace"], pod))
    for one in known:
        rows = map(mapping, sequence(mapping(one.get("metadata")).get("ownerReferences")))
        if any(text(row.get("uid")) in owners for row in rows):
            return one
    return None


def _owners(cluster: LiveCluster, namespace: str, pod: Body) -> Iterator[str]:
    """Yield the UIDs of a pod and of the objects that made it."""
    body: Body | None = pod
    for _ in range(_DEPTH):
        yield text(mapping(mapping(body).get("metadata")).get("uid"))
        owner = controller_of(mapping(body))
        if not owner:
            return
        yield text(owner.get("uid"))
        body = find_owner(cluster, namespace, owner)


def _name(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"
