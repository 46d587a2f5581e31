"""The terms of a prediction that do not depend on the layout, in bytes; computed once for each training."""

import math
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.sizing.architecture import Architecture
from reconciler.core.sizing.estimate import Confidence
from reconciler.core.sizing.memory.adapters import ALL_LINEAR, adapter_weights
from reconciler.core.sizing.memory.sharding import DEEPSPEED
from reconciler.core.sizing.memory.stacks import Stack, stack_of
from reconciler.core.sizing.memory.states import MIXED, bytes_of, is_paged, optimizer_known
from reconciler.core.sizing.training import Attention, Method, Offload, Precision, Training


class States(NamedTuple):
    """Bytes that lie on a GPU which holds all: weights, gradients, the optimizer's states, the copies of its step."""

    weights: float
    gradients: float
    optimizer: float
    temporary: float


class Terms(Struct, frozen=True, kw_only=True, gc=False):
    """What is predicted from: bytes of the whole model, of its gathered units, and of one token.

    `alone` are the states as one GPU loads them, `full` as if all weights were trained. `copy` is autocast's of weights
    that lie whole in fp32, `half` a copy of all weights in 2 bytes; `layer` and `ends` (embedding and head) are units
    of it. `cast`: what is trained lies in fp32. `paged`: the optimizer's states may leave the GPU. `low` and `high` are
    the band. `kept` stays for the backward pass, `inputs` is the second copy that sharded adapters keep, `block` passes
    through one layer, `logits` the loss; `live` is what of block and loss is alive at once.
    """

    stack: Stack
    adapters: bool
    cast: bool
    paged: bool
    confidence: Confidence
    low: float
    high: float
    states: States
    alone: States
    full: States
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
    """Compute the terms of a run whose weights are divided, or not. Pure: the caches only save time."""
    return _terms_of(_shape(training), stack or stack_of(training.framework), sharded=sharded)


def _shape(training: Training) -> Training:
    """Leave out what the terms do not depend on, so that runs that differ in nothing else share them.

    Lengths matter to eager attention's scores alone, and to confidence by whether any such length was measured.
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
    packed = 0.53 if stack.packed and training.method in _QUANTISED else 2.0
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
    """Tell how near a training is to those that were measured."""
    model = training.architecture
    unlike = (
        not optimizer_known(training.optimizer)
        or training.tensor * training.pipeline > 1
        or training.offload is not Offload.NONE
        or 0 < model.attention_layers < model.layers
    )
    if unlike:
        return Confidence.LOW
    like = (
        stack.trusted
        and training.checkpointing
        and training.strategy not in DEEPSPEED
        and training.attention is not Attention.EAGER
        and training.sequence <= MEASURED_SEQUENCE
        and not model.experts
        and training.precision in {Precision.BF16, Precision.BF16_MIXED}
    )
    return Confidence.HIGH if like else Confidence.MEDIUM


def _is_copied(training: Training, stack: Stack) -> bool:
    """Tell whether autocast copies weights that lie whole in fp32 into 2 bytes, between layers that work in fp32.

    The copies live from a weight's first use to the end of the forward pass (torch.amp: the weight cache).
    """
    whole = training.precision in MIXED and not training.method.has_adapters
    return whole and not stack.loaded_half and training.strategy not in DEEPSPEED


def _is_cast(training: Training, stack: Stack, *, sharded: bool) -> bool:
    """Tell whether what is trained lies in fp32."""
    if training.precision in MIXED:
        return sharded or training.method.has_adapters or not stack.loaded_half
    return training.method in _QUANTISED


def _states(training: Training, method: Method, stack: Stack, *, cast: bool) -> States:
    """Count what would lie on a GPU that holds all. What is offloaded lies in the host's memory instead.

    DeepSpeed's stages 1 and 2 cast the gradients of a partition to fp32 and keep a flat copy of its weights.
    """
    model, deepspeed = training.architecture, training.strategy in DEEPSPEED
    each = bytes_of(method, training.precision, training.optimizer, deepspeed=deepspeed, cast=cast)
    ways = training.tensor * training.pipeline
    parameters, ends = _sizes(model, stack)
    trained, frozen = float(parameters), 0.0
    if method.has_adapters:
        trained = adapter_weights(model, training.lora_rank, training.lora_targets)
        frozen = parameters * each.frozen
        frozen += ends * (2 - each.frozen) if method in _QUANTISED else 0.0  # embedding and head are not quantised
    weights = 0.0 if training.offload is Offload.ALL else (frozen + trained * each.weight) / ways
    if training.offload is not Offload.NONE:
        return States(weights, 0.0, 0.0, 0.0)
    gradients = trained * each.gradient if each.gradient else min(2.0 * ends, trained * each.weight)
    optimizer = 0.0 if stack.live and is_paged(training.optimizer) else trained * each.optimizer
    temporary = 3 * trained * each.weight if deepspeed else trained * each.temporary
    return States(weights, gradients / ways, optimizer / ways, temporary / ways)


MEASURED_SEQUENCE = 8192
"""The longest samples of the measured runs."""

AUTOCAST = 1.15
"""Share of the layers' inputs that is kept where autocast makes copies of some of them."""

NARROW = 8.0
"""Bytes for each token and entry where DeepSpeed casts the whole model and so the loss stays in 2 bytes: logits, their
shifted copy, log-softmax and a gradient."""

FUSED = 2.0
"""Bytes for each token and entry of the vocabulary where the loss is fused with the head (Liger kernels)."""

_QUANTISED = frozenset({Method.QLORA, Method.GPTQ_LORA})


def _loss(training: Training, stack: Stack) -> tuple[float, float]:
    """Return what the loss takes for one token, in all and alive at once."""
    most = FUSED if training.fused_loss else NARROW if training.strategy in DEEPSPEED else math.inf
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
