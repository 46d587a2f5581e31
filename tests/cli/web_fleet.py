"""A repository with everything that the pages show: nodes in racks, their health, what runs and what waits."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.plan import opening
from reconciler.repo.evidence.usage import (
    RUNNING,
    WAITING,
    QueueWaits,
    Usage,
    UsedPodSet,
    UsedWorkload,
    WaitReason,
    write_usage,
)
from reconciler.web.guard import Guard, local_guard
from reconciler.web.listener import HttpListener
from reconciler.web.site import Website
from reconciler.web.snapshot import Snapshot, read_shown, take
from tests.cli.fleet import Fleet

GPU = "nvidia.com/gpu"


def used(name: str, state: str, *, gpus: int, pods: int = 1, nodes: tuple[tuple[str, int], ...] = ()) -> UsedWorkload:
    return UsedWorkload(
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        namespace="default",
        name=name,
        queue="h100",
        state=state,
        created_at="2026-11-01T06:00:00Z",
        conditions=(WaitReason(reason="Unschedulable", message="no node has 8 free GPUs"),) if state == WAITING else (),
        pod_sets=(UsedPodSet(name="worker", count=pods, requests={GPU: str(gpus)}, nodes=nodes),),
    )


def add_evidence(fleet: Fleet, *names: str) -> None:
    """Add the evidence of use: `vit` runs on two nodes, and others wait."""
    workloads = (
        used("vit", RUNNING, gpus=8, pods=2, nodes=(("h100-01", 1), ("h100-02", 1))),
        *(used(name, WAITING, gpus=8) for name in names),
    )
    waits = (QueueWaits(queue="h100", samples=12, p50_seconds=60, p90_seconds=600, window="7d", source="kueue"),)
    usage = Usage(cluster="main", observed_at="2026-11-01T06:00:00Z", workloads=workloads, waits=waits)
    fleet.write("evidence/main/usage.yaml", write_usage(usage).decode())


@contextmanager
def serving(fleet: Fleet, guard: Guard = local_guard) -> Iterator[tuple[str, Website]]:
    """Serve the pages of a repository; return their address, and the site."""

    def snapshot() -> Snapshot:
        return take(opening.open_run(str(fleet.root), {}, dict(os.environ)), name="fleet")

    repository = opening.open_run(str(fleet.root), {}, dict(os.environ)).workspace.repository
    site = Website(snapshot, guard, lambda path: read_shown(repository, path))
    listener = HttpListener("127.0.0.1:0", site.answer)
    listener.start()
    try:
        yield f"http://127.0.0.1:{listener.port}", site
    finally:
        listener.stop()
