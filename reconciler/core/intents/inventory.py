"""`NodeInventory` (`evidence/<cluster>/nodes.yaml`): the nodes that were measured, as typed values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node as it was measured. `gpus` counts GPUs of one product (`nvidia.com/gpu.product` value, or AMD's)."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    product: str = ""
    gpus: int = 0
    memory_mib: int = 0  # of one GPU, as NVML reports it
    cpus: int = 0
    unschedulable: bool = False
    origin: FieldPath = ()  # where the inventory says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The nodes of one cluster and when they were read. `document` is the evidence file."""

    cluster: str
    taken_at: str  # RFC 3339
    nodes: tuple[Node, ...] = ()
    document: Document | None = None
