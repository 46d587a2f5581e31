"""How many tokens a second a training takes in: arithmetic at a measured efficiency, communication, paging.

Fitted on the 34 runs of `tests/data/sizing/gpu_memory_rows.csv` that tell their speed (fms-hf-tuning 2.7.1 on A100
SXM4, 1 to 8 GPUs, 8B models and one mixture of experts): median error 3 %, 30 of 34 within 15 %. At the edge of the
card it cannot tell whether an optimizer will be paged: one run was so 18 times slower than told. Everything else is
carried over from there, and says so by its error.
"""

from math import pow, sqrt  # noqa: A004 - of floats; the built-in may return anything

from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.memory import estimate
from reconciler.core.sizing.memory.context import linked
from reconciler.core.sizing.memory.sharding import shards_of
from reconciler.core.sizing.training import Attention, Layout, Method, Precision, Training

EFFICIENCY = 0.63
"""Share of the card's peak when all weights are trained and the batch is large."""
EFFICIENCY_ADAPTERS = 0.57
BALANCE = 6.5
"""GB/s of memory for each TFLOPS on the measured card (A100 SXM4): cards with less keep fewer units busy."""
LINK = 137.0
"""GB/s at which weights are gathered and gradients scattered over NVLink; 47 with adapters, whose units are small."""
LINK_ADAPTERS = 47.0
BUS = 0.25
"""Share of that over PCIe (not fitted: the ratio of the buses)."""
NODES = 1.8
"""Times the communication takes between nodes (not fitted; less than 2, so that more nodes are never told slower)."""
STEP = 0.12
"""Seconds of a step that do not shrink with its work: launches, the optimizer, the loader."""
OVERLAP = 1.2
"""Computation and communication overlap in part: their times are added with this power (1: in turn)."""
PAGING = 7.5
"""GB/s between host and GPU while an optimizer is paged, both ways."""
QUANTISED = 0.7
"""Speed with a base in 4 bits, which is unpacked for each use (not fitted)."""

MEASURED, CARRIED_OVER = 0.15, 0.4


def tokens_per_second(training: Training, layout: Layout, gpu: Gpu) -> tuple[float, float] | None:
    """Return the tokens a second of all GPUs together, and the relative error of that; None for an unknown card.

    A token takes 6 operations for each parameter (2 with the input, 4 back; with a frozen base 2 back), 2 more where
    checkpointing computes twice (Kaplan et al., arXiv 2001.08361, section 2; Korthikanti et al., arXiv 2205.05198),
    and those of attention. Sharded weights are gathered for each pass, and gradients scattered.

    With the same batch of each GPU, twice the GPUs are never told slower, from two on. One GPU that holds all by itself
    talks to nobody: it may be faster than two with little work.
    """
    if gpu.tflops <= 0:
        return None
    return _speed(training, layout, gpu), _error(training, gpu)


def _speed(training: Training, layout: Layout, gpu: Gpu) -> float:
    ways = training.tensor * training.pipeline
    tokens = layout.batch * training.sequence
    seconds = layout.accumulation * _step(training, layout, gpu, tokens) + _once(training, layout, gpu)
    return max(1, layout.gpus // ways) * tokens * layout.accumulation / seconds


def _step(training: Training, layout: Layout, gpu: Gpu, tokens: int) -> float:
    """Return seconds of one forward and backward pass."""
    compute = tokens * operations(training) / (gpu.tflops * 1e12 * _efficiency(training, gpu)) + STEP
    shards = shards_of(training, layout)
    if shards.weights == 1:
        return compute
    passes = 2 if training.method.has_adapters else 3
    bytes_each = 0.53 if training.method in _QUANTISED else 2.0
    gathered = passes * bytes_each * training.architecture.parameters / (training.tensor * training.pipeline)
    gathered *= (shards.weights - 1) / shards.weights
    talk = gathered / (_link(training, gpu) * 1e9)
    if layout.workers > 1 and shards.weights > layout.gpus_per_worker:
        talk *= NODES
    return pow(pow(compute, OVERLAP) + pow(talk, OVERLAP), 1 / OVERLAP)


def _once(training: Training, layout: Layout, gpu: Gpu) -> float:
    """Return seconds between steps of the optimizer: gradients summed where they are whole, states paged."""
    seconds = 0.0
    shards = shards_of(training, layout)
    if shards.weights == 1 and layout.gpus > 1 and not training.method.has_adapters:
        whole = 4.0 * training.architecture.parameters / (training.tensor * training.pipeline)
        seconds += whole / (_link(training, gpu) * 1e9) * (NODES if layout.workers > 1 else 1.0)
    if training.optimizer.startswith("paged") and estimate(training, layout, gpu).unpaged_gib is not None:
        states = 2 if "8bit" in training.optimizer else 8
        seconds += 2 * states * training.architecture.parameters / shards.optimizer / (PAGING * 1e9)
    return seconds


def operations(training: Training) -> float:
    """Return the floating-point operations of one token, forward, backward and recomputed; attention is causal."""
    model = training.architecture
    looked_up = 0 if model.tied else model.vocabulary * model.hidden
    again = 1 if training.checkpointing else 0
    passes = (2 if training.method.has_adapters else 3) + again
    layers = model.attention_layers or model.layers
    scores = layers * model.heads * model.head_dim * training.sequence  # QK and PV over half of the square
    scores *= 2 if training.attention is Attention.EAGER else 1
    return 2.0 * passes * (model.active_parameters - looked_up) + 2.0 * (3 + again) * scores


def _efficiency(training: Training, gpu: Gpu) -> float:
    share = EFFICIENCY_ADAPTERS if training.method.has_adapters else EFFICIENCY
    if training.method in _QUANTISED:
        share *= QUANTISED
    if training.precision is Precision.FP32:
        share /= 2  # TF32 has half of the rate
    if gpu.bandwidth_gbs <= 0:
        return share
    return share * min(1.0, sqrt(gpu.bandwidth_gbs / gpu.tflops / BALANCE))


def _link(training: Training, gpu: Gpu) -> float:
    link = LINK_ADAPTERS if training.method.has_adapters else LINK
    return link if linked(gpu.product) else link * BUS


def _error(training: Training, gpu: Gpu) -> float:
    like = (
        "A100" in gpu.product
        and training.checkpointing
        and training.attention is not Attention.EAGER
        and training.tensor * training.pipeline == 1
        and training.method in {Method.FULL, Method.LORA}
    )
    return MEASURED if like else CARRIED_OVER


_QUANTISED = frozenset({Method.QLORA, Method.GPTQ_LORA})
