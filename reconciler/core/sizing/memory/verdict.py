"""Whether a layout fits a card."""

from reconciler.core.sizing.estimate import Estimate
from reconciler.core.sizing.gpus import Gpu


def fits(estimate: Estimate, gpu: Gpu, safety: float) -> bool:
    """Tell whether what is needed, and `safety` of it besides, is there.

    Monotone by construction: `need_gib` never grows with GPUs, with fewer tokens, or with adapters instead of all
    weights. It never passes where weights and gradients alone exceed the card.
    """
    return estimate.need_gib * (1 + safety) <= gpu.memory_gib
