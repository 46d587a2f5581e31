"""The estimate of one layout: peak memory in parts, the memory it needs, and the range of the prediction."""

from functools import lru_cache
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from reconciler.sizing.decision import Estimate, Part
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory.stacks import Stack, stack_of
from reconciler.sizing.memory.stages import estimate_stages
from reconciler.sizing.memory.states import DEEPSPEED, FSDP, PACKED, Shards, StateBytes, shards_of
from reconciler.sizing.memory.terms import Terms, rollout_bytes, terms_of
from reconciler.sizing.training import (
    Architecture,
    Companion,
    CompanionRole,
    Layout,
    Method,
    Objective,
    Offload,
    Strategy,
    Training,
)

_WIDTHS = {4: PACKED[Method.QLORA], 8: PACKED[Method.INT8_LORA], 16: 2.0, 32: 4.0}
"""Bytes of a frozen weight by its bits. Those of quantized ones include their scales."""

_HALF = 2.0


class CompanionBytes(NamedTuple):
    """Bytes on one GPU: `weights`, the `optimizer` of a value model, and what a `step` of it needs besides."""

    weights: float
    optimizer: float
    step: float


def companion_bytes(training: Training, layout: Layout, stack: Stack) -> CompanionBytes:
    """Return the bytes of all companions; zero if there are none.

    Frozen models are whole on every GPU, unless ZeRO-3 shards them: only stage 3 is of use without an optimizer (TRL's
    `prepare_deepspeed`, OpenRLHF's `get_ds_eval_config`), and accelerate wraps no model for evaluation alone.
    """
    weights = optimizer = step = 0.0
    shards = shards_of(training, layout)
    for companion in training.companions:
        if companion.role is CompanionRole.VALUE:
            found = _trained(training, companion, layout, shards, stack)
            weights, optimizer, step = weights + found.weights, optimizer + found.optimizer, step + found.step
        else:
            is_sharded = training.strategy is Strategy.ZERO3
            frozen = _frozen(training, companion) / (layout.gpus if is_sharded else training.ways)
            weights += frozen
    return CompanionBytes(weights, optimizer, step)


def _frozen(training: Training, companion: Companion) -> float:
    width = _WIDTHS[companion.bits]
    if training.strategy in DEEPSPEED:
        width = min(width, _HALF)
    return width * _shape(companion).parameters


def _shape(companion: Companion) -> Architecture:
    """Return the architecture without the head over the vocabulary, if a head of one output replaces it."""
    model = companion.architecture
    if companion.has_vocabulary or companion.role is CompanionRole.REFERENCE or model.tied:
        return model
    head = model.vocabulary * model.hidden
    return replace(
        model, tied=True, parameters=model.parameters - head, active_parameters=model.active_parameters - head
    )


def _trained(training: Training, companion: Companion, layout: Layout, shards: Shards, stack: Stack) -> CompanionBytes:
    """Return the bytes of a value model, which is sharded like the policy.

    Taking turns, only the larger of both models has gradients and activations at the worst moment.
    """
    own = replace(
        training,
        architecture=_shape(companion),
        method=Method.FULL if companion.joint else training.method,
        objective=Objective.REWARD,
        companions=(),
        checkpointing=training.checkpointing and not companion.joint,
    )
    terms = terms_of(own, stack, sharded=shards.weights > 1)
    states, tokens = terms.states, layout.batch * training.sequence
    step = 0.0
    if companion.joint or own.architecture.parameters > training.architecture.parameters:
        step = states.gradients / shards.gradients
        step += tokens * (terms.activations.kept + max(terms.activations.forward, terms.activations.backward))
    return CompanionBytes(states.weights / shards.weights, states.optimizer / shards.optimizer, step)


GIB = float(1 << 30)

FULL_GPU = 0.975
"""Fraction of a GPU's memory at which PyTorch returns cached blocks to the driver instead of failing (observed)."""

PAGING_THRESHOLD = GIB
"""Bytes of optimizer states in host memory above which paging slows a run. Adapters have less."""

RETAINED = 0.75
"""Fraction of the memory between need and a full GPU that stays allocated after that."""

ZERO3_LIVE = 2e9
"""Bytes of weights that ZeRO-3 keeps gathered besides those in use: `stage3_max_live_parameters` is 1e9 by default."""

ZERO3_GROUP = 4e9
"""Bytes of gradients that ZeRO-3 casts to fp32 at the same time: `sub_group_size` is 1e9 by default."""

NEED_CONTEXT = 1.4 * GIB
"""Bytes of context in the need: the same for any number of GPUs, so that more GPUs never need more memory each."""

LIVE_BLOCK = 0.9
"""Fraction of a block's backward pass that is alive at once: gradients are freed one after the other."""

_FAST_LINKS = ("SXM", "HBM", "H200", "B200", "B300", "GH200", "MI2", "MI3")


def estimate(training: Training, layout: Layout, gpu: Gpu, stack: Stack | None = None) -> Estimate:
    """Predict the peak memory of the fullest GPU, as NVML reports it: the maximum of loading the model and one step.

    A step holds the shards of weights, gradients and optimizer, the weights that sharding gathers, the activations, and
    on top the loss or the optimizer's copies. PyTorch's allocator caches freed blocks, so the phases partly add up;
    when the GPU is full it returns them, down to the live tensors. A paged optimizer moves the rest to the host.
    `stack` overrides the constants of the training's framework.
    """
    if (constants := stack or stack_of(training.framework)).staged:
        return estimate_stages(training, layout, constants)
    shards = shards_of(training, layout)
    terms = terms_of(training, stack, sharded=shards.weights > 1)
    resident = _resident(training, layout, terms, shards)
    tokens = layout.batch * training.sequence * training.objective.answers
    accumulates = layout.accumulation > 1
    context = _context_gib(terms.stack, gpu, layout) * GIB
    transient = _transient(terms, resident, tokens, context, accumulates=accumulates)
    full = resident.weights + resident.gradients + resident.optimizer + sum(transient)
    need, floor = _need(terms, resident, shards, tokens, accumulates=accumulates)
    others = companion_bytes(training, layout, constants)
    models = others.weights + others.step + (0.0 if training.rollout_sheds else others.optimizer)
    limit = FULL_GPU * gpu.memory_gib * GIB - models
    peak, paged = full, 0.0
    if terms.paged:
        paged = min(resident.optimizer, max(0.0, full - limit))
        peak -= paged
    if peak > limit:
        allocated = max(need, need + RETAINED * (limit - need), full - paged - transient.returnable)
        peak = min(peak, allocated)
    states = resident.weights + others.weights
    if not training.rollout_sheds:
        states += resident.optimizer - paged + others.optimizer
    beside, generated = rollout_bytes(training, layout, gpu, states, terms.half if shards.weights > 1 else 0.0)
    beside += models
    alone = peak + models
    peak, need, floor = max(peak + beside, generated), max(need + beside, generated), floor + beside
    resident = resident._replace(optimizer=resident.optimizer - paged)
    host = (sum(_divide(terms.host, shards)) + tokens * terms.activations.host) * layout.gpus_per_worker
    return _estimate(
        terms,
        resident,
        transient,
        _PeakTotals(peak, need, floor, full if paged > PAGING_THRESHOLD else None, host, models, peak - alone),
    )


def fits(estimate: Estimate, gpu: Gpu, safety: float) -> bool:
    """Return whether the need plus the fraction `safety` of it is available.

    Monotone by construction: `need_gib` never grows with more GPUs, fewer tokens, or adapters instead of all weights.
    It is never true if weights and gradients alone exceed the GPU's memory.
    """
    return estimate.need_gib * (1 + safety) <= gpu.memory_gib


@lru_cache(maxsize=1024)
def has_fast_link(product: str) -> bool:
    """Return whether GPUs of this product are connected by NVLink or Infinity Fabric, judging by the name."""
    name = product.upper()
    return any(word in name for word in _FAST_LINKS)


def _context_gib(stack: Stack, gpu: Gpu, layout: Layout) -> float:
    """Return GiB of the CUDA and NCCL context of one GPU.

    A GPU that reports all of its memory as the total (A100: 80.0 GiB) counts the driver's reserve as used; others have
    subtracted it from the total (L40S: 44.99 of 48 GiB).
    """
    context = stack.context + (stack.reserved if gpu.memory_gib % 8 == 0 else 0.0)
    if layout.gpus == 1:
        return context
    links = stack.links if has_fast_link(gpu.product) else 0.0
    return context + links - (stack.across if layout.workers > 1 else 0.0)


class _Resident(NamedTuple):
    """Bytes that stay on one GPU through a whole step.

    Shards of weights, gradients and optimizer; `temporary`: copies in the optimizer's step; `gathered`: unsharded
    weights; `unsharded`: gradients that stay whole between the steps of an accumulation; `buckets`: copies of the
    gradients that DDP reduces. `gathers`: FSDP gathers weights.
    """

    weights: float
    gradients: float
    optimizer: float
    temporary: float
    gathered: float
    unsharded: float
    buckets: float
    gathers: bool


def _resident(training: Training, layout: Layout, terms: Terms, shards: Shards) -> _Resident:
    """Divide the states of a training by its strategy.

    A pipeline keeps gathered weights between its microbatches, and sums gradients before it shards them, in fp32 if the
    weights are (torchtitan's `parallelize.py`; PyTorch's `FSDPParam.to_accumulated_grad_if_needed`).
    """
    weights, gradients, optimizer, temporary = _divide(terms.states, shards)
    unsharded = buckets = 0.0
    if training.strategy is Strategy.DDP and layout.gpus > training.ways:
        buckets = gradients  # torch keeps copies, unless `gradient_as_bucket_view` is set
    if layout.accumulation > 1 and layout.gpus > 1 and not terms.adapters and training.strategy in FSDP:
        unsharded = terms.half if terms.stack.accumulates else 0.0
    gathered, gathers = terms.copy, False
    if training.pipeline > 1 and training.strategy in FSDP:
        gathered, gathers = terms.half, True
        unsharded = terms.half * (2.0 if terms.cast else 1.0)
    elif shards.weights > 1 or training.offload is Offload.ALL:
        gathered = _gathered(training, terms, shards)
        if training.strategy in DEEPSPEED:
            temporary = min(ZERO3_GROUP, temporary)
        else:
            gathers = True
    return _Resident(weights, gradients, optimizer, temporary, gathered, unsharded, buckets, gathers)


def _divide(states: StateBytes, shards: Shards) -> tuple[float, float, float, float]:
    """Return the shards of weights, gradients, optimizer, and of the copies in its step."""
    weights, gradients, optimizer, temporary = states
    return (
        weights / shards.weights,
        gradients / shards.gradients,
        optimizer / shards.optimizer,
        temporary / shards.optimizer,
    )


def _gathered(training: Training, terms: Terms, shards: Shards) -> float:
    """Return the bytes of weights that are unsharded at the same time: at most all weights.

    FSDP and ZeRO-3 hold two layers (the current one and the prefetched one) and the root unit (embedding and head);
    FSDP also the root unit's gradients, if it is trained, and a shard in 2 bytes besides the one in fp32.
    """
    ends = terms.ends * terms.stack.ends
    gathered = 2 * terms.layer + ends
    if training.strategy in DEEPSPEED:
        gathered += ZERO3_LIVE
    elif not terms.adapters:
        gathered += ends + (terms.half / shards.weights if terms.cast else 0.0)
    return min(terms.half, gathered) + terms.unpacked


class _Transient(NamedTuple):
    """Bytes that are allocated and freed in a step, as far as the allocator caches them, and the context."""

    transients: float
    activations: float
    logits: float
    context: float

    @property
    def returnable(self) -> float:
        """Upper limit of what the allocator can return to the driver."""
        return self.transients + self.activations + self.logits


def _transient(terms: Terms, resident: _Resident, tokens: float, context: float, *, accumulates: bool) -> _Transient:
    """Return the transient bytes of a step. If loading the model needs more, transients include the difference.

    The loss and the last block follow each other: the larger one counts, and the block's forward pass stays cached
    beside the loss. Loading gathers, casts and flattens unit by unit; weights that are cast to fp32 are whole on every
    GPU before they are sharded.
    """
    per_token = terms.activations
    if terms.stack.live:
        block, loss = per_token.forward, max(0.0, terms.loss.reserved - per_token.forward)
    else:
        block, loss = max(per_token.forward, per_token.backward - terms.loss.reserved), terms.loss.reserved
    activations, logits = tokens * (per_token.kept + block), tokens * loss
    flow = activations + logits
    if flow:
        rest = 1 - _reused(terms, resident, flow, accumulates=accumulates) / flow
        activations, logits, flow = activations * rest, logits * rest, flow * rest
    transients = resident.gathered + resident.unsharded + resident.buckets + resident.temporary
    if resident.gathers:
        loading = terms.stack.loading * terms.unit
        if terms.cast and not terms.adapters:
            loading = max(loading, 2 * terms.half)
        later = resident.gradients + resident.optimizer + flow + context - terms.stack.context * GIB
        transients = max(transients, loading - later)
    return _Transient(transients, activations, logits, context)


def _reused(terms: Terms, resident: _Resident, flow: float, *, accumulates: bool) -> float:
    """Return the bytes of the loss and activations whose blocks gradients and the optimizer's copies take over.

    Both come when `flow` bytes are free again. The more there are, the more of them fit: all if `flow` is `ample` times
    as large, and in a square below. Gradients that accumulate are already there at the loss. Live tensors fit always.
    """
    if terms.adapters or not resident.gradients:
        return 0.0
    if terms.stack.live and not terms.deepspeed:
        return min(flow, resident.temporary)
    both = resident.gradients + resident.temporary
    share = min(1.0, flow / (terms.stack.ample * both)) ** 2
    return share * (resident.temporary if accumulates or terms.paged or terms.deepspeed else both)


def _need(
    terms: Terms, resident: _Resident, shards: Shards, tokens: float, *, accumulates: bool
) -> tuple[float, float]:
    """Return the bytes that are alive at the worst moment, and the bytes that no schedule can avoid.

    The worst of three moments counts: the loss, the first block of the backward pass, the optimizer's step. Without
    accumulation there are no gradients yet at the loss. A paged optimizer may be in host memory.

    The need is monotone: every term falls with the number of GPUs and rises with tokens. It is at most what one GPU
    needs for its states without sharding (sharding never gathers more than it divides), and at most what training all
    weights needs. Near the limit, a run may be accepted although many GPUs need slightly more for a gathered layer than
    one does; the safety margin covers that. Two terms are as large as what they would have to be hidden in, so that the
    need is monotone from two GPUs on: the buckets of DDP, and the second inputs of adapters under FSDP.
    """
    floor = resident.weights + resident.gradients
    own, whole = (terms.activations, terms.loss), (terms.full_activations, terms.full_loss)
    choices = [
        ((*resident[:4], resident.gathered + resident.unsharded), own),
        ((*terms.alone, terms.copy), own),
    ]
    if terms.adapters:
        full = _divide(terms.full, shards)
        choices += [((*full, resident.gathered), whole), ((*terms.full, 0.0), whole)]
        floor = min(floor, full[0] + full[1])
    loss = backward = step = inf
    for (weights, gradients, optimizer, copies, extra), (activations, head) in choices:
        states = weights + extra + (0.0 if terms.paged else optimizer)
        at_loss = activations.kept + max(activations.forward, head.live)
        loss = min(loss, states + (gradients if accumulates else 0.0) + tokens * at_loss)
        backward = min(backward, states + gradients + tokens * (activations.kept + LIVE_BLOCK * activations.backward))
        step = min(step, states + gradients + copies)
    return max(loss, backward, step) + resident.buckets + NEED_CONTEXT, floor


class _PeakTotals(NamedTuple):
    """Bytes of one GPU; `unpaged` is set if the peak relies on paging; `host` are bytes of a node.

    `models` are those beside the one that is trained, `rollout` is what the training itself does not need.
    """

    peak: float
    need: float
    floor: float
    unpaged: float | None
    host: float
    models: float
    rollout: float


def _estimate(terms: Terms, resident: _Resident, transient: _Transient, totals: _PeakTotals) -> Estimate:
    """Combine the parts. What the allocator returned is subtracted from all transient parts in proportion."""
    peak, need, floor, unpaged, host, models, rollout = totals
    states = resident.weights + resident.gradients + resident.optimizer
    fraction = 1.0
    if transient.returnable:
        fraction = max(0.0, (peak - models - rollout - states - transient.context) / transient.returnable)
    sizes = (
        ("weights", resident.weights),
        ("gradients", resident.gradients),
        ("optimizer", resident.optimizer),
        ("transients", transient.transients * fraction),
        ("activations", transient.activations * fraction),
        ("logits", transient.logits * fraction),
        ("overhead", transient.context),
        *([("models", models)] if models else []),
        *([("rollout", rollout)] if rollout else []),
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
        host_gib=host / GIB,
    )
