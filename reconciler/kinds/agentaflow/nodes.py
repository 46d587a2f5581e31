"""The nodes that a GPUWorkload may use: enough memory, its type of GPU, and how its GPUs are spread over them."""

from collections.abc import Sequence
from functools import cache, lru_cache

from msgspec import Struct

from reconciler import resources
from reconciler.kinds.distribution import NodeKind, node_kinds
from reconciler.kinds.same import Same
from reconciler.kinds.translated import offers
from reconciler.sizing.devices import PRODUCT_LABEL, PRODUCT_LABELS, Vendor, product_words
from reconciler.sizing.gpus import GpuTable
from reconciler.sizing.inventory import Inventory, Node

MEMORY_LABEL = "nvidia.com/gpu.memory"
"""Label of a node with the memory of one GPU in MiB."""

_MIB = 1024
_BRANDS = frozenset(("nvidia", "amd", "tesla", "instinct"))

Requirement = tuple[str, str, tuple[str, ...]]
"""A requirement of a node affinity: label, operator, values."""


class FittingNodes(Struct, frozen=True, kw_only=True):
    """The nodes of a workload: those that take new work, and all; None where nothing was measured.

    memory: what its GPUs require of a node. type: what their type does; None if no GPU is of this type.
    products: those there are. largest: the most memory of a GPU there is, in MiB.
    """

    free: tuple[NodeKind, ...] | None = None
    all: tuple[NodeKind, ...] | None = None
    memory: Requirement
    type: Requirement | None = None
    products: tuple[str, ...] = ()
    largest: int = 0


class NodeWish(Struct, frozen=True, kw_only=True):
    """The demands of a workload on its nodes. An empty type is any."""

    resource: str
    vendor: Vendor
    memory_mib: int
    type: str = ""
    is_type_required: bool = False


@cache
def _table() -> GpuTable:
    return GpuTable(resources.read("data/gpus.json"))


def fitting_nodes(inventory: Inventory | None, wish: NodeWish) -> FittingNodes:
    """Return the nodes that a workload may use."""
    if inventory is None or inventory.document is None:
        return _unmeasured(wish)
    return _measured(Same(inventory), wish)


def _unmeasured(wish: NodeWish) -> FittingNodes:
    """Return what is known without nodes: the products that ship with the package."""
    label, known = PRODUCT_LABEL[wish.vendor], [gpu for gpu in _table() if gpu.vendor is wish.vendor]
    enough = tuple(sorted(gpu.product for gpu in known if gpu.memory_gib * _MIB >= wish.memory_mib))
    meant = tuple(sorted(gpu.product for gpu in _table().meant(wish.type))) if wish.type else ()
    return FittingNodes(
        memory=_more_than(wish) if wish.vendor is Vendor.NVIDIA else (label, "In", enough),
        type=(label, "In", meant) if meant else None,
        products=tuple(gpu.product for gpu in known),
    )


@lru_cache(maxsize=256)
def _measured(same: Same, wish: NodeWish) -> FittingNodes:
    inventory = same.find()
    if inventory is None:
        return _unmeasured(wish)
    having = [node for node in inventory.nodes if node.gpus and offers(node, wish.resource)]
    enough = [node for node in having if _memory(node) >= wish.memory_mib]
    of_type = [node for node in having if wish.type and is_type(wish.type, node.product)]
    chosen = [node for node in enough if node in of_type] if wish.is_type_required else enough
    # A measured memory is that of the label.
    is_labelled = wish.vendor is Vendor.NVIDIA and all(node.memory_mib for node in enough)
    return FittingNodes(
        free=node_kinds([node for node in chosen if node.is_open]),
        all=node_kinds(chosen),
        memory=_more_than(wish) if is_labelled else _one_of(enough, wish.vendor),
        type=_one_of(of_type, wish.vendor) if of_type else None,
        products=tuple(sorted({node.product for node in having if node.product})),
        largest=max(map(_memory, having), default=0),
    )


def _memory(node: Node) -> int:
    """Return the memory of one GPU of a node in MiB; 0 if it is not known."""
    known = None if node.memory_mib else _table().find(node.product)
    return node.memory_mib or (int(known.memory_gib * _MIB) if known is not None else 0)


def is_type(wanted: str, product: str) -> bool:
    """Return whether a product is of a type as people write it: `NVIDIA A100` is any A100."""
    words, known = product_words(wanted) - _BRANDS, _table().find(product)
    meant = {gpu.product for gpu in _table().meant(wanted)}
    return (bool(words) and words <= product_words(product)) or (known is not None and known.product in meant)


def _more_than(wish: NodeWish) -> Requirement:
    return MEMORY_LABEL, "Gt", (str(wish.memory_mib - 1),)


def _one_of(nodes: Sequence[Node], vendor: Vendor) -> Requirement:
    """Return the requirement of the products of nodes, by the label that all of them have."""
    label = next((one for one in PRODUCT_LABELS if nodes and all(one in node.labels for node in nodes)), "")
    label = label or PRODUCT_LABEL[vendor]
    return label, "In", tuple(sorted({node.labels.get(label, node.product) for node in nodes}))
