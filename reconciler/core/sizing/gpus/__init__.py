"""GPUs by the name that nodes carry, with the memory that the driver reports."""

from reconciler.core.sizing.gpus.gpu import Gpu
from reconciler.core.sizing.gpus.names import all_gpus, closest_gpus, find_gpu
from reconciler.core.sizing.gpus.offers import offered_gpus

__all__ = ["Gpu", "all_gpus", "closest_gpus", "find_gpu", "offered_gpus"]
