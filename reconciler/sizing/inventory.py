"""`NodeInventory` (`evidence/<cluster>/nodes.yaml`): the nodes that were measured, as typed values."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.violations import foreign_cluster, repeated_nodes
from reconciler.kube.yaml import Document, write

_API_VERSION = "gpureconciler.io/v1alpha1"
_HEADER = b"# The nodes of the cluster. `reconciler observe` writes this file; sizing, placement and quotas use it.\n"


class Taint(Struct, frozen=True, kw_only=True, order=True):
    """Keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str


class Node(Struct, frozen=True, kw_only=True):
    """One node as it was measured. `gpus` counts GPUs of one product (`nvidia.com/gpu.product` value, or AMD's).

    slices: allocatable slices of GPUs and other accelerators, by resource (`nvidia.com/mig-1g.10gb`).
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    product: str = ""
    gpus: int = 0
    memory_mib: int = 0  # of one GPU, as NVML reports it
    cpus: int = 0
    unschedulable: bool = False
    quarantined: bool = False  # by a NodeQuarantine in Git; never measured
    taints: tuple[Taint, ...] = ()
    allocatable_cpus: int = 0  # 0: not measured, as of the next two
    allocatable_memory_gib: int = 0
    allocatable_gpus: int = 0
    slices: Mapping[str, int] = field(default_factory=dict)
    origin: FieldPath = ()  # where the inventory says so

    @property
    def is_open(self) -> bool:
        """True if new work may run here."""
        return not self.unschedulable and not self.quarantined


class Inventory(Struct, frozen=True, kw_only=True, dict=True, weakref=True):
    """The nodes of one cluster and when they were read. `document` is the evidence file."""

    cluster: str
    taken_at: str  # RFC 3339
    nodes: tuple[Node, ...] = ()
    document: Document | None = None

    def gpu_nodes(self, selector: Mapping[str, str]) -> Sequence[Node]:
        """Return the schedulable nodes with GPUs that have all labels of a node selector."""
        fewest = min((self._by_label.get(label, ()) for label in selector.items()), key=len, default=self._schedulable)
        if len(selector) <= 1:
            return fewest
        return [node for node in fewest if all(node.labels.get(key) == value for key, value in selector.items())]

    @cached_property
    def gpus_by_product(self) -> Mapping[str, int]:
        """The GPUs on schedulable nodes by product; 0 for a product whose nodes are all cordoned or quarantined."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            if node.gpus:
                counts[node.product] = counts.get(node.product, 0) + (node.gpus if node.is_open else 0)
        return counts

    @cached_property
    def gpu_shapes(self) -> tuple[Node, ...]:
        """The schedulable nodes with GPUs, one of each combination of product, labels and taints."""
        shapes = {(node.product, frozenset(node.labels.items()), node.taints): node for node in self._schedulable}
        return tuple(shapes.values())

    @cached_property
    def _schedulable(self) -> Sequence[Node]:
        return [node for node in self.nodes if node.gpus > 0 and node.is_open]

    @cached_property
    def _by_label(self) -> Mapping[tuple[str, str], Sequence[Node]]:
        """Schedulable nodes by label: hundreds of queues select among thousands of nodes."""
        nodes: dict[tuple[str, str], list[Node]] = {}
        for node in self._schedulable:
            for label in node.labels.items():
                nodes.setdefault(label, []).append(node)
        return nodes


def parse_inventory(document: Document, cluster: str) -> tuple[Inventory | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted, for `cluster` (the folder it lies in)."""
    spec = document.data["spec"]
    problems = document.problems((*foreign_cluster(spec, cluster), *repeated_nodes(spec)))
    if problems:
        return None, problems
    nodes = tuple(_node(entry, index) for index, entry in enumerate(spec.get("nodes", ())))
    return Inventory(cluster=cluster, taken_at=spec["takenAt"], nodes=nodes, document=document), ()


def write_inventory(inventory: Inventory) -> bytes:
    """Write the evidence file. Equal nodes and times give equal bytes."""
    nodes = [_entry(node) for node in inventory.nodes]
    spec = {"cluster": inventory.cluster, "takenAt": inventory.taken_at, "nodes": nodes}
    body = {"apiVersion": _API_VERSION, "kind": "NodeInventory", "metadata": {"name": inventory.cluster}, "spec": spec}
    return _HEADER + write(body)


def with_quarantined(inventory: Inventory, names: AbstractSet[str]) -> Inventory:
    """Return the inventory in which exactly these nodes are quarantined."""
    if all(node.quarantined is (node.name in names) for node in inventory.nodes):
        return inventory
    nodes = tuple(replace(node, quarantined=node.name in names) for node in inventory.nodes)
    return replace(inventory, nodes=nodes)


def same_nodes(one: Inventory, other: Inventory) -> bool:
    """Return whether two inventories would be written with the same nodes."""
    return [_entry(node) for node in one.nodes] == [_entry(node) for node in other.nodes]


def _entry(node: Node) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": node.name, "labels": dict(sorted(node.labels.items()))}
    if node.gpus:
        entry["gpu"] = {"product": node.product, "count": node.gpus}
        entry["gpu"] |= {"memoryMiB": node.memory_mib} if node.memory_mib else {}
    allocatable = {"cpus": node.allocatable_cpus, "memoryGiB": node.allocatable_memory_gib}
    entry |= {
        "cpus": node.cpus,
        "unschedulable": node.unschedulable,
        "taints": [{name: value for name, value in asdict(taint).items() if value} for taint in node.taints],
        "allocatable": {name: value for name, value in allocatable.items() if value}
        | ({"gpus": node.allocatable_gpus} if node.allocatable_gpus != node.gpus else {})
        | ({"slices": dict(sorted(node.slices.items()))} if node.slices else {}),
    }
    return {name: value for name, value in entry.items() if value}


def _node(entry: Mapping[str, Any], index: int) -> Node:
    gpu, allocatable = entry.get("gpu", {}), entry.get("allocatable", {})
    return Node(
        name=entry["name"],
        labels=dict(entry.get("labels", {})),
        product=gpu.get("product", ""),
        gpus=gpu.get("count", 0),
        memory_mib=gpu.get("memoryMiB", 0),
        cpus=entry.get("cpus", 0),
        unschedulable=entry.get("unschedulable", False),
        taints=tuple(Taint(**taint) for taint in entry.get("taints", ())),
        allocatable_cpus=allocatable.get("cpus", 0),
        allocatable_memory_gib=allocatable.get("memoryGiB", 0),
        allocatable_gpus=allocatable.get("gpus", gpu.get("count", 0)),
        slices=dict(allocatable.get("slices", {})),
        origin=("spec", "nodes", index),
    )
