"""The estimate of pre-training with Megatron-LM and torchtitan: stages of a pipeline, and groups that share layers.

A GPU of the first stage holds the embedding and the activations of most microbatches, one of the last stage the head
and the loss. Both are predicted; the fuller one counts. Nothing here was fitted: every term is the arithmetic of its
source.
"""

from math import ceil
from typing import NamedTuple

from reconciler.sizing.decision import Confidence, Estimate, Part
from reconciler.sizing.memory.stacks import Stack, stack_of
from reconciler.sizing.memory.states import (
    FSDP,
    MIXED,
    PACKED,
    BytesPerParameter,
    Shards,
    bytes_per_parameter,
    shards_of,
)
from reconciler.sizing.memory.terms import FUSED_LOSS
from reconciler.sizing.models.lora import adapter_parameters_or_default, saved_parameters_or_none
from reconciler.sizing.training import QUANTIZED, Attention, Layout, Objective, Offload, Precision, Training

GIB = float(1 << 30)

FLAT_GRADIENT = 4.0
FLAT_OPTIMIZER = 4.0
"""Bytes of a gradient, and of the copy of a weight that the optimizer updates: with 2-byte weights, Megatron sums
gradients and updates weights in fp32 (`megatron/training/theoretical_memory_usage.py`: 18 bytes per parameter with
Adam, or 6 and 12 divided by the replicas)."""

CONTEXT = 2.2 * GIB
"""Bytes of CUDA's context and of NCCL's groups in the need: the same for any number of GPUs, so that more GPUs never
need more memory each."""

VECTORS, COMPILED_VECTORS = 4.0, 2.0
MASKS = 1.0
"""Vectors of the hidden width that a layer keeps in front of its matrices: the inputs of two norms and their results,
which compiled layers make again; and two masks of one byte for dropout (Korthikanti et al., arXiv 2205.05198, section
4.1: 10 of the 34 bytes)."""

SCORES = 5.0
"""Bytes of each score of attention that is stored: result of softmax, mask and result of dropout (the same)."""

GATED, COMPILED_GATED, UNGATED = 4.0, 3.0, 2.0
"""Values of the feed-forward width that a block keeps: 4 with a gate (3 if its kernels are fused), 2 without."""

GATHERED = 3.0
"""Vectors of the hidden width that are whole while one layer is computed, although sequence parallelism divides it: the
inputs of attention and of the feed-forward block, and a result before it is scattered (torchtitan's `apply_tp`)."""

COMPILED_LOSS = 4.0
"""Bytes per token and vocabulary entry if the cross entropy is compiled: logits in 2 bytes and their gradients."""

KEPT_LOGITS = 2.0
"""Bytes of a logit that PyTorch's schedules keep on the last stage until all microbatches are done
(`torch.distributed.pipelining`, `_merge_outputs`)."""


def estimate_stages(training: Training, layout: Layout, stack: Stack) -> Estimate:
    """Predict the peak memory of the fullest GPU: the larger one of the first and the last stage of the pipeline."""
    ends = ("first", "last") if training.pipeline > 1 else ("only",)
    found = [_stage(training, layout, stack, end) for end in ends]
    fullest = max(found, key=lambda one: one.peak_gib)
    return Estimate(
        peak_gib=fullest.peak_gib,
        low_gib=fullest.low_gib,
        high_gib=fullest.high_gib,
        floor_gib=max(one.floor_gib for one in found),
        need_gib=max(one.need_gib for one in found),
        confidence=fullest.confidence,
        parts=fullest.parts,
        host_gib=max(one.host_gib for one in found),
    )


class StageParameters(NamedTuple):
    """Parameters of one stage, before tensor and expert parallelism: `ends` are those of embedding and head."""

    ends: float
    dense: float
    experts: float

    def on_gpu(self, training: Training) -> tuple[float, float]:
        """Return those of one GPU: dense ones, and experts."""
        own = training.expert * (training.expert_tensor or training.tensor)
        return (self.ends + self.dense) / training.tensor, self.experts / own


def stage_parameters(training: Training, end: str) -> StageParameters:
    """Return the parameters of the `first`, `last` or `only` stage; a tied head has a copy on the last one."""
    model = training.architecture
    share = ceil(model.layers / training.pipeline) / model.layers
    experts = float(sum(linear.size * linear.count for linear in model.linears if linear.active < linear.count))
    head = float(model.vocabulary * model.hidden)
    embedding = model.embedding - (0.0 if model.tied else head)
    ends = {"only": float(model.embedding), "first": embedding, "last": head}[end]
    dense = model.parameters - model.embedding - experts
    return StageParameters(ends, share * dense, share * experts)


class _States(NamedTuple):
    """Bytes on one GPU; `transient` are gathered weights, gradients between microbatches, and copies in a step."""

    weights: float
    gradients: float
    optimizer: float
    transient: float
    host: float


def _each(training: Training, stack: Stack) -> BytesPerParameter:
    """Return the bytes of a parameter. FSDP keeps fp32 weights in mixed precision, Megatron 2 bytes and a copy."""
    is_mixed = training.precision in MIXED
    each = bytes_per_parameter(
        training.method, training.precision, training.optimizer, deepspeed=False, cast=is_mixed and not stack.flat
    )
    if not (stack.flat and is_mixed):
        return each
    wide = bytes_per_parameter(training.method, training.precision, training.optimizer, deepspeed=False, cast=True)
    return BytesPerParameter(
        frozen=each.frozen,
        weight=each.weight,
        gradient=FLAT_GRADIENT if each.gradient else 0.0,
        optimizer=wide.optimizer + FLAT_OPTIMIZER,
        temporary=0.0,
        ends=wide.ends + FLAT_OPTIMIZER,
    )


def _states(training: Training, layout: Layout, stack: Stack, end: str) -> _States:
    """Return the states of a stage. Megatron shards the optimizer of experts over the replicas of the experts."""
    each, shards = _each(training, stack), shards_of(training, layout)
    stage = stage_parameters(training, end)
    dense, experts = stage.on_gpu(training)
    ends = stage.ends / training.tensor
    frozen = 0.0
    if training.method.has_adapters:
        model = training.architecture
        trained = adapter_parameters_or_default(model, training.lora_rank, training.lora_targets)
        trained += saved_parameters_or_none(model, training.saved_modules)
        frozen = (dense + experts) * each.frozen
        if training.method in QUANTIZED:
            frozen += ends * (2.0 - PACKED[training.method])
        dense, experts, ends = min(dense + experts, trained / training.pipeline), 0.0, 0.0
    elif training.holds_reference:
        frozen = (dense + experts) * each.weight
    of_experts = shards
    if stack.flat and shards.optimizer > 1:
        of_experts = shards._replace(optimizer=max(1, layout.gpus // training.expert_ways))
    elif training.strategy in FSDP:  # experts are sharded over all GPUs of their stage, however many share them
        of_experts = Shards(*(max(1, count * training.ways // training.expert_ways) for count in shards))
    optimizer = (dense - ends) * each.optimizer + ends * each.ends
    found = _States(
        weights=(frozen + dense * each.weight) / shards.weights + experts * each.weight / of_experts.weights,
        gradients=each.gradient * (dense / shards.gradients + experts / of_experts.gradients),
        optimizer=optimizer / shards.optimizer + experts * each.optimizer / of_experts.optimizer,
        transient=each.temporary * (dense / shards.optimizer + experts / of_experts.optimizer),
        host=0.0,
    )
    width = _width(training)
    base = sum(stage.on_gpu(training)) if frozen else 0.0
    whole = min(frozen, width * base) + width * (dense + experts)
    return _offloaded(training, found, _gathered(training, stage, shards, whole))


def _width(training: Training) -> float:
    """Return the bytes of a gathered weight: mixed precision keeps fp32 weights, and gathers them in 2 bytes."""
    return 4.0 if training.precision is Precision.FP32 else 2.0


def _gathered(training: Training, stage: StageParameters, shards: Shards, whole: float) -> float:
    """Return the bytes that FSDP gathers: two layers and the ends, or the stage of a pipeline, which stays gathered.

    `whole` are the bytes of all gathered weights of the stage; packed weights are gathered as they are.

    Between its microbatches, a pipeline sums gradients of whole weights in fp32 (torchtitan's `parallelize.py`,
    PyTorch's `FSDPParam.to_accumulated_grad_if_needed`), of interleaved chunks one after the other. The ends have
    whole gradients, and those of a layer are copied to be reduced in fp32 (`foreach_reduce`).
    """
    if training.strategy not in FSDP or shards.optimizer == 1:
        return 0.0
    trained, width = 0.0 if training.method.has_adapters else 1.0, _width(training)
    sums = 4.0 if training.precision in MIXED else width
    dense, experts = stage.on_gpu(training)
    ends = stage.ends / training.tensor
    layers = (dense - ends + experts) / ceil(training.architecture.layers / training.pipeline)
    gradients = (width * ends + (width + sums) * layers) * trained
    if training.pipeline > 1:
        return whole + trained * (dense + experts) * sums / training.chunks + gradients
    if shards.weights == 1:
        return 0.0
    return width * min(dense + experts, 2.0 * layers + ends) + gradients


def _offloaded(training: Training, found: _States, gathered: float) -> _States:
    """Move what is offloaded to the host."""
    weights, gradients, optimizer, transient, _ = found
    host = 0.0
    if training.offload is not Offload.NONE:
        host, optimizer, transient = optimizer, 0.0, 0.0
    if training.offload is Offload.ALL:
        host, weights, gradients = host + weights + gradients, 0.0, 0.0
    return _States(weights, gradients, optimizer, transient + gathered, host)


class LayerBytes(NamedTuple):
    """Bytes per token of one layer on one GPU.

    Everything it keeps, its input, what its backward pass adds, and what is gathered while it is computed.
    """

    everything: float
    input: float
    backward: float
    gathered: float


def layer_bytes(training: Training) -> LayerBytes:
    """Return the bytes of one token in one layer.

    Korthikanti et al., arXiv 2205.05198, section 4: without dropout 32 bytes of the hidden width in a layer of GPT, of
    which tensor parallelism divides 24, and sequence parallelism all. Here with the widths of grouped heads, gates and
    experts; each chosen expert keeps its input and its result, which its router scales.
    """
    model = training.architecture
    width = 4.0 if training.precision.value == "fp32" else 2.0
    flat = stack_of(training.framework).flat
    masks = 2 * MASKS if flat else 0.0
    outside = (width * (COMPILED_VECTORS if training.compiled else VECTORS) + masks) * model.hidden
    inside = width * model.head_dim * (2 * model.heads + 2 * model.kv_heads)
    if training.attention is Attention.EAGER or model.own_scores:
        inside += SCORES * model.heads * training.sequence
    chosen = max(1, model.active_experts)
    gated = COMPILED_GATED if training.compiled else GATED
    values = (gated if model.gated else UNGATED) * model.intermediate * chosen
    inside += width * values
    dispatched = 2 * width * model.hidden * model.active_experts
    divided = training.tensor if training.sequence_parallel else 1
    experts_tensor = training.expert_tensor or training.tensor
    dispatched *= experts_tensor / training.tensor if training.sequence_parallel else 1
    backward = width * (2 * model.hidden / divided + (model.intermediate * chosen) / training.tensor)
    gathered = 0.0 if flat else width * GATHERED * model.hidden * (1 - 1 / divided)
    everything = outside / divided + inside / training.tensor + dispatched
    return LayerBytes(everything, width * model.hidden / divided, backward, gathered)


def products_bytes(training: Training) -> float:
    """Return the bytes per token that selective checkpointing of operations keeps of a layer, besides its input.

    The results of attention and of every second matrix (torchtitan's `activation_checkpoint.py`): with separate ones
    queries, values, one half of a gated block, and its result, which no backward pass needs: compiled layers drop it.
    """
    model = training.architecture
    kept = float(model.heads * model.head_dim)
    if model.experts or not model.gated:
        kept += sum(linear.outputs * linear.active for linear in model.linears) / model.layers / 2
    else:
        kept += (model.heads + model.kv_heads) * model.head_dim + model.intermediate + model.hidden
    if training.compiled:
        kept -= model.hidden
    return 2.0 * kept / training.tensor


def _kept_layer(training: Training, layer: LayerBytes) -> float:
    """Return the average bytes per token that a layer keeps until its backward pass."""
    if not training.checkpointing:
        return layer.everything
    kept = layer.input / training.together
    if training.keeps_products:
        kept = min(layer.everything, layer.input + products_bytes(training))
    return training.recomputed * kept + (1 - training.recomputed) * layer.everything


def in_flight(training: Training, microbatches: int, end: str) -> float:
    """Return the microbatches of a step whose activations a stage keeps at once, as multiples of its layers.

    Narayanan et al., arXiv 2104.04473, section 2.2: one by one with a flush, the first of p stages keeps p microbatches
    and the last one keeps one. With v chunks, they keep (v - 1) p more of the smaller chunks, and the first one p - 1
    more.
    """
    stages, chunks = training.pipeline, training.chunks
    early = stages if end == "first" else 1
    if chunks > 1:
        early = stages * chunks + (stages - 1 if end == "first" else 1 - stages)
        return min(float(microbatches), early / chunks)
    return float(min(microbatches, early))


def _loss_bytes(training: Training, stack: Stack) -> tuple[float, float]:
    """Return the bytes of the loss per token: reserved and live. Each GPU has a part of the vocabulary.

    The loss of a part is not one kernel, so that more copies exist (PyTorch's `tensor/parallel/loss.py`).
    """
    model = training.architecture
    if training.objective is Objective.REWARD:
        return 0.0, 0.0
    if training.fused_loss:
        fused = FUSED_LOSS * model.hidden / training.tensor
        return fused, fused
    entries = model.vocabulary / training.tensor * training.scored
    logits = stack.logits if training.tensor == 1 else stack.logits_divided or stack.logits
    if training.compiled_loss:
        logits = COMPILED_LOSS
    return entries * logits, entries * min(logits, stack.logits_live)


def _stage(training: Training, layout: Layout, stack: Stack, end: str) -> Estimate:
    states = _states(training, layout, stack, end)
    samples, microbatches = layout.batch, layout.accumulation
    if training.microbatch and training.pipeline > 1:
        samples = min(layout.batch, training.microbatch)
        microbatches = ceil(layout.batch / samples)
    tokens = samples * training.sequence * training.objective.answers / training.context
    layer, layers = layer_bytes(training), ceil(training.architecture.layers / training.pipeline)
    kept = tokens * in_flight(training, microbatches, end) * layers * _kept_layer(training, layer)
    if training.offloads_activations:
        kept *= min(1.0, 2.0 / layers)
    reserved, live = (0.0, 0.0) if end == "first" else _loss_bytes(training, stack)
    again = training.checkpointing and training.recomputed > 0
    each = training.together * (layer.everything + layer.gathered) if again else 0.0
    work = tokens * (layer.backward + each)
    cached = work if stack.flat else max(stack.block * tokens * each, work - tokens * reserved)
    if end == "last" and not stack.flat and training.objective is not Objective.REWARD:
        kept += microbatches * tokens * KEPT_LOGITS * training.architecture.vocabulary / training.tensor
    context = (stack.context + (stack.links if layout.gpus > 1 else 0.0)) * GIB
    resident = states.weights + states.gradients + states.optimizer
    peak = resident + states.transient + kept + cached + tokens * reserved + context
    need = resident + states.transient + kept + max(work, tokens * live) + CONTEXT
    sizes = (
        ("weights", states.weights),
        ("gradients", states.gradients),
        ("optimizer", states.optimizer),
        ("transients", states.transient),
        ("activations", kept + cached),
        ("logits", tokens * reserved),
        ("overhead", context),
    )
    return Estimate(
        peak_gib=peak / GIB,
        low_gib=stack.low * peak / GIB,
        high_gib=stack.high * peak / GIB,
        floor_gib=(states.weights + states.gradients) / GIB,
        need_gib=need / GIB,
        confidence=Confidence.LOW,
        parts=tuple([Part(name=name, gib=size / GIB) for name, size in sizes]),
        host_gib=states.host * layout.gpus_per_worker / GIB,
    )
