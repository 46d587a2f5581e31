"""`NodeInventory` (`evidence/<cluster>/nodes.yaml`): the nodes that were measured, as typed values."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath, format_path
from reconciler.core.problems import Problem


class Node(Struct, frozen=True, kw_only=True):
    """One node as it was measured. `gpus` counts GPUs of one product (`nvidia.com/gpu.product` value, or AMD's)."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    product: str = ""
    gpus: int = 0
    memory_mib: int = 0  # of one GPU, as NVML reports it
    cpus: int = 0
    unschedulable: bool = False
    origin: FieldPath = ()  # where the inventory says so


class Inventory(Struct, frozen=True, kw_only=True, dict=True):
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
        """The GPUs on schedulable nodes by product; 0 for a product whose nodes are all cordoned."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            if node.gpus:
                counts[node.product] = counts.get(node.product, 0) + (0 if node.unschedulable else node.gpus)
        return counts

    @cached_property
    def _schedulable(self) -> Sequence[Node]:
        return [node for node in self.nodes if node.gpus > 0 and not node.unschedulable]

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
    problems = tuple(_problems(document, spec, cluster))
    if problems:
        return None, problems
    nodes = tuple(_node(entry, index) for index, entry in enumerate(spec.get("nodes", ())))
    return Inventory(cluster=cluster, taken_at=spec["takenAt"], nodes=nodes, document=document), ()


def _node(entry: Mapping[str, Any], index: int) -> Node:
    gpu = entry.get("gpu", {})
    return Node(
        name=entry["name"],
        labels=dict(entry.get("labels", {})),
        product=gpu.get("product", ""),
        gpus=gpu.get("count", 0),
        memory_mib=gpu.get("memoryMiB", 0),
        cpus=entry.get("cpus", 0),
        unschedulable=entry.get("unschedulable", False),
        origin=("spec", "nodes", index),
    )


def _problems(document: Document, spec: Mapping[str, Any], cluster: str) -> Iterator[Problem]:
    def problem(rule: str, field: FieldPath, message: str, hint: str) -> Problem:
        return Problem(rule=rule, place=document.at(field), field=format_path(field), message=message, hint=hint)

    if spec.get("cluster", cluster) != cluster:
        message = f"is {spec['cluster']!r}, but the file is in the folder of cluster {cluster!r}"
        yield problem("evidence.cluster", ("spec", "cluster"), message, "move the file or correct the name")
    seen: set[str] = set()
    for index, node in enumerate(spec.get("nodes", ())):
        if node["name"] in seen:
            field: FieldPath = ("spec", "nodes", index, "name")
            yield problem("evidence.duplicate-node", field, f"node {node['name']!r} is listed twice", "remove one")
        seen.add(node["name"])
