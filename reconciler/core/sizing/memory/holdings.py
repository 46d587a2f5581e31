"""What lies on one GPU through a whole step, in bytes."""

from typing import NamedTuple

from reconciler.core.sizing.memory.sharding import DEEPSPEED, FSDP, Shards
from reconciler.core.sizing.memory.terms import States, Terms
from reconciler.core.sizing.training import Layout, Offload, Strategy, Training

ZERO3_LIVE = 2e9
"""Bytes of weights that ZeRO-3 keeps whole beside those in use: `stage3_max_live_parameters` is 1e9 by default."""

ZERO3_GROUP = 4e9
"""Bytes of gradients that ZeRO-3 casts to fp32 at once: `sub_group_size` is 1e9 by default."""


class Holdings(NamedTuple):
    """Shards of weights, gradients and optimizer; what sharding holds besides; what one token adds.

    `temporary` are the copies of the optimizer's step, `gathered` the units whose weights are whole, `whole` gradients
    that stay whole between the steps of an accumulation, `buckets` the copies of gradients that DDP sums. `inputs` are
    bytes of one token. `gathers`: FSDP gathers.
    """

    weights: float
    gradients: float
    optimizer: float
    temporary: float
    gathered: float
    whole: float
    buckets: float
    inputs: float
    gathers: bool


def holdings_of(training: Training, layout: Layout, terms: Terms, shards: Shards) -> Holdings:
    """Divide the states of a training by its strategy."""
    weights, gradients, optimizer, temporary = divided(terms.states, shards)
    whole = buckets = 0.0
    if training.strategy is Strategy.DDP and layout.gpus > training.tensor * training.pipeline:
        buckets = gradients  # torch keeps them beside, unless `gradient_as_bucket_view` is asked for
    if layout.accumulation > 1 and layout.gpus > 1 and not terms.adapters and training.strategy in FSDP:
        whole = terms.half if terms.stack.accumulates else 0.0
    if shards.weights == 1 and training.offload is not Offload.ALL:
        return Holdings(weights, gradients, optimizer, temporary, terms.copy, whole, buckets, 0.0, gathers=False)
    gathered = _gathered(training, terms, shards)
    if training.strategy in DEEPSPEED:
        return Holdings(
            weights, gradients, optimizer, min(ZERO3_GROUP, temporary), gathered, whole, buckets, 0.0, gathers=False
        )
    return Holdings(weights, gradients, optimizer, temporary, gathered, whole, buckets, terms.inputs, gathers=True)


def divided(states: States, shards: Shards) -> tuple[float, float, float, float]:
    """Return the shards of weights, gradients, optimizer and its copies."""
    weights, gradients, optimizer, temporary = states
    return (
        weights / shards.weights,
        gradients / shards.gradients,
        optimizer / shards.optimizer,
        temporary / shards.optimizer,
    )


def _gathered(training: Training, terms: Terms, shards: Shards) -> float:
    """Count what is whole at once: never more than all weights.

    FSDP and ZeRO-3 hold two layers (the one that computes, the one that is fetched), and the root unit: embedding and
    head; FSDP their gradients too, where they are trained, and a shard in 2 bytes beside the one in fp32.
    """
    ends = terms.ends * terms.stack.ends
    gathered = 2 * terms.layer + ends
    if training.strategy in DEEPSPEED:
        gathered += ZERO3_LIVE
    elif not terms.adapters:
        gathered += ends + (terms.half / shards.weights if terms.cast else 0.0)
    return min(terms.half, gathered)
