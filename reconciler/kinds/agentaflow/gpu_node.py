"""`GPUNode`: the GPUs of a node and their state, as evidence beside the inventory; and the annotation with the same."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import count, mapping, sequence, text
from reconciler.kube.yaml import Document
from reconciler.sizing.inventory import Inventory, Node

DEVICES = "agentaflow.gpu/devices"
"""Annotation of a node: its GPUs as JSON, as AgentaFlow's monitor reads them from nvidia-smi."""

_MAX_LENGTH = 262_144  # of all annotations of an object
_MAX_DEVICES = 1024
_WARM, _HOT, _FULL, _BUSY = 85.0, 95.0, 0.9, 95.0


class GpuDevice(Struct, frozen=True, kw_only=True):
    """A GPU. Its product is the name of the driver as node labels have it."""

    id: str
    product: str = ""
    memory_mib: int = 0


class GpuState(Struct, frozen=True, kw_only=True):
    """The state of a GPU; None: not said. Utilisation in percent, memory in MiB, temperature in degrees Celsius."""

    id: str
    utilization: float | None = None
    memory_used: int | None = None
    temperature: float | None = None
    workload: str = ""


class GpuIssue(StrEnum):
    """The grade of a GPU by AgentaFlow."""

    HEALTHY = "healthy"
    INFO = "info"
    WARNING = "warning"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


def graded(state: GpuState, memory_mib: int) -> GpuIssue:
    """Grade a GPU by AgentaFlow's fixed limits: 85 and 95 °C, 90 % of its real memory, 95 % busy.

    Heat is never hidden by load. A memory of 0 is not known.
    """
    if state.temperature is None:
        return GpuIssue.UNKNOWN
    if state.temperature > _HOT:
        return GpuIssue.UNHEALTHY
    is_full = memory_mib > 0 and (state.memory_used or 0) > _FULL * memory_mib
    if state.temperature > _WARM or is_full:
        return GpuIssue.WARNING
    return GpuIssue.INFO if (state.utilization or 0.0) > _BUSY else GpuIssue.HEALTHY


class GpuNode(Struct, frozen=True, kw_only=True):
    """A GPUNode. is_open: it takes new work."""

    name: str
    devices: tuple[GpuDevice, ...]
    states: tuple[GpuState, ...] = ()
    is_open: bool = True
    updated_at: str = ""
    document: Document | None = None


def parse_gpu_node(document: Document) -> GpuNode:
    """Read a document that its schema has accepted."""
    spec, status = mapping(document.data.get("spec")), mapping(document.data.get("status"))
    return GpuNode(
        name=text(spec.get("nodeName")) or document.key.name,
        devices=_devices(spec.get("gpuDevices")),
        states=tuple(
            GpuState(
                id=text(one.get("id")),
                utilization=one.get("utilization"),
                memory_used=one.get("memoryUsed"),
                temperature=one.get("temperature"),
                workload=text(one.get("currentWorkload")),
            )
            for one in map(mapping, sequence(status.get("gpuStatus")))
        ),
        is_open=status.get("phase") in (None, "Active"),
        updated_at=text(status.get("lastUpdated")),
        document=document,
    )


def annotated_devices(annotations: Mapping[str, Any]) -> tuple[GpuDevice, ...]:
    """Return the GPUs that the annotation of a node lists; none if it cannot be read."""
    written = text(annotations.get(DEVICES))
    if not written or len(written) > _MAX_LENGTH:
        return ()
    try:
        return _devices(msgspec.json.decode(written))
    except (msgspec.DecodeError, RecursionError):
        return ()


def _devices(rows: Any) -> tuple[GpuDevice, ...]:
    found = [mapping(row) for row in sequence(rows)[:_MAX_DEVICES]]
    return tuple(
        GpuDevice(
            id=text(row.get("id")),
            product="-".join(text(row.get("name")).split()),
            memory_mib=count(row.get("memoryTotal"), 0),
        )
        for row in found
    )


def common(devices: Sequence[GpuDevice]) -> tuple[str, int]:
    """Return the product of most of the devices, and the least memory of one; empty and 0 if nothing says so."""
    products = [one.product for one in devices if one.product]
    memories = [one.memory_mib for one in devices]
    return max(sorted(set(products)), key=products.count, default=""), min(memories, default=0)


def with_gpu_nodes(
    inventories: Mapping[str, Inventory], gpu_nodes: Mapping[str, tuple[GpuNode, ...]]
) -> Mapping[str, Inventory]:
    """Return the inventories with what GPUNodes know besides: nodes, and GPUs and memory that were not measured."""
    found = dict(inventories)
    for cluster, nodes in gpu_nodes.items():
        known = found.get(cluster)
        if known is None:
            taken_at = min((one.updated_at for one in nodes if one.updated_at), default="")
            known = Inventory(cluster=cluster, taken_at=taken_at, document=nodes[0].document)
        found[cluster] = replace(known, nodes=tuple(_merged(known.nodes, nodes)))
    return found


def _merged(known: Iterable[Node], gpu_nodes: Iterable[GpuNode]) -> list[Node]:
    by_name = {node.name: node for node in known}
    for one in gpu_nodes:
        product, memory = common(one.devices)
        node = by_name.get(one.name) or Node(name=one.name, unschedulable=not one.is_open)
        by_name[one.name] = replace(
            node,
            product=node.product or product,
            gpus=node.gpus or len(one.devices),
            memory_mib=node.memory_mib or memory,
        )
    return sorted(by_name.values(), key=lambda node: node.name)
