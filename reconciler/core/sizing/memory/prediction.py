"""The prediction: one layout's peak, in parts, with its band."""

from typing import NamedTuple

from reconciler.core.sizing.estimate import Estimate, Part
from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.memory.context import context_gib
from reconciler.core.sizing.memory.holdings import Holdings, holdings_of
from reconciler.core.sizing.memory.needs import need_of
from reconciler.core.sizing.memory.sharding import shards_of
from reconciler.core.sizing.memory.stacks import Stack
from reconciler.core.sizing.memory.terms import Terms, terms_of
from reconciler.core.sizing.training import Layout, Training

GIB = float(1 << 30)

FULL_CARD = 0.975
"""Share of a card at which PyTorch has been seen to return cached blocks to the driver rather than to fail."""

FELT = GIB
"""Bytes of an optimizer in the host's memory from which on its paging is felt; adapters have less."""

RETAINED = 0.75
"""Share of the room between need and a full card that is still taken after that."""


class _Moving(NamedTuple):
    """What passes through one GPU in a step, in bytes, as far as the allocator keeps it."""

    transients: float
    activations: float
    logits: float
    context: float

    @property
    def given_back(self) -> float:
        """What the allocator may return at most."""
        return self.transients + self.activations + self.logits


class _Totals(NamedTuple):
    peak: float
    need: float
    floor: float
    unpaged: float | None


def estimate(training: Training, layout: Layout, gpu: Gpu, stack: Stack | None = None) -> Estimate:
    """Predict the peak memory of the fullest GPU, as NVML reports it: the larger of loading the model and one step.

    A step holds weights, gradients and optimizer by their shards, what sharding gathers, the kept activations, and on
    top the loss or the optimizer's copies. PyTorch's allocator keeps freed blocks, so the phases partly add; where that
    would pass the card it gives them back, down to what is alive. A paged optimizer leaves to the host what does not
    fit. `stack` replaces the constants of the training's framework.
    """
    shards = shards_of(training, layout)
    terms = terms_of(training, stack, sharded=shards.weights > 1)
    held = holdings_of(training, layout, terms, shards)
    tokens = layout.batch * training.sequence
    moving = _moving(terms, held, tokens, context_gib(terms.stack, gpu, layout) * GIB)
    full = held.weights + held.gradients + held.optimizer + sum(moving)
    need, floor = need_of(terms, held, shards, tokens, accumulates=layout.accumulation > 1)
    limit = FULL_CARD * gpu.memory_gib * GIB
    peak, spilled = full, 0.0
    if terms.paged:
        spilled = min(held.optimizer, max(0.0, full - limit))
        peak -= spilled
    if peak > limit:
        taken = max(need, need + RETAINED * (limit - need), full - spilled - moving.given_back)
        peak = min(peak, taken)
    held = held._replace(optimizer=held.optimizer - spilled)
    return _answer(terms, held, moving, _Totals(peak, need, floor, full if spilled > FELT else None))


def _moving(terms: Terms, held: Holdings, tokens: int, context: float) -> _Moving:
    """Add up a step; where loading the model needs more, transients grow by the difference.

    Loading gathers, casts and flattens unit by unit; what is cast to fp32 lies whole on every GPU before it is divided.
    """
    activations = tokens * (terms.kept + held.inputs + terms.block)
    logits = tokens * (max(0.0, terms.logits - terms.block) if terms.stack.live else terms.logits)
    flow = activations + logits
    step = held.temporary
    if not terms.adapters:
        step *= 1 - terms.stack.reuse * min(1.0, flow / (terms.stack.ample * held.temporary)) if step else 1.0
    transients = held.gathered + held.whole + held.buckets + step
    if held.gathers:
        loading = terms.stack.loading * max(terms.layer, terms.ends)
        if terms.cast and not terms.adapters:
            loading = max(loading, 2 * terms.half)
        later = held.gradients + held.optimizer + flow + context - terms.stack.context * GIB
        transients = max(transients, loading - later)
    return _Moving(transients, activations, logits, context)


def _answer(terms: Terms, held: Holdings, moving: _Moving, totals: _Totals) -> Estimate:
    """Put the parts together; what the allocator gave back is taken from all that moves."""
    peak, need, floor, unpaged = totals
    states = held.weights + held.gradients + held.optimizer
    rest = moving.given_back
    share = max(0.0, (peak - states - moving.context) / rest) if rest else 1.0
    sizes = (
        ("weights", held.weights),
        ("gradients", held.gradients),
        ("optimizer", held.optimizer),
        ("transients", moving.transients * share),
        ("activations", moving.activations * share),
        ("logits", moving.logits * share),
        ("overhead", moving.context),
    )
    return Estimate(
        peak_gib=peak / GIB,
        low_gib=peak / GIB * terms.low,
        high_gib=peak / GIB * terms.high,
        floor_gib=floor / GIB,
        need_gib=need / GIB,
        confidence=terms.confidence,
        parts=tuple([Part(name=name, gib=size / GIB) for name, size in sizes]),
        unpaged_gib=None if unpaged is None else unpaged / GIB,
    )
