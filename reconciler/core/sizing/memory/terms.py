"""The terms of a prediction that do not depend on the layout, in bytes; computed once for each training."""

import math
from functools import lru_cache

from msgspec import Struct

from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.memory.adapters import ALL_LINEAR, adapter_weights
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
def terms_of(training: Training, stack: Stack | None, *, many: bool) -> Terms:
    """Compute the terms of a run on one GPU or on many. Pure: the cache only saves time."""
    model, stack = training.architecture, stack or stack_of(training.framework)
    deepspeed = training.strategy in DEEPSPEED
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
    logits, live = _loss(training, stack, deepspeed=deepspeed)
    return Terms(
        stack=stack,
        states=states,
        cast=cast and not deepspeed,
        frozen=frozen,
        weight=trained * states.weight,
        gradient=trained * states.gradient if states.gradient else min(2.0 * ends, trained * states.weight),
        optimizer=trained * states.optimizer,
        temporary=trained * states.temporary,
        half=2 * parameters,
        layer=2 * max(0, model.parameters - ends) / model.layers / training.tensor,
        ends=2 * ends / training.tensor,
        kept=kept,
        inputs=inputs,
        block=block,
        logits=logits,
        live=max(block, live),
    )


AUTOCAST = 1.15
"""Share of the layers' inputs that is kept where autocast makes copies of some of them."""

NARROW = 8.0
"""Bytes for each token and entry where DeepSpeed casts the whole model and so the loss stays in 2 bytes: logits, their
shifted copy, log-softmax and a gradient."""

FUSED = 2.0
"""Bytes for each token and entry of the vocabulary where the loss is fused with the head (Liger kernels)."""

_QUANTISED = frozenset({Method.QLORA, Method.GPTQ_LORA})


def _loss(training: Training, stack: Stack, *, deepspeed: bool) -> tuple[float, float]:
    """Return what the loss takes for one token, in all and alive at once."""
    most = FUSED if training.fused_loss else NARROW if deepspeed else math.inf
    everywhere = training.method.has_adapters and ALL_LINEAR in training.lora_targets
    logits = stack.logits_adapted if everywhere else stack.logits
    entries = training.architecture.vocabulary / training.tensor
    return entries * min(most, logits), entries * min(most, logits, stack.logits_live)


def _tokens(training: Training, model: Architecture, stack: Stack) -> tuple[float, float, float]:
    """Return bytes of one token: kept, passing through one layer, and the second copy of inputs.

    A layer keeps about 7 vectors of the hidden width, 3 of the heads' width and 4 of the feed-forward width (2 without
    a gate, and one less where the last matrix is frozen and without adapters; Korthikanti et al., arXiv 2205.05198,
    section 4, for flash attention and no dropout). With checkpointing only its input stays. Eager attention keeps
    scores in fp32 and in 2 bytes: 8 x heads x sequence.
    """
    width = 4 if training.precision is Precision.FP32 else 2
    heads = 3 * model.heads * model.head_dim
    feed = model.intermediate * max(1, model.active_experts)
    whole = 4 if model.gated else 2
    scores = 8 * model.heads * training.sequence if training.attention is Attention.EAGER else 0
    block = stack.block * (width * (stack.vectors * model.hidden + heads + whole * feed) + scores) / training.tensor
    if training.checkpointing:
        kept = float(width * model.layers * model.hidden)
        if training.precision in MIXED or (training.method in _QUANTISED and not stack.live):
            return kept * AUTOCAST, block, 0.0
        return kept, block, kept * (stack.inputs - 1) if training.method.has_adapters else 0.0
    vectors = stack.vectors + (stack.vectors_quantised if training.method in _QUANTISED else 0)
    if training.method.has_adapters and model.gated and ALL_LINEAR not in training.lora_targets:
        whole -= 1
    layer = width * (vectors * model.hidden + heads + whole * feed) + scores
    return model.layers * stack.kept * layer / training.tensor, block, 0.0
