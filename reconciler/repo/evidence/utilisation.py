"""`GpuUtilisation` (`evidence/<cluster>/utilisation.yaml`): how busy GPUs of workloads are, and who waits for GPUs."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from reconciler.kube.objects import ObjectKey, split_api_version
from reconciler.kube.problems import Problem
from reconciler.kube.violations import foreign_cluster
from reconciler.kube.yaml import Document, write

KIND = "GpuUtilisation"
_API_VERSION = "gpureconciler.io/v1alpha1"
_HEADER = (
    b"# How busy the GPUs of workloads are. `reconciler observe` writes this file; `reconciler preempt` reads it.\n"
)
_Count = Annotated[int, Meta(ge=0)]

IDLE_PERCENT = 5.0
"""A GPU that is less busy does nothing."""


class _Row(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of the file."""


class GpuWindow(_Row, frozen=True, kw_only=True):
    """The values of one metric of one GPU of a pod over the window, in percent."""

    gpu: str
    metric: str
    max: float
    mean: float
    samples: _Count
    expected: _Count
    idle: Annotated[float, Meta(ge=0, le=1)] | None = None  # share of the samples below 5 %; None: not asked for

    @property
    def idle_share(self) -> float | None:
        """The share of the window in which the GPU did nothing; None if nothing says so."""
        if not self.samples:
            return None
        return 1.0 if self.idle is None and self.max < IDLE_PERCENT else self.idle


class GpuPod(_Row, frozen=True, kw_only=True):
    """A running pod with GPUs, and its windows: none if nothing was measured."""

    name: str
    node: str
    gpus: _Count
    windows: tuple[GpuWindow, ...] = ()

    def busiest(self) -> tuple[GpuWindow, ...]:
        """Return a window of each GPU that was measured: of several metrics the one with the highest mean."""
        found: dict[str, GpuWindow] = {}
        for window in self.windows:
            if window.samples and (window.gpu not in found or window.mean > found[window.gpu].mean):
                found[window.gpu] = window
        return tuple(found.values())

    def idle_shares(self) -> tuple[float, ...]:
        """Return the idle share of each GPU that was measured: of several metrics the busier one counts."""
        found: dict[str, float] = {}
        for window in self.windows:
            share = window.idle_share
            if share is not None:
                found[window.gpu] = min(share, found.get(window.gpu, 1.0))
        return tuple(found.values())


class _RootOwner(_Row, frozen=True, kw_only=True):
    """The owner at the root of pods that hold or want a resource. `queue` is its ClusterQueue."""

    api_version: str
    kind: str
    namespace: str
    name: str
    resource: str
    queue: str = ""
    priority: int = 0

    @property
    def key(self) -> ObjectKey:
        """Its identity."""
        group, _ = split_api_version(self.api_version)
        return ObjectKey(group=group, kind=self.kind, namespace=self.namespace, name=self.name)


class GpuWorkload(_RootOwner, frozen=True, kw_only=True):
    """The owner of running pods with GPUs.

    started_at: when the first of its running pods started; empty if none runs yet.
    """

    pods: tuple[GpuPod, ...]
    started_at: str = ""
    notes: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """The GPUs that it holds."""
        return sum(pod.gpus for pod in self.pods)


class WaitingPods(_Row, frozen=True, kw_only=True):
    """Pods of one kind that wait: how many, with how many GPUs each, and the nodes that take them."""

    count: _Count
    gpus: _Count
    node_selector: dict[str, str] = {}
    tolerations: tuple[str, ...] = ()


class WaitingWorkload(_RootOwner, frozen=True, kw_only=True):
    """A workload that waits for GPUs. `headroom`: GPUs that its queue still grants."""

    since: str
    pods: tuple[WaitingPods, ...]
    headroom: _Count = 0

    @property
    def gpus(self) -> int:
        """The GPUs that it waits for."""
        return sum(pods.count * pods.gpus for pods in self.pods)


class GpuUtilisation(_Row, frozen=True, kw_only=True):
    """The use of the GPUs of one cluster in the window before `taken_at`. `document` is the evidence file."""

    cluster: str = ""
    taken_at: str
    window_seconds: Annotated[int, Meta(ge=1)]
    workloads: tuple[GpuWorkload, ...] = ()
    waiting: tuple[WaitingWorkload, ...] = ()
    document: Any = None


def parse_utilisation(document: Document, cluster: str) -> tuple[GpuUtilisation | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted, for `cluster` (the folder it lies in)."""
    spec = document.data["spec"]
    problems = document.problems(foreign_cluster(spec, cluster))
    if problems:
        return None, problems
    return replace(msgspec.convert({**spec, "cluster": cluster}, GpuUtilisation), document=document), ()


def write_utilisation(found: GpuUtilisation) -> bytes:
    """Write the evidence file. Equal values give equal bytes."""
    spec: Any = msgspec.to_builtins(found)
    return _HEADER + write(
        {"apiVersion": _API_VERSION, "kind": KIND, "metadata": {"name": found.cluster}, "spec": spec}
    )
