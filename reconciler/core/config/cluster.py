"""A cluster that the repository renders for: who queues, whose GPUs, which sources it takes, how jobs are sized."""

from enum import StrEnum

from msgspec import Struct

from reconciler.core.config.sizing import SizingSettings


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


class Selector(Struct, frozen=True, kw_only=True):
    """Which source documents a cluster takes: by folder (any depth below) and by label. Empty: all of them."""

    folders: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


class Cluster(Struct, frozen=True, kw_only=True):
    """One cluster that the repository renders for."""

    name: str
    backend: Backend = Backend.KAI
    namespace: str = "default"  # of objects that name none
    vendor: Vendor = Vendor.NVIDIA
    select: Selector = Selector()
    # Objects that exist in the cluster but not in this repository: `Kind` or `Kind/namespace/name` per entry.
    external: tuple[str, ...] = ()
    sizing: SizingSettings = SizingSettings()  # `spec.sizing` with the cluster's own `sizing` laid over it
