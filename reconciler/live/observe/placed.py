"""Jobs with GPUs, from pods: which job has how many GPUs on which nodes, and whose pods ended well on a node."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from reconciler.kinds.health.pods import DEEP_RUN
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.kueue.pod_requests import amounts_of, container_requests
from reconciler.kube.objects import split_api_version
from reconciler.kube.times import unix_time
from reconciler.kube.values import mapping, sequence, text
from reconciler.nodehealth.inflight.watch import PlacedJob
from reconciler.queues.limit_ranges import LimitBounds, pod_total
from reconciler.sizing.devices import WHOLE_GPUS, is_gpu

Body = Mapping[str, Any]

_UNBOUNDED = LimitBounds(())  # pods that exist have the defaults of their namespace already


def placed_jobs(kinds: Kinds, pods: Iterable[Body]) -> tuple[PlacedJob, ...]:
    """Return the jobs of running pods with GPUs: of kinds that end, because a service that idles does not hang."""
    users: dict[str, set[str]] = {}
    owners: dict[str, Mapping[str, Any]] = {}
    gpus: dict[str, dict[str, int]] = {}
    for pod in pods:
        spec, metadata = mapping(pod.get("spec")), mapping(pod.get("metadata"))
        node, amounts = text(spec.get("nodeName")), pod_gpus(spec)
        if not node or not amounts or mapping(pod.get("status")).get("phase") != "Running":
            continue
        owner = controller_of(pod)
        uid = text(owner.get("uid")) or text(metadata.get("uid"))
        users.setdefault(node, set()).add(uid)
        if owner and row_of(kinds, owner).life.progress is not None and all(name in WHOLE_GPUS for name in amounts):
            owners[uid] = {**owner, "namespace": metadata.get("namespace")}
            gpus.setdefault(uid, {}).setdefault(node, 0)
            gpus[uid][node] += sum(amounts.values())
    return tuple(
        PlacedJob(
            api_version=text(owner.get("apiVersion")),
            kind=text(owner.get("kind")),
            namespace=text(owner.get("namespace")),
            name=text(owner.get("name")),
            uid=uid,
            gpus=dict(sorted(gpus[uid].items())),
            shared=tuple(sorted(node for node in gpus[uid] if len(users[node]) > 1)),
        )
        for uid, owner in sorted(owners.items())
    )


def succeeded_owners(kinds: Kinds, pods: Iterable[Body], since: float) -> tuple[Mapping[str, Any], ...]:
    """Return the owners of which all pods with GPUs on a node started after a time and succeeded: of kinds that end.

    Our own deep runs are no jobs.
    """
    owners: dict[str, Mapping[str, Any]] = {}
    others = {""}
    for pod in pods:
        spec, status, owner = mapping(pod.get("spec")), mapping(pod.get("status")), controller_of(pod)
        amounts, labels = pod_gpus(spec), mapping(mapping(pod.get("metadata")).get("labels"))
        if not amounts:
            continue
        uid = text(owner.get("uid"))
        owners[uid] = {**owner, "namespace": mapping(pod.get("metadata")).get("namespace")}
        is_job = row_of(kinds, owner).life.progress is not None and labels.get(DEEP_RUN[0]) != DEEP_RUN[1]
        is_good = status.get("phase") == "Succeeded" and unix_time(status.get("startTime")) >= since
        if not is_job or not is_good or not all(name in WHOLE_GPUS for name in amounts):
            others.add(uid)
    return tuple(owner for uid, owner in sorted(owners.items()) if uid not in others)


def row_of(kinds: Kinds, owner: Mapping[str, Any]) -> Kind:
    """Return the row of the kind that a reference names."""
    return kinds.find(split_api_version(text(owner.get("apiVersion")))[0], text(owner.get("kind")))


def controller_of(pod: Body) -> Mapping[str, Any]:
    """Return the reference to the controller of a pod; empty without one."""
    rows = map(mapping, sequence(mapping(pod.get("metadata")).get("ownerReferences")))
    return next((row for row in rows if row.get("controller") is True), {})


def pod_gpus(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the GPUs of a pod by resource."""
    return {name: int(amount) for name, amount in pod_amounts(spec).items() if is_gpu(name)}


def pod_amounts(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return what a pod requests, with its sidecars and its overhead. A limit is a request where none is set."""
    asked = [(one, _UNBOUNDED.requests(one)[0]) for one in container_requests(spec)]
    return {name: amount for name, amount in pod_total(amounts_of(spec.get("overhead")), asked).items() if amount > 0}
