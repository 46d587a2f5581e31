"""The terms of a prediction that do not depend on the layout, in bytes; computed once for each training."""

from functools import lru_cache

from msgspec import Struct

from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.memory.adapters import adapter_weights
from reconciler.core.sizing.memory.sharding import DEEPSPEED
from reconciler.core.sizing.memory.stacks import Stack, stack_of
from reconciler.core.sizing.memory.states import MIXED, States, states_of
from reconciler.core.sizing.training import Attention, Method, Precision, Training


class Terms(Struct, frozen=True, kw_only=True, gc=False):
    """Bytes of the whole model (`frozen` to `temporary`, `half`), of its gathered units, and of one token.

    `half` is a copy of all weights in 2 bytes; `layer` and `ends` (embedding and head) one unit of it. `cast`: what is
    trained lies in fp32. `kept` stays for the backward pass, `inputs` is the second copy that sharded adapters keep,
    `block` passes through one layer, `logits` the loss; `live` is what of block and loss is alive at once.
    """

    stack: Stack
    states: States
    cast: bool
    frozen: float
    weight: float
    gradient: float
    optimizer: float
    temporary: float
    half: float
    layer: float
    ends: float
    kept: float
    inputs: float
    block: float
    logits: float
    live: float


@lru_cache(maxsize=4096)
def terms_of(training: Training, *, many: bool) -> Terms:
    """Compute the terms of a run on one GPU or on many. Pure: the cache only saves time."""
    model, stack = training.architecture, stack_of(training.framework)
    deepspeed = training.strategy in DEEPSPEED and (many or stack.deepspeed_alone)
    mixed = training.precision in MIXED
    adapters = training.method.has_adapters
    cast = (mixed and (many or adapters or not stack.loaded_half)) or training.method in _QUANTISED
    states = states_of(training.method, training.precision, training.optimizer, deepspeed=deepspeed, cast=cast)
    ways = training.tensor * training.pipeline
    parameters = model.parameters / ways
    trained = parameters
    if training.method.has_adapters:
        trained = adapter_weights(model, training.lora_rank, training.lora_targets) / ways
    frozen = parameters * states.frozen if training.method.has_adapters else 0.0
    ends = model.vocabulary * model.hidden * (1 if model.tied else 2)
    if training.method in _QUANTISED:
        frozen += ends * (2 - states.frozen) / ways  # embedding and head are not quantised
    kept, block, inputs = _tokens(training, model, stack)
    loss = model.vocabulary / training.tensor
    logits = loss * (FUSED if training.fused_loss else stack.logits)
    live = max(block, loss * (FUSED if training.fused_loss else stack.logits_live))
    return Terms(
        stack=stack,
        states=states,
        cast=cast and not deepspeed,
        frozen=frozen,
        weight=trained * states.weight,
        gradient=trained * states.gradient,
        optimizer=trained * states.optimizer,
        temporary=trained * states.temporary * stack.temporaries,
        half=2 * parameters,
        layer=2 * max(0, model.parameters - ends) / model.layers / training.tensor,
        ends=2 * ends / training.tensor,
        kept=kept,
        inputs=inputs,
        block=block,
        logits=logits,
        live=live,
    )


AUTOCAST = 1.15
"""Share of the layers' inputs that is kept where autocast makes copies of some of them."""

FUSED = 2.0
"""Bytes for each token and entry of the vocabulary where the loss is fused with the head (Liger kernels)."""

_QUANTISED = frozenset({Method.QLORA, Method.GPTQ_LORA})


def _tokens(training: Training, model: Architecture, stack: Stack) -> tuple[float, float, float]:
    """Return bytes of one token: kept, passing through one layer, and the second copy of inputs.

    A layer keeps about 7 vectors of the hidden width, 3 of the heads' width and 4 of the feed-forward width
    (Korthikanti et al., arXiv 2205.05198, section 4, for a gated feed-forward block, flash attention and no dropout).
    With checkpointing only its input stays. Eager attention keeps scores in fp32 and in 2 bytes: 8 x heads x sequence.
    """
    width = 4 if training.precision is Precision.FP32 else 2
    heads = model.heads * model.head_dim
    feed = model.intermediate * max(1, model.active_experts)
    layer = width * (7 * model.hidden + 3 * heads + 4 * feed) / training.tensor
    if training.attention is Attention.EAGER:
        layer += 8 * model.heads * training.sequence / training.tensor
    layer *= stack.block
    if training.checkpointing:
        kept = float(width * model.layers * model.hidden)
        if training.precision in MIXED or training.method in _QUANTISED:
            return kept * AUTOCAST, layer, 0.0
        return kept, layer, kept * (stack.inputs - 1) if training.method.has_adapters else 0.0
    share = stack.kept
    if training.method.has_adapters:
        share = stack.kept_quantised if training.method in _QUANTISED else stack.kept_adapters
    return model.layers * layer * share, layer, 0.0
