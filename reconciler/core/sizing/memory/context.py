"""What CUDA and NCCL take before the first tensor."""

from functools import lru_cache

from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.memory.stacks import Stack
from reconciler.core.sizing.training import Layout

_LINKED = ("SXM", "HBM", "H200", "B200", "B300", "GH200", "MI2", "MI3")


@lru_cache(maxsize=1024)
def linked(product: str) -> bool:
    """Tell whether cards of this product are joined by NVLink or Infinity Fabric, by their name."""
    name = product.upper()
    return any(word in name for word in _LINKED)


def context_gib(stack: Stack, gpu: Gpu, layout: Layout) -> float:
    """Return GiB of the context of one GPU, alone or among others.

    A card whose reported total is all of its memory (A100: 80.0 GiB) counts the driver's own share as used; others have
    taken it off their total (L40S: 44.99 of 48 GiB).
    """
    context = stack.context + (stack.reserved if gpu.memory_gib % 8 == 0 else 0.0)
    if layout.gpus == 1:
        return context
    return context + (stack.links if linked(gpu.product) else 0.0) - (stack.across if layout.workers > 1 else 0.0)
