"""Start the Job of a deep run, on a node whose GPUs nobody uses, with all of them."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.health.fleet_reading import pods_on
from reconciler.kinds.health.pods import DeepRunSettings, deep_job
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import mapping
from reconciler.live.observe.placed import pod_gpus
from reconciler.nodehealth.active.due import DueRuns
from reconciler.nodehealth.report import NodeReport
from reconciler.sizing.devices import WHOLE_GPUS, is_gpu

_ENDED = frozenset({"Succeeded", "Failed"})
_CONFLICT = 409  # an object of this name exists
_EXISTS = "its Job exists"
_LOOKS = 20  # nodes whose pods one round looks at
_TURN_SECONDS = 60.0


class DeepRunStart(Struct, frozen=True, kw_only=True):
    """The result of an attempt: the name of the Job, or why there is none."""

    job: str = ""
    refused: str = ""


class DeepRunsStarted(Struct, frozen=True, kw_only=True):
    """The nodes with a new Job, and what went wrong."""

    nodes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def start_due_runs(
    cluster: LiveCluster, due: DueRuns, reports: Mapping[str, NodeReport], settings: DeepRunSettings, now: float
) -> DeepRunsStarted:
    """Start runs on idle nodes, as many as may start now. Busy nodes are asked again in later rounds, in turn."""
    started: list[str] = []
    first = int(now / _TURN_SECONDS) % len(due.nodes) if len(due.nodes) > _LOOKS else 0
    for node in (due.nodes[first:] + due.nodes[:first])[:_LOOKS]:
        if len(started) == due.free:
            break
        try:
            start = start_deep_run(cluster, node, reports.get(node), settings, now)
        except ClusterError as error:
            return DeepRunsStarted(nodes=tuple(started), problems=(f"no deep run on {node}: {error.message}",))
        if start.job or start.refused == _EXISTS:  # an earlier round created it
            started.append(node)
    return DeepRunsStarted(nodes=tuple(started))


def start_deep_run(
    cluster: LiveCluster, node: str, report: NodeReport | None, settings: DeepRunSettings, now: float
) -> DeepRunStart:
    """Create the Job, unless a pod uses a GPU of the node or a run goes on. Raises `ClusterError`."""
    run = report.run(settings.profile) if report else None
    if run is not None and run.is_running(now):
        return DeepRunStart(refused="a run is in progress")
    body = cluster.get(ObjectKey(group="", kind="Node", namespace="", name=node))
    if body is None:
        return DeepRunStart(refused="the node does not exist")
    resource, gpus = _allocatable(body)
    if not gpus:
        return DeepRunStart(refused="the node has no GPU")
    if users := sorted(_name(pod) for pod in pods_on(cluster, node) if uses_gpus(pod)):
        return DeepRunStart(refused=f"GPUs are in use by {', '.join(users[:3])}")
    job = deep_job(node, resource, gpus, settings, now)
    try:
        cluster.create(job)
    except ClusterError as error:
        if error.status != _CONFLICT:
            raise
        return DeepRunStart(refused=_EXISTS)
    return DeepRunStart(job=job["metadata"]["name"])


def uses_gpus(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod holds GPUs: it has not ended, and a container of it asks for some."""
    if mapping(pod.get("status")).get("phase") in _ENDED:
        return False
    return bool(pod_gpus(mapping(pod.get("spec"))))


def _allocatable(node: Body) -> tuple[str, int]:
    """Return the GPUs that the node offers, and the name of the resource."""
    offered = mapping(mapping(node.get("status")).get("allocatable"))
    return next(
        (
            (name, amount)
            for name in sorted(offered, key=_whole_first)
            if is_gpu(name) and (amount := int(parse_quantity(offered[name]) or 0))
        ),
        ("", 0),
    )


def _whole_first(resource: str) -> tuple[bool, str]:
    return resource not in WHOLE_GPUS, resource


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
