"""Fleets, jobs and evidence for tests of placement."""

from collections.abc import Sequence
from typing import Any

from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.evidence import FleetHealth, ObservedNode
from reconciler.placement import Intent, Outlook, PlacementEvidence, PodAsk, PodSite, QueuedJob, outlook
from reconciler.repo.evidence.usage import RUNNING, WAITING, Usage, UsedPodSet, UsedWorkload
from reconciler.repo.evidence.utilisation import GpuPod, GpuUtilisation, GpuWindow, GpuWorkload
from reconciler.sizing.inventory import Inventory, Node

NOW = "2026-11-28T12:00:00Z"
A100, H100, L40S = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"
RACK = "topology.example.com/rack"


def node(name: str, gpus: int = 8, product: str = A100, memory: int = 81920, **more: Any) -> Node:
    labels = {"nvidia.com/gpu.product": product, **more.pop("labels", {})}
    return Node(name=name, gpus=gpus, allocatable_gpus=gpus, product=product, memory_mib=memory, labels=labels, **more)


def key(name: str) -> ObjectKey:
    return ObjectKey(group="batch", kind="Job", namespace="team", name=name)


def job(name: str, gpus: int = 1, pods: int = 1, **more: Any) -> QueuedJob:
    of_pods = {name: more.pop(name) for name in ("cpu", "memory", "share", "topology", "prefers") if name in more}
    site = more.pop("site", PodSite(resource="nvidia.com/gpu"))
    return QueuedJob(key=key(name), pods=(PodAsk(pods=pods, gpus=gpus, site=site, **of_pods),), **more)


def used(name: str, places: Sequence[tuple[str, int]], gpus: int = 1, **more: Any) -> UsedWorkload:
    requests = {"nvidia.com/gpu": str(gpus), **more.pop("requests", {})}
    count = more.pop("count", sum(pods for _, pods in places))
    defaults = {"created_at": "2026-11-28T10:00:00Z", "started_at": "2026-11-28T10:00:00Z", "state": RUNNING}
    return UsedWorkload(
        api_version="batch/v1",
        kind="Job",
        namespace="team",
        name=name,
        pod_sets=(UsedPodSet(name="main", count=count, requests=requests, nodes=tuple(places)),),
        **(defaults | more),
    )


def waiting(name: str, gpus: int = 1, count: int = 1, **more: Any) -> UsedWorkload:
    return used(name, (), gpus, count=count, **({"state": WAITING, "started_at": ""} | more))


def busy(name: str, on: str, percent: float | None, gpus: int = 1) -> GpuWorkload:
    """Return a workload with GPUs on a node, each as busy as it says; None: nobody measured them."""
    windows = tuple(
        GpuWindow(gpu=str(gpu), metric="DCGM_FI_DEV_GPU_UTIL", max=percent, mean=percent, samples=60, expected=60)
        for gpu in range(gpus)
        if percent is not None
    )
    pod = GpuPod(name=f"{name}-0", node=on, gpus=gpus, windows=windows)
    return GpuWorkload(
        api_version="batch/v1", kind="Job", namespace="team", name=name, resource="nvidia.com/gpu", pods=(pod,)
    )


def evidence(
    nodes: Sequence[Node],
    running: Sequence[UsedWorkload] = (),
    use: Sequence[GpuWorkload] = (),
    health: dict[str, CheckStatus] | None = None,
    **more: Any,
) -> PlacementEvidence:
    seen = {name: ObservedNode(name=name, status=status) for name, status in (health or {}).items()}
    return PlacementEvidence(
        inventory=Inventory(cluster="main", taken_at=NOW, nodes=tuple(nodes)),
        usage=Usage(cluster="main", observed_at=NOW, workloads=tuple(running)),
        utilisation=GpuUtilisation(taken_at=NOW, window_seconds=1800, workloads=tuple(use)) if use else None,
        health=FleetHealth(cluster="main", taken_at=NOW, nodes=seen) if health is not None else None,
        **more,
    )


def place(facts: PlacementEvidence, strategy: str, *jobs: QueuedJob, **intent: Any) -> Outlook:
    return outlook(facts, strategy, Intent(jobs=jobs, **intent))


def nodes_of(found: Outlook) -> dict[str, str]:
    """Return the nodes of each job, by name; empty for one without."""
    return {one.job.key.name: " ".join(name for name, _ in one.nodes) for one in found.after.jobs}
