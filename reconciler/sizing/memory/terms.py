"""The terms of a prediction that do not depend on the layout, in bytes. Computed once per training."""

import math
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.decision import Confidence
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory.stacks import Stack, stack_of
from reconciler.sizing.memory.states import (
    DEEPSPEED,
    MIXED,
    PACKED,
    BytesPerParameter,
    StateBytes,
    bytes_per_parameter,
    find_optimizer,
    is_known_optimizer,
    is_paged,
)
from reconciler.sizing.models.lora import (
    ALL_LINEAR,
    adapter_parameters_or_default,
    saved_parameters_or_none,
    target_outputs,
)
from reconciler.sizing.training import (
    QUANTIZED,
    Architecture,
    Attention,
    Layout,
    Method,
    Objective,
    Offload,
    Precision,
    Training,
)

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


GIB = float(1 << 30)
ASLEEP = GIB
"""Bytes that a sleeping engine keeps: its context and its CUDA graphs (vLLM, "Sleep Mode")."""

ENTROPY = 8.0
"""Bytes per token and vocabulary entry of PPO's entropy: a softmax in fp32, and its product with the logits (TRL's
`entropy_from_logits`)."""

_SCORES = 8.0
"""Bytes per generated token and vocabulary entry of logits in fp32, which are padded into a copy (TRL's
`batch_generation`)."""

_JUDGED = 6.0
"""Bytes per token and vocabulary entry while a batch of answers is judged: logits in 2 bytes and in fp32."""


class RolloutBytes(NamedTuple):
    """Bytes on one GPU: `beside` the training's own peak, and all of them while answers are `generated`."""

    beside: float
    generated: float


def rollout_bytes(training: Training, layout: Layout, gpu: Gpu, states: float, whole: float) -> RolloutBytes:
    """Return the bytes of a rollout; zero for other objectives.

    `states` are those of the training that stay on the GPU, `whole` are the weights if one GPU gathers all of them. The
    policy itself generates all answers of an update at once, or PPO's in parts, with the keys and values of each token.
    """
    if not training.rollout and not training.generates:
        return RolloutBytes(0.0, 0.0)
    model, answers = training.architecture, layout.batch * layout.accumulation
    at_once = min(answers, training.rollout_batch or layout.batch) if training.objective is Objective.PPO else answers
    beside = scores = 0.0
    if training.rollout:
        engine = training.rollout * gpu.memory_gib * GIB
        beside = ASLEEP if training.rollout_sleeps else engine
        generated = (0.0 if training.rollout_alone else states) + engine
    else:
        generated = states + whole + at_once * training.sequence * cache_bytes(model)
    if training.keeps_scores:
        scores = answers * training.scored * training.sequence * model.vocabulary * _SCORES
    if training.objective is not Objective.PPO:
        return RolloutBytes(beside, generated)
    most = max((companion.architecture for companion in training.companions), key=_hidden_states, default=model)
    judged = at_once * training.sequence * max(_JUDGED * model.vocabulary, _hidden_states(most))
    return RolloutBytes(beside, max(generated + scores, states + beside + scores / 2 + judged))


def _hidden_states(model: Architecture) -> float:
    """Return the bytes of one token's inputs of all layers, which a model that judges returns."""
    return 2.0 * model.layers * model.hidden


def cache_bytes(model: Architecture) -> float:
    """Return the bytes of keys and values of one token, in 2 bytes each."""
    return 4.0 * (model.attention_layers or model.layers) * model.kv_heads * model.head_dim


HALF_LOSS = 8.0
"""Bytes per token and vocabulary entry under DeepSpeed, which casts the whole model, so that the loss is in 2 bytes:
logits, their shifted copy, log-softmax and a gradient."""

FUSED_LOSS = 12.0
"""Bytes per token and hidden width if the loss is fused with the head. Liger's kernel splits the tokens into chunks
whose logits are as large as the head's input: a chunk in 2 bytes, its copy in fp32 and a gradient, and the gradient of
the input (Liger Kernel, `ops/fused_linear_cross_entropy.py`)."""

FAST_LOSS = 6.0
FAST_LOSS_ENTRIES = 65536
"""Bytes per token and vocabulary entry if the cross entropy works in place (logits in 2 bytes and a copy in fp32, which
gradients overwrite), and the largest vocabulary for that (Unsloth, `kernels/cross_entropy_loss.py`)."""

REFERENCE_LOGITS = 6.0
"""Bytes per token and vocabulary entry of a reference model's logits, in 2 bytes and in fp32. They exist while those of
the policy wait for the backward pass (TRL's `DPOTrainer` and `KTOTrainer`)."""

SOFTCAP = 4.0
"""Bytes per token and vocabulary entry, or per score of attention, of a soft cap: the output of tanh, which its
backward pass needs, and a gradient (transformers' `modeling_gemma2.py`)."""


class LossBytes(Struct, frozen=True):
    """Bytes of the loss per token: `reserved`, and `live` at once."""

    reserved: float
    live: float


def loss_bytes(training: Training, stack: Stack) -> LossBytes:
    """Return the bytes of the loss per token.

    `stack.uneven`: samples of other lengths leave blocks of other sizes, as much again as the loss of samples of that
    length.
    """
    ways = training.ways * training.context
    if training.objective is Objective.REWARD:
        return LossBytes(0.0, 0.0)
    if training.objective is Objective.VALUE_HEAD:
        untrained = REFERENCE_LOGITS * training.architecture.vocabulary / ways
        return LossBytes(untrained, untrained)
    if training.fused_loss:
        fused = FUSED_LOSS * training.architecture.hidden / ways
        return LossBytes(fused, fused)
    is_half = training.strategy in DEEPSPEED and training.method is not Method.LORA
    is_fast = training.fast_loss and training.architecture.vocabulary <= FAST_LOSS_ENTRIES
    most = FAST_LOSS if is_fast else HALF_LOSS if is_half else math.inf
    on_head = training.method.has_adapters and ALL_LINEAR in training.lora_targets
    logits = stack.logits_adapted if on_head else stack.logits
    entries = training.architecture.vocabulary / ways
    compares = training.holds_reference and training.objective is not Objective.GRPO  # whose reference comes first
    entries *= training.scored
    scored = entries * REFERENCE_LOGITS if compares else 0.0
    scored += entries * SOFTCAP if training.architecture.softcap else 0.0
    scored += entries * ENTROPY if training.objective is Objective.PPO else 0.0
    uneven = 1 + min(1.0, stack.uneven / training.sequence)
    return LossBytes(
        entries * min(most, logits) * uneven + scored, entries * min(most, logits, stack.logits_live) + scored
    )


class Activations(Struct, frozen=True, kw_only=True):
    """Bytes of activations per token: `kept` for the backward pass, and in one layer's `forward` and `backward`.

    `host` are those that are kept in host memory.
    """

    kept: float
    forward: float
    backward: float
    host: float = 0.0

    def divided(self, training: Training) -> "Activations":
        """Return the share of one stage of a pipeline, and of one part of the samples.

        A stage has its share of the layers; of as many microbatches as there are stages, one is in a layer at a time
        (GPipe, arXiv 1811.06965, section 2.3).
        """
        parts = training.pipeline * training.context
        kept, host = self.kept / parts, 0.0
        if training.offloads_activations:
            host = kept
            kept *= min(1.0, _STASHED_LAYERS * training.pipeline / training.architecture.layers)
        return Activations(kept=kept, forward=self.forward / parts, backward=self.backward / parts, host=host)


_STASHED_LAYERS = 2
"""Layers whose tensors are on the GPU at the same time if activations are offloaded: one that is copied and one that is
computed (torchtune's and TRL's `OffloadActivations` with streams)."""


class Terms(Struct, frozen=True, kw_only=True, gc=False):
    """Bytes of the whole model, of the units that sharding gathers, and of one token.

    `states` are those of the run, `alone` those on a single GPU, `full` those of training all weights, `host` those
    that are offloaded. `copy` is autocast's copy of unsharded fp32 weights, `half` a copy of all weights in 2 bytes;
    `layer` and `ends` (embedding and head) are units of it, `unit` is the largest in 2 bytes. `unpacked` is a matrix
    that is written in 2 bytes before it is multiplied: of a quantized base, of one in fp32, of DoRA. `cast`: trained
    weights are in fp32.
    `paged`: the optimizer's states may move to the host. `low` and `high` bound the prediction, as factors.
    `activations` and `loss` are those of one token.
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
    host: StateBytes
    full_activations: Activations
    full_loss: LossBytes
    copy: float
    half: float
    layer: float
    ends: float
    unit: float
    unpacked: float
    deepspeed: bool
    activations: Activations
    loss: LossBytes


@lru_cache(maxsize=4096)
def terms_of(training: Training, stack: Stack | None, *, sharded: bool) -> Terms:
    """Return the terms of a training. `sharded`: its weights are sharded. Pure; the caches only save time."""
    constants = stack or stack_of(training.framework)
    return _terms_of(_normalize(training, constants), constants, sharded=sharded)


def _normalize(training: Training, stack: Stack) -> Training:
    """Normalize what the terms do not depend on, so that similar trainings share them.

    The length of samples matters only to the scores of eager attention, to uneven samples, and to confidence.
    """
    sequence = training.sequence
    if training.attention is not Attention.EAGER and not training.architecture.own_scores and not stack.uneven:
        sequence = MEASURED_SEQUENCE if sequence <= MEASURED_SEQUENCE else MEASURED_SEQUENCE + 1
    return replace(training, model="", sequence=sequence, companions=())


@lru_cache(maxsize=4096)
def _terms_of(training: Training, stack: Stack, *, sharded: bool) -> Terms:
    model = training.architecture
    ways = training.ways
    parameters, ends = _sizes(model, stack)
    cast = _is_cast(training, stack, sharded=sharded)
    upcast = is_upcast(training, stack, sharded=sharded)
    whole = replace(training, method=Method.FULL)
    confidence = _confidence(training, stack)
    packed = PACKED.get(training.method, 2.0)
    has_matrix = training.method in QUANTIZED or training.dora or training.wide_base
    unpacked = 2.0 * model.hidden * model.intermediate / training.tensor if has_matrix else 0.0
    head = 2 * model.vocabulary * model.hidden / ways if upcast else 0  # autocast's copy, which the backward pass needs
    is_copied = _is_copied(training, stack) or (training.wide_base and not training.checkpointing)
    layer = max(0, parameters - ends) / model.layers / training.tensor
    wider = _WIDER[confidence] - (0.0 if stack.trusted else _WIDER[Confidence.MEDIUM])
    return Terms(
        stack=stack,
        adapters=training.method.has_adapters,
        cast=cast and training.strategy not in DEEPSPEED,
        paged=is_paged(training.optimizer),
        confidence=confidence,
        low=max(0.05, stack.low - wider),
        high=stack.high + wider,
        states=_states(training, training.method, stack, cast=cast, upcast=upcast),
        alone=_states(
            training,
            training.method,
            stack,
            cast=_is_cast(training, stack, sharded=False),
            upcast=is_upcast(training, stack, sharded=False),
        ),
        full=_states(training, Method.FULL, stack, cast=training.precision in MIXED and not stack.loaded_half),
        copy=2 * parameters / ways if is_copied else unpacked + head,
        unpacked=unpacked,
        deepspeed=training.strategy in DEEPSPEED,
        half=2 * parameters / ways,
        layer=packed * layer,
        unit=2 * max(layer, ends / training.tensor),
        ends=2 * ends / training.tensor,
        host=_offloaded(training, stack, cast=cast),
        full_activations=_activations(whole, stack, sharded=sharded),
        full_loss=loss_bytes(whole, stack),
        activations=_activations(training, stack, sharded=sharded),
        loss=loss_bytes(training, stack),
    )


def _sizes(model: Architecture, stack: Stack) -> tuple[int, int]:
    """Return the parameters that are loaded, and those of embedding and head among them."""
    embedding = model.vocabulary * model.hidden
    if not model.tied:
        return model.parameters, 2 * embedding
    return (model.parameters + embedding, 2 * embedding) if stack.unties else (model.parameters, embedding)


_WIDER = MappingProxyType({Confidence.HIGH: 0.0, Confidence.MEDIUM: 0.05, Confidence.LOW: 0.15})
"""What the range gains on each side if a run is less similar to those that were measured."""


def _confidence(training: Training, stack: Stack) -> Confidence:
    """Return the confidence: how similar a training is to those that were measured."""
    model = training.architecture
    is_unlike = (
        not is_known_optimizer(training.optimizer)
        or training.objective is not Objective.SFT
        or training.ways * training.context > 1
        or training.offload is not Offload.NONE
        or training.offloads_activations
        or training.method is Method.INT8_LORA
        or bool(training.saved_modules)
        or training.dora
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
        and training.method not in QUANTIZED
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


def _offloaded(training: Training, stack: Stack, *, cast: bool) -> StateBytes:
    """Return the states in host memory: gradients and optimizer, or all (ZeRO-Offload, arXiv 2101.06840, section 3)."""
    if training.offload is Offload.NONE:
        return StateBytes(0.0, 0.0, 0.0, 0.0)
    states = _states(replace(training, offload=Offload.NONE), training.method, stack, cast=cast)
    return states._replace(weights=states.weights if training.offload is Offload.ALL else 0.0, temporary=0.0)


def _states(training: Training, method: Method, stack: Stack, *, cast: bool, upcast: bool = False) -> StateBytes:
    """Return the states on a GPU that holds all of them, without what is offloaded to the host.

    The reference model of preference training is a second set of weights, unless the base of adapters is one. Matrices
    that are trained whole beside adapters are copies of the frozen ones (PEFT's `ModulesToSaveWrapper`). A value model
    has weights and states of its own; its gradients exist when those of the policy are freed.
    DeepSpeed's stages 1 and 2 cast the gradients of a partition to fp32 and keep a flat copy of its weights.
    """
    model, deepspeed = training.architecture, training.strategy in DEEPSPEED
    wide = training.wide_base
    each = bytes_per_parameter(
        method, training.precision, training.optimizer, deepspeed=deepspeed, cast=cast, wide_base=wide
    )
    ways = training.ways
    parameters, ends = _sizes(model, stack)
    trained, frozen = float(parameters), 0.0
    if method.has_adapters:
        trained = adapter_parameters_or_default(model, training.lora_rank, training.lora_targets)
        trained += saved_parameters_or_none(model, training.saved_modules)
        frozen = parameters * each.frozen
        if method in QUANTIZED:  # embedding and head are not
            frozen += ends * ((4 if upcast else 2) - each.frozen)
    elif training.holds_reference:
        frozen = parameters * (2.0 if deepspeed or stack.loaded_half else each.weight)
    weights = 0.0 if training.offload is Offload.ALL else (frozen + trained * each.weight) / ways
    if training.offload is not Offload.NONE:
        return StateBytes(weights, 0.0, 0.0, 0.0)
    gradients = trained * each.gradient if each.gradient else min(2.0 * ends, trained * each.weight)
    at_ends = 0.0 if method.has_adapters else float(ends)
    optimizer = (trained - at_ends) * each.optimizer + at_ends * each.ends
    if stack.live and is_paged(training.optimizer):
        optimizer = 0.0
    gradients, optimizer = reduced_states(training, method, each, gradients, optimizer)
    temporary = 3 * trained * each.weight if deepspeed else trained * each.temporary
    if training.critic:
        weights, optimizer = 2 * weights, 2 * optimizer
    return StateBytes(weights, gradients / ways, optimizer / ways, temporary / ways)


MEASURED_SEQUENCE = 8192
"""The longest samples, in tokens, of the measured runs."""

AUTOCAST = 1.15
"""Factor of the layers' inputs that are kept if autocast copies some of them: with all weights in fp32."""

NORM_VECTORS = 2.0
"""Vectors of the hidden width that a norm keeps: its input, and that in fp32."""


def _activations(training: Training, stack: Stack, *, sharded: bool) -> Activations:
    """Return the bytes of activations per token.

    A layer keeps about 7 vectors of the hidden width, 3 of the heads' width and 4 of the feed-forward width (2 without
    a gate, and one less if the last matrix is frozen and has no adapter; Korthikanti et al., arXiv 2205.05198, section
    4, for flash attention without dropout). With checkpointing only its input is kept, and the block is computed again;
    in the backward pass, the gradients of the feed-forward vectors and of two hidden ones are alive, too. Eager
    attention keeps scores in fp32 and in 2 bytes: 8 x heads x sequence. The 7 vectors include two norms.

    FSDP keeps the inputs of each layer of a frozen base twice: in pure precision from the forward pass on, in mixed
    precision only in the backward pass. Embedding, norms and head of a 4-bit base that PEFT prepared are in fp32
    (`prepare_model_for_kbit_training`), and so are the inputs of layers; the same holds for a whole base in fp32. DoRA
    keeps the outputs of a matrix and of its adapter for the gradients of the magnitudes.

    Tensor parallelism divides the heads and the feed-forward block, and the vectors of the hidden width only with
    sequence parallelism (Korthikanti et al., section 4.2).
    """
    model, has_adapters = training.architecture, training.method.has_adapters
    width = 4 if training.precision is Precision.FP32 else 2
    tensor, hidden = training.tensor, model.hidden / (training.tensor if training.sequence_parallel else 1)
    middle = model.intermediate * max(1, model.active_experts) / tensor
    heads = 3 * model.heads * model.head_dim / tensor
    feed = (4 if model.gated else 2) * middle
    eager = (8 + SOFTCAP * model.softcap) * (training.attention is Attention.EAGER)
    scores = (model.own_scores or eager) * model.heads * training.sequence / tensor
    wide = stack.vectors + NORM_VECTORS * (model.layer_norms - 2)
    magnitudes = 2 * target_outputs(model, training.lora_targets) / model.layers / tensor if training.dora else 0.0
    vectors = width * (wide * hidden + heads + feed + magnitudes) + scores
    forward, backward = stack.block * vectors, vectors + width * (2 * hidden + feed)
    if stack.live:
        backward = forward
    if not training.checkpointing:
        more = stack.vectors_quantized * hidden if training.method in QUANTIZED else 0.0
        if has_adapters and ALL_LINEAR not in training.lora_targets:
            more -= middle
        kept = model.layers * stack.kept * (vectors + width * more)
        return Activations(kept=kept, forward=forward, backward=backward).divided(training)
    kept, copy = float(width * model.layers * hidden), 0.0
    if is_upcast(training, stack, sharded=sharded) or training.wide_base:
        kept, forward = 2 * kept, 2 * forward
    if has_adapters and sharded and training.strategy not in DEEPSPEED:
        copy = kept * (stack.inputs - 1)
    elif not has_adapters and training.precision in MIXED:
        kept *= AUTOCAST * (2 if not sharded and _is_copied(training, stack) else 1)
    if training.precision in MIXED and not stack.live:
        return Activations(kept=kept, forward=forward, backward=backward + copy).divided(training)
    if copy and not stack.live:
        forward = 0.0
    return Activations(kept=kept + copy, forward=forward, backward=backward).divided(training)


def is_upcast(training: Training, stack: Stack, *, sharded: bool) -> bool:
    """Return whether PEFT prepares the 4-bit base: what is not quantized becomes fp32. Not with FSDP."""
    prepares = stack.upcast if training.upcast is None else training.upcast
    return training.method in {Method.QLORA, Method.INT8_LORA} and prepares and not sharded
