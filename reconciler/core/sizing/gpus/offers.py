"""Which cards a cluster offers: what was measured on its nodes wins over the table."""

from math import inf

from msgspec.structs import replace

from reconciler.core.intents.config import Vendor
from reconciler.core.intents.inventory import Inventory, Node
from reconciler.core.sizing.gpus.gpu import Gpu
from reconciler.core.sizing.gpus.names import find_gpu

_ENDLESS = Gpu(product="", memory_gib=inf)


def offered_gpus(inventory: Inventory) -> tuple[Gpu, ...]:
    """Return the cards of the nodes that take work, in the order of their names, each product once.

    Memory is what was measured: the least of the nodes with the product, so that a job fits on any of them. A product
    that the table does not know is returned with its measured memory alone; one without any known memory is left out.
    """
    found: dict[str, Gpu] = {}
    for node in inventory.nodes:
        gpu = _of(node)
        if gpu is not None and gpu.memory_gib < (
            found[gpu.product].memory_gib if gpu.product in found else float("inf")
        ):
            found[gpu.product] = gpu
    return tuple(found[product] for product in sorted(found))


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
