"""The use of GPUs as evidence: which workloads hold GPUs on which nodes, how busy these are, and who waits for GPUs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from reconciler.kinds.progress import conditions, holds
from reconciler.kinds.workloads import POD
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.live.observe.placed import controller_of, pod_gpus
from reconciler.repo.evidence.utilisation import (
    GpuPod,
    GpuUtilisation,
    GpuWindow,
    GpuWorkload,
    WaitingPods,
    WaitingWorkload,
)

Body = Mapping[str, Any]
Windows = Mapping[tuple[str, str], tuple[GpuWindow, ...]]
Owners = Callable[[Mapping[str, Any], str], Body | None]
"""Reads the object that an owner reference names, in a namespace; None if there is none, or it may not be read."""

USE_KINDS = (POD, WORKLOAD, CLUSTER_QUEUE, LOCAL_QUEUE)
_MAX_OWNERS = 10
_QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue")


class UseObjects(Struct, frozen=True, eq=False):
    """The objects that say who uses GPUs, and who waits: those of `USE_KINDS`, in its order."""

    pods: Sequence[Body]
    workloads: Sequence[Body] = ()
    cluster_queues: Sequence[Body] = ()
    local_queues: Sequence[Body] = ()


class _Rooted(Struct, frozen=True, kw_only=True, eq=False):
    """A pod with GPUs, its owners up to the root, and its queue."""

    pod: Body
    chain: tuple[Body, ...]
    resource: str
    gpus: int
    queue: str
    notes: tuple[str, ...]

    @property
    def root(self) -> Body:
        return self.chain[-1]


def observe_utilisation(
    cluster: str, objects: UseObjects, owners: Owners, windows: Windows, *, taken_at: str, seconds: int
) -> GpuUtilisation:
    """Return the use of the GPUs of a cluster."""
    queues = _QueueBook(objects)
    rooted = [one for pod in objects.pods if (one := _rooted(pod, owners, queues)) is not None]
    phases = ("Running", "Pending")
    running = [one for one in rooted if _phase(one.pod) in phases and _spec(one.pod).get("nodeName")]
    stuck = [one for one in rooted if _phase(one.pod) == "Pending" and _is_unschedulable(one.pod)]
    waiting = [*_waiting_in_queues(objects.workloads, queues), *_waiting_for_nodes(stuck)]
    return GpuUtilisation(
        cluster=cluster,
        taken_at=taken_at,
        window_seconds=seconds,
        workloads=tuple(_workload(group, windows) for group in _by_root(running)),
        waiting=tuple(sorted(waiting, key=lambda one: (one.since, one.key))),
    )


def root_owner(pod: Body, owners: Owners) -> tuple[tuple[Body, ...], str]:
    """Return a pod and its controllers up to the root, and why the root is not known; empty if it is."""
    chain: list[Body] = [pod]
    seen = {_uid(pod)}
    while reference := controller_of(chain[-1]):
        if text(reference.get("uid")) in seen or len(chain) > _MAX_OWNERS:
            return tuple(chain), "its owners form a circle, or a chain of more than ten"
        owner = owners(reference, _metadata(pod).get("namespace", ""))
        if owner is None:
            return tuple(chain), f"its owner {reference.get('kind')}/{reference.get('name')} cannot be read"
        chain.append(owner)
        seen.add(_uid(owner))
    return tuple(chain), ""


class _QueueBook:
    """The queues of pods and workloads, and what they still grant."""

    def __init__(self, objects: UseObjects) -> None:
        self._local = {
            (_metadata(one).get("namespace"), _metadata(one).get("name")): text(_spec(one).get("clusterQueue"))
            for one in objects.local_queues
        }
        self._granted: dict[tuple[str, str], float] = {}
        for body in objects.cluster_queues:
            self._add(body)
        self._by_owner: dict[str, str] = {}
        for body in objects.workloads:
            queue = self.of_workload(body)
            for reference in map(mapping, sequence(_metadata(body).get("ownerReferences"))):
                self._by_owner[text(reference.get("uid"))] = queue

    def _add(self, body: Body) -> None:
        name = text(_metadata(body).get("name"))
        groups = map(mapping, sequence(_spec(body).get("resourceGroups")))
        granted = [one for group in groups for one in map(mapping, sequence(group.get("flavors")))]
        used = map(mapping, sequence(mapping(body.get("status")).get("flavorsReservation")))
        for flavors, field, sign in ((granted, "nominalQuota", 1), (used, "total", -1)):
            for flavor in flavors:
                for one in map(mapping, sequence(flavor.get("resources"))):
                    key = (name, text(one.get("name")))
                    amount = parse_quantity(one.get(field, 0))
                    self._granted[key] = self._granted.get(key, 0) + sign * float(amount or 0)

    def of_workload(self, body: Body) -> str:
        """Return the ClusterQueue of a Kueue Workload."""
        admitted = text(mapping(mapping(body.get("status")).get("admission")).get("clusterQueue"))
        local = (_metadata(body).get("namespace"), text(_spec(body).get("queueName")))
        return admitted or self._local.get(local, "")

    def of_chain(self, chain: Iterable[Body]) -> str:
        """Return the queue of a pod by its owners, else by the labels of KAI."""
        bodies = [*chain]
        known = (self._by_owner.get(_uid(body), "") for body in bodies)
        labelled = (text(mapping(_metadata(body).get("labels")).get(_QUEUE_LABELS[1])) for body in bodies)
        return next((queue for queue in (*known, *labelled) if queue), "")

    def headroom(self, queue: str, resource: str) -> int:
        """Return what a queue still grants of its own quota."""
        return max(0, int(self._granted.get((queue, resource), 0)))


def _rooted(pod: Body, owners: Owners, queues: _QueueBook) -> _Rooted | None:
    amounts = pod_gpus(_spec(pod))
    if not amounts or _metadata(pod).get("deletionTimestamp"):
        return None
    chain, why = root_owner(pod, owners)
    several = "its pods use several resources of GPUs" if len(amounts) > 1 else ""
    resource = next(iter(sorted(amounts)))
    return _Rooted(
        pod=pod,
        chain=chain,
        resource=resource,
        gpus=sum(amounts.values()),
        queue=queues.of_chain(chain),
        notes=tuple(filter(None, (why, several))),
    )


def _by_root(rooted: Iterable[_Rooted]) -> list[list[_Rooted]]:
    groups: dict[str, list[_Rooted]] = {}
    for one in rooted:
        groups.setdefault(_uid(one.root), []).append(one)
    return sorted(groups.values(), key=lambda group: _named(group[0].root, group[0].pod))


def _workload(group: Sequence[_Rooted], windows: Windows) -> GpuWorkload:
    first = group[0]
    pods = (
        GpuPod(
            name=text(_metadata(one.pod)["name"]),
            node=text(_spec(one.pod).get("nodeName")),
            gpus=one.gpus,
            windows=windows.get((_metadata(one.pod).get("namespace", ""), _metadata(one.pod)["name"]), ()),
        )
        for one in group
    )
    notes = {note for one in group for note in one.notes}
    if len({one.resource for one in group}) > 1:
        notes.add("its pods use several resources of GPUs")
    return GpuWorkload(
        **_identity(first.root, first.pod),
        resource=first.resource,
        queue=first.queue,
        priority=max(_priority(one.pod) for one in group),
        started_at=min(filter(None, map(_started, group)), default=""),
        pods=tuple(sorted(pods, key=lambda pod: pod.name)),
        notes=tuple(sorted(notes)),
    )


def _started(one: _Rooted) -> str:
    """Return when a running pod started; empty for one that does not run yet."""
    return text(mapping(one.pod.get("status")).get("startTime")) if _phase(one.pod) == "Running" else ""


def _waiting_in_queues(workloads: Iterable[Body], queues: _QueueBook) -> Iterator[WaitingWorkload]:
    """Yield Kueue's workloads without quota that ask for GPUs."""
    for body in workloads:
        if holds(body, "Finished") or holds(body, "QuotaReserved") or _spec(body).get("active") is False:
            continue
        asked = list(_asked(map(mapping, sequence(_spec(body).get("podSets")))))
        resources = sorted({resource for resource, _ in asked})
        if len(resources) != 1:
            continue
        owner = controller_of(body) or next(iter(map(mapping, sequence(_metadata(body).get("ownerReferences")))), {})
        queue = queues.of_workload(body)
        reserved = conditions(body).get("QuotaReserved", {})
        yield WaitingWorkload(
            **_identity({**owner, "metadata": {"name": owner.get("name")}} if owner else body, body),
            resource=resources[0],
            queue=queue,
            priority=count(_spec(body).get("priority"), 0),
            since=text(reserved.get("lastTransitionTime")) or text(_metadata(body).get("creationTimestamp")),
            pods=tuple(pods for _, pods in asked),
            headroom=queues.headroom(queue, resources[0]),
        )


def _asked(pod_sets: Iterable[Body]) -> Iterator[tuple[str, WaitingPods]]:
    for one in pod_sets:
        spec = mapping(mapping(one.get("template")).get("spec"))
        for resource, gpus in pod_gpus(spec).items():
            yield resource, _pods(spec, count(one.get("count"), 1), gpus)


def _waiting_for_nodes(stuck: Iterable[_Rooted]) -> Iterator[WaitingWorkload]:
    """Yield workloads whose pods have quota, and no node."""
    for group in _by_root(stuck):
        first = group[0]
        since = [text(conditions(one.pod).get("PodScheduled", {}).get("lastTransitionTime")) for one in group]
        yield WaitingWorkload(
            **_identity(first.root, first.pod),
            resource=first.resource,
            queue=first.queue,
            priority=max(_priority(one.pod) for one in group),
            since=min(since) or text(_metadata(first.pod).get("creationTimestamp")),
            pods=tuple(_pods(_spec(one.pod), 1, one.gpus) for one in group),
            headroom=sum(one.gpus for one in group),
        )


def _pods(spec: Body, number: int, gpus: int) -> WaitingPods:
    tolerated = {
        "*" if not one.get("key") else text(one["key"]) for one in map(mapping, sequence(spec.get("tolerations")))
    }
    return WaitingPods(
        count=number,
        gpus=gpus,
        node_selector={str(key): text(value) for key, value in sorted(mapping(spec.get("nodeSelector")).items())},
        tolerations=tuple(sorted(tolerated)),
    )


def _identity(body: Body, inside: Body) -> dict[str, str]:
    return {
        "api_version": text(body.get("apiVersion")) or "v1",
        "kind": text(body.get("kind")) or "Pod",
        "namespace": text(_metadata(inside).get("namespace")),
        "name": text(_metadata(body).get("name")),
    }


def _named(body: Body, inside: Body) -> tuple[str, ...]:
    return tuple(_identity(body, inside).values())


def _is_unschedulable(pod: Body) -> bool:
    return conditions(pod).get("PodScheduled", {}).get("reason") == "Unschedulable"


def _phase(pod: Body) -> str:
    return text(mapping(pod.get("status")).get("phase"))


def _priority(pod: Body) -> int:
    value = _spec(pod).get("priority")
    return value if isinstance(value, int) else 0


def _metadata(body: Body) -> Mapping[str, Any]:
    return mapping(body.get("metadata"))


def _spec(body: Body) -> Mapping[str, Any]:
    return mapping(body.get("spec"))


def _uid(body: Body) -> str:
    return text(_metadata(body).get("uid"))
