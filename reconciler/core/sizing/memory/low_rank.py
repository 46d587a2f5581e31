"""Optimizers that keep states for projected gradients, or for one block of layers at a time."""

from reconciler.core.sizing.memory.states import BytesPerParameter, find_optimizer
from reconciler.core.sizing.training import Architecture, Method, Training

_BLOCK_COPY = 4.0
"""Bytes of BAdam's fp32 copy of a weight in the active block; its gradients and moments are in fp32, too."""


def reduced_states(
    training: Training, method: Method, each: BytesPerParameter, gradients: float, optimizer: float
) -> tuple[float, float]:
    """Return the bytes of gradients and optimizer, which are less than those given for such an optimizer.

    GaLore (arXiv 2403.03507, section 3) and APOLLO (arXiv 2412.05270, section 4) keep the moments of an m x n gradient
    in r x max(m, n), and a projection of r x min(m, n). BAdam (arXiv 2404.02827, section 2) trains one layer at a time.
    """
    known = find_optimizer(training.optimizer)
    if known is None or method is not Method.FULL or not (known.low_rank or known.blocks):
        return gradients, optimizer
    model = training.architecture
    if known.blocks:
        block = sum(linear.size * linear.count for linear in model.linears) / model.layers
        return 4.0 * block, (_BLOCK_COPY + 4.0 * known.states) * block
    width = known.width or each.weight
    return gradients, optimizer - _saved(model, training.optimizer_rank, known.states * width, each.weight)


def _saved(model: Architecture, rank: int, moments: float, weight: float) -> float:
    """Return the bytes that projections save on all linear layers; none where the rank is too large to save any."""
    saved = 0.0
    for linear in model.linears:
        short, long = sorted((linear.inputs, linear.outputs))
        projected = rank * (long * moments + short * weight)
        saved += linear.count * max(0.0, short * long * moments - projected)
    return saved
