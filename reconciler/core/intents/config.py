"""`ReconcilerConfig` (`reconciler.yaml`): clusters, source folders, rules and budgets as typed values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Backend(StrEnum):
    """What queues jobs in a cluster: NVIDIA's KAI scheduler, Kueue, or nothing but plain Kubernetes."""

    KAI = "kai"
    KUEUE = "kueue"
    NONE = "none"


class Vendor(StrEnum):
    """Whose GPUs: decides the resource key."""

    NVIDIA = "nvidia"
    AMD = "amd"

    @property
    def resource(self) -> str:
        """The extended resource that the vendor's device plugin registers."""
        return {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which source documents a cluster takes: by folder (any depth below) and by label. Empty: all of them."""

    folders: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster that the repository renders for."""

    name: str
    backend: Backend = Backend.KAI
    namespace: str = "default"  # of objects that name none
    vendor: Vendor = Vendor.NVIDIA
    select: Selector = Selector()
    # Objects that exist in the cluster but not in this repository: `Kind` or `Kind/namespace/name` per entry.
    external: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSetting:
    """A shipped rule's switch: on or off, its action (deny, warn, audit), and its parameters."""

    enabled: bool = True
    action: str = ""  # empty: as the rule ships
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What a plan may do without an acknowledgement. None: no limit.

    `delete_share` is of the objects that existed before; `gpu_quota_change` is the sum over queues of |after - before|
    guaranteed GPUs, as a share of what was guaranteed before; the counts are absolute.
    """

    delete_count: int | None = 10
    delete_share: float | None = 0.25
    gpu_quota_count: int | None = None
    gpu_quota_share: float | None = 0.5
    empty_sources: bool = False  # True: a source folder may be empty or vanish


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole of `reconciler.yaml`."""

    clusters: tuple[Cluster, ...]
    sources: tuple[str, ...] = ("queues", "jobs")
    policies: tuple[str, ...] = ("policies",)
    evidence: str = "evidence"
    rendered: str = "rendered"
    rules: Mapping[str, RuleSetting] = field(default_factory=dict)
    budgets: Budgets = Budgets()
