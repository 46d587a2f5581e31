"""Which cards a cluster offers: what was measured on its nodes wins over the table."""

from math import inf

from msgspec.structs import replace

from reconciler.core.config import Vendor
from reconciler.core.inventory import Inventory, Node
from reconciler.core.sizing.gpus.gpu import Gpu
from reconciler.core.sizing.gpus.names import find_gpu

_ENDLESS = Gpu(product="", memory_gib=inf)


def offered_gpus(inventory: Inventory) -> tuple[Gpu, ...]:
    """Return the cards of the nodes that take work, in the order of their names, each product once.

    Memory is what was measured: the least of the nodes with the product, so that a job fits on any of them. A product
    that the table does not know is returned with its measured memory alone; one without any known memory is left out.
    """
    nodes = [(gpu, node.gpus) for node in inventory.nodes if (gpu := _of(node)) is not None]
    return tuple(_together([one for one in nodes if one[0].product == product]) for product in _products(nodes))


def _products(nodes: list[tuple[Gpu, int]]) -> list[str]:
    return sorted({gpu.product for gpu, _ in nodes})


def _together(nodes: list[tuple[Gpu, int]]) -> Gpu:
    least = min((gpu for gpu, _ in nodes), key=lambda gpu: (gpu.memory_gib, gpu.source))
    counts = [count for _, count in nodes]
    return replace(least, per_node=max(counts), in_all=sum(counts))


def _of(node: Node) -> Gpu | None:
    if not node.product or node.gpus < 1 or node.unschedulable:
        return None
    known = find_gpu(node.product, node.memory_mib / 1024 if node.memory_mib > 0 else None)
    if node.memory_mib < 1:
        return None if known is None else replace(known, product=node.product)
    memory, source = round(node.memory_mib / 1024, 2), f"measured on node {node.name}"
    if known is None:
        vendor = Vendor.AMD if node.product.lower().startswith(("amd", "instinct")) else Vendor.NVIDIA
        return Gpu(product=node.product, memory_gib=memory, vendor=vendor, source=source)
    return replace(known, product=node.product, memory_gib=memory, source=source)
