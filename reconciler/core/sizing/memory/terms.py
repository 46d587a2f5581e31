"""The terms of a prediction that do not depend on the layout, in bytes. Computed once per training."""

import math
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.sizing.decision import Confidence
from reconciler.core.sizing.memory.stacks import Stack, stack_of
from reconciler.core.sizing.memory.states import (
    DEEPSPEED,
    MIXED,
    StateBytes,
    bytes_per_parameter,
    is_known_optimizer,
    is_paged,
)
from reconciler.core.sizing.models.lora import ALL_LINEAR, adapter_parameters_or_default
from reconciler.core.sizing.training import QUANTIZED, Architecture, Attention, Method, Offload, Precision, Training


class Terms(Struct, frozen=True, kw_only=True, gc=False):
    """Bytes of the whole model, of the units that sharding gathers, and of one token.

    `states` are those of the run, `alone` those on a single GPU, `full` those of training all weights. `copy` is
    autocast's copy of unsharded fp32 weights, `half` a copy of all weights in 2 bytes; `layer` and `ends` (embedding
    and head) are units of it. `cast`: trained weights are in fp32. `paged`: the optimizer's states may move to the
    host. `low` and `high` bound the prediction, as factors. Per token: `kept` for the backward pass, `inputs` for the
    second copy that sharded adapters keep, `block` within one layer, `logits` in the loss, `live` the part of block and
    loss that is alive at once.
    """

    stack: Stack
    adapters: bool
    cast: bool
    paged: bool
    confidence: Confidence
    low: float
    high: float
    states: StateBytes
    alone: StateBytes
    full: StateBytes
    copy: float
    half: float
    layer: float
    ends: float
    kept: float
    inputs: float
    block: float
    logits: float
    live: float


@lru_cache(maxsize=4096)
def terms_of(training: Training, stack: Stack | None, *, sharded: bool) -> Terms:
    """Return the terms of a training. `sharded`: its weights are sharded. Pure; the caches only save time."""
    return _terms_of(_normalize(training), stack or stack_of(training.framework), sharded=sharded)


def _normalize(training: Training) -> Training:
    """Normalize what the terms do not depend on, so that similar trainings share them.

    The length of samples matters only to the scores of eager attention, and to confidence.
    """
    sequence = training.sequence
    if training.attention is not Attention.EAGER:
        sequence = MEASURED_SEQUENCE if sequence <= MEASURED_SEQUENCE else MEASURED_SEQUENCE + 1
    return replace(training, model="", sequence=sequence)


@lru_cache(maxsize=4096)
def _terms_of(training: Training, stack: Stack, *, sharded: bool) -> Terms:
    model = training.architecture
    ways = training.tensor * training.pipeline
    parameters, ends = _sizes(model, stack)
    kept, block, inputs = _tokens(training, model, stack)
    kept *= 2 if not sharded and training.checkpointing and _is_copied(training, stack) else 1
    logits, live = _loss(training, stack)
    cast = _is_cast(training, stack, sharded=sharded)
    confidence = _confidence(training, stack)
    packed = 0.53 if stack.packed and training.method in QUANTIZED else 2.0
    band = stack if confidence is Confidence.HIGH or not stack.trusted else stack_of("")
    return Terms(
        stack=stack,
        adapters=training.method.has_adapters,
        cast=cast and training.strategy not in DEEPSPEED,
        paged=is_paged(training.optimizer),
        confidence=confidence,
        low=band.low,
        high=band.high,
        states=_states(training, training.method, stack, cast=cast),
        alone=_states(training, training.method, stack, cast=_is_cast(training, stack, sharded=False)),
        full=_states(training, Method.FULL, stack, cast=training.precision in MIXED and not stack.loaded_half),
        copy=2 * parameters / ways if _is_copied(training, stack) else 0.0,
        half=2 * parameters / ways,
        layer=packed * max(0, parameters - ends) / model.layers / training.tensor,
        ends=2 * ends / training.tensor,
        kept=kept,
        inputs=inputs,
        block=block,
        logits=logits,
        live=max(block, live),
    )


def _sizes(model: Architecture, stack: Stack) -> tuple[int, int]:
    """Return the parameters that are loaded, and those of embedding and head among them."""
    embedding = model.vocabulary * model.hidden
    if not model.tied:
        return model.parameters, 2 * embedding
    return (model.parameters + embedding, 2 * embedding) if stack.unties else (model.parameters, embedding)


def _confidence(training: Training, stack: Stack) -> Confidence:
    """Return the confidence: how similar a training is to those that were measured."""
    model = training.architecture
    is_unlike = (
        not is_known_optimizer(training.optimizer)
        or training.tensor * training.pipeline > 1
        or training.offload is not Offload.NONE
        or 0 < model.attention_layers < model.layers
    )
    if is_unlike:
        return Confidence.LOW
    is_like = (
        stack.trusted
        and training.checkpointing
        and training.strategy not in DEEPSPEED
        and training.attention is not Attention.EAGER
        and training.sequence <= MEASURED_SEQUENCE
        and not model.experts
        and training.precision in {Precision.BF16, Precision.BF16_MIXED}
    )
    return Confidence.HIGH if is_like else Confidence.MEDIUM


def _is_copied(training: Training, stack: Stack) -> bool:
    """Return whether autocast keeps 2-byte copies of unsharded fp32 weights.

    The copies live from the first use of a weight to the end of the forward pass (torch.amp: the weight cache).
    """
    is_mixed_full = training.precision in MIXED and not training.method.has_adapters
    return is_mixed_full and not stack.loaded_half and training.strategy not in DEEPSPEED


def _is_cast(training: Training, stack: Stack, *, sharded: bool) -> bool:
    """Return whether trained weights are in fp32."""
    if training.precision in MIXED:
        return sharded or training.method.has_adapters or not stack.loaded_half
    return training.method in QUANTIZED


def _states(training: Training, method: Method, stack: Stack, *, cast: bool) -> StateBytes:
    """Return the states on a GPU that holds all of them, without what is offloaded to the host.

    DeepSpeed's stages 1 and 2 cast the gradients of a partition to fp32 and keep a flat copy of its weights.
    """
    model, deepspeed = training.architecture, training.strategy in DEEPSPEED
    each = bytes_per_parameter(method, training.precision, training.optimizer, deepspeed=deepspeed, cast=cast)
    ways = training.tensor * training.pipeline
    parameters, ends = _sizes(model, stack)
    trained, frozen = float(parameters), 0.0
    if method.has_adapters:
        trained = adapter_parameters_or_default(model, training.lora_rank, training.lora_targets)
        frozen = parameters * each.frozen
        frozen += ends * (2 - each.frozen) if method in QUANTIZED else 0.0  # embedding and head are not quantized
    weights = 0.0 if training.offload is Offload.ALL else (frozen + trained * each.weight) / ways
    if training.offload is not Offload.NONE:
        return StateBytes(weights, 0.0, 0.0, 0.0)
    gradients = trained * each.gradient if each.gradient else min(2.0 * ends, trained * each.weight)
    optimizer = 0.0 if stack.live and is_paged(training.optimizer) else trained * each.optimizer
    temporary = 3 * trained * each.weight if deepspeed else trained * each.temporary
    return StateBytes(weights, gradients / ways, optimizer / ways, temporary / ways)


MEASURED_SEQUENCE = 8192
"""The longest samples, in tokens, of the measured runs."""

AUTOCAST = 1.15
"""Factor of the layers' inputs that are kept if autocast copies some of them."""

HALF_LOSS = 8.0
"""Bytes per token and vocabulary entry under DeepSpeed, which casts the whole model, so that the loss is in 2 bytes:
logits, their shifted copy, log-softmax and a gradient."""

FUSED_LOSS = 2.0
"""Bytes per token and vocabulary entry if the loss is fused with the head (Liger kernels)."""


def _loss(training: Training, stack: Stack) -> tuple[float, float]:
    """Return the bytes of the loss per token: in total, and alive at once."""
    most = FUSED_LOSS if training.fused_loss else HALF_LOSS if training.strategy in DEEPSPEED else math.inf
    on_head = training.method.has_adapters and ALL_LINEAR in training.lora_targets
    logits = stack.logits_adapted if on_head else stack.logits
    entries = training.architecture.vocabulary / training.tensor
    return entries * min(most, logits), entries * min(most, logits, stack.logits_live)


def _tokens(training: Training, model: Architecture, stack: Stack) -> tuple[float, float, float]:
    """Return the bytes per token: kept, within one layer, and the second copy of inputs.

    A layer keeps about 7 vectors of the hidden width, 3 of the heads' width and 4 of the feed-forward width (2 without
    a gate, and one less if the last matrix is frozen and has no adapter; Korthikanti et al., arXiv 2205.05198, section
    4, for flash attention without dropout). With checkpointing only its input is kept. Eager attention keeps scores in
    fp32 and in 2 bytes: 8 x heads x sequence.
    """
    width = 4 if training.precision is Precision.FP32 else 2
    heads = 3 * model.heads * model.head_dim
    feed = model.intermediate * max(1, model.active_experts)
    feed_vectors = 4 if model.gated else 2
    scores = 8 * model.heads * training.sequence if training.attention is Attention.EAGER else 0
    block = (
        stack.block * (width * (stack.vectors * model.hidden + heads + feed_vectors * feed) + scores) / training.tensor
    )
    if training.checkpointing:
        kept = float(width * model.layers * model.hidden)
        if training.precision in MIXED or (training.method in QUANTIZED and not stack.live):
            return kept * AUTOCAST, block, 0.0
        return kept, block, kept * (stack.inputs - 1) if training.method.has_adapters else 0.0
    vectors = stack.vectors + (stack.vectors_quantized if training.method in QUANTIZED else 0)
    if training.method.has_adapters and model.gated and ALL_LINEAR not in training.lora_targets:
        feed_vectors -= 1
    layer = width * (vectors * model.hidden + heads + feed_vectors * feed) + scores
    return model.layers * stack.kept * layer / training.tensor, block, 0.0
