"""What lies on one GPU through a whole step, in bytes."""

from typing import NamedTuple

from reconciler.core.sizing.memory.sharding import DEEPSPEED, FSDP, shards_of
from reconciler.core.sizing.memory.terms import Terms
from reconciler.core.sizing.training import Layout, Offload, Training


class Holdings(NamedTuple):
    """Shards of weights, gradients and optimizer; what sharding holds besides; what one token adds.

    `temporary` are the copies of the optimizer's step, `gathered` the units whose weights are whole, `whole` gradients
    that stay whole between the steps of an accumulation. `gathers`: FSDP gathers the weights. `inputs` are bytes of one
    token. `alone` is what one GPU would hold of weights, gradients and optimizer.
    """

    weights: float
    gradients: float
    optimizer: float
    temporary: float
    gathered: float
    whole: float
    inputs: float
    gathers: bool
    alone: float


def holdings_of(training: Training, layout: Layout, terms: Terms) -> Holdings:
    """Divide the terms of a training by its strategy.

    While weights are sharded, FSDP and ZeRO-3 hold two layers whole (the one that computes, the one that is fetched),
    and the root unit: embedding and head, and their gradients where they are trained.
    """
    weights_by, gradients_by, optimizer_by = shards_of(training, layout)
    adapters = training.method.has_adapters
    deepspeed = training.strategy in DEEPSPEED
    weights, gradients = (terms.frozen + terms.weight) / weights_by, terms.gradient / gradients_by
    optimizer, temporary = terms.optimizer / optimizer_by, terms.temporary / optimizer_by
    gathered = whole = inputs = 0.0
    if weights_by > 1:
        gathered = 2 * terms.layer + terms.ends
        if deepspeed:
            gathered += ZERO3_LIVE
        elif terms.cast and not adapters:
            gathered += terms.half / weights_by  # FSDP's shard in 2 bytes beside the one in fp32
        if not adapters and not deepspeed:
            gathered += terms.ends
        gathered = min(terms.half, gathered)
        inputs = 0.0 if deepspeed else terms.inputs
    if layout.accumulation > 1 and layout.gpus > 1 and not adapters and training.strategy in FSDP:
        whole = terms.half if terms.stack.accumulates else 0.0
    if deepspeed:
        temporary = min(ZERO3_GROUP, 2 * optimizer / 6) if weights_by > 1 else 3 * terms.weight / optimizer_by
    if training.offload is not Offload.NONE:
        gradients = optimizer = temporary = 0.0
        weights = 0.0 if training.offload is Offload.ALL else weights
    if terms.states.paged and terms.stack.live:
        optimizer = 0.0
    alone = terms.frozen + terms.weight + terms.gradient + terms.optimizer
    return Holdings(
        weights, gradients, optimizer, temporary, gathered, whole, inputs, weights_by > 1 and not deepspeed, alone
    )


ZERO3_LIVE = 2e9
"""Bytes of weights that ZeRO-3 keeps whole beside those in use: `stage3_max_live_parameters` is 1e9 by default."""

ZERO3_GROUP = 4e9
"""Bytes of gradients that ZeRO-3 casts to fp32 at once: `sub_group_size` is 1e9 by default. Stages 1 and 2 cast all
of a partition, and keep a flat copy of its weights."""
