"""Tokens per second with their range: nine of ten measured runs are inside, by what makes a run harder to predict.

The ranges were taken from the 310 runs of `tests/data/sizing` with a measured speed; `make sizing-report` prints the
errors by source, and of runs outside the fit. What was measured once or never has a wide range that is not fitted.
"""

from collections.abc import Iterator
from math import (
    exp,
    pow,  # noqa: A004 - math.pow returns a float
    sqrt,
)

from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.gpus import Gpu
from reconciler.sizing.memory import estimate
from reconciler.sizing.memory.prediction import has_fast_link
from reconciler.sizing.memory.stacks import stack_of
from reconciler.sizing.memory.states import DEEPSPEED, FSDP, is_paged, shards_of
from reconciler.sizing.memory.terms import is_upcast
from reconciler.sizing.throughput.cost import Throughput
from reconciler.sizing.training import QUANTIZED, Attention, Layout, Objective, Offload, Precision, Training


class Rates(Struct, frozen=True, kw_only=True):
    """The speeds of GPUs, links and hosts, and the costs of a step beside them. Seconds, GB/s, or fractions.

    `full`, `adapters`: the fraction of the GPU's peak that matrix products reach on an A100 (312 TFLOPS); others reach
    (312 / peak)^`decline` of it, and less if their memory has under `balance` GB/s per TFLOPS. `upcast`: relative speed
    with a 4-bit base whose other tensors are cast to fp32. `overlap`: computation and communication are added as a
    power mean (1: no overlap).
    """

    full: float = 0.6
    adapters: float = 0.57
    decline: float = 0.38
    balance: float = 4.7
    upcast: float = 0.8
    layer: float = 0.006
    """Seconds per layer and step: kernel launches, the data loader, the Python around them."""
    expert: float = 2.6e-4
    """Seconds per expert, layer and pass, if experts run one after another, as in Hugging Face's own modules."""
    dequantized: float = 130.0
    """Billion 4-bit weights unpacked per second and TB/s of the GPU's memory."""
    link: float = 150.0
    """GB/s of a GPU to the others of its node, over NVLink or Infinity Fabric."""
    bus: float = 16.0
    """The same over PCIe."""
    unit: float = 1.8e-3
    """Seconds per adapter matrix and pass that FSDP gathers by itself."""
    network: float = 50.0
    """GB/s of a node to the others."""
    overlap: float = 1.34
    paging: float = 7.5
    """GB/s between host and GPU, both directions together, while an optimizer is paged."""
    host: float = 10.0
    """GB/s from host memory to one GPU when states are offloaded."""
    host_update: float = 1.4
    """Seconds per billion parameters of Adam on the host with PyTorch; DeepSpeed's own takes 0.25 (ZeRO-Offload, arXiv
    2101.06840, table 4: 1.39 and 0.22 for a billion, 14.8 and 2.6 for ten)."""
    deepspeed_update: float = 0.25


RATES = Rates()
"""The shipped rates."""


_BYTES = 2.0  # of a value in bf16 or fp16
_BYTES_4BIT = 0.53
_OPTIMIZER_BYTES = 24.0  # read and written per parameter: weight, gradient and two states, 2 or 4 bytes each
_REFERENCE = 312.0  # TFLOPS of the A100, on which most runs were measured


def tokens_per_step(training: Training, layout: Layout) -> float:
    """Return the tokens that all GPUs together process between two updates of the weights."""
    replicas = max(1, layout.gpus // (training.ways * training.context))
    return float(replicas * layout.batch * layout.accumulation * training.sequence * training.objective.answers)


def step_seconds(training: Training, layout: Layout, gpu: Gpu, rates: Rates) -> float:
    """Return the seconds between two updates of the weights."""
    micro = _micro_seconds(training, layout, gpu, rates)
    batches = layout.accumulation * max(1, min(layout.batch, training.pipeline))
    bubble = (training.pipeline - 1) / batches  # arXiv 2104.04473, section 2.2
    return layout.accumulation * micro * (1 + bubble) + _update_seconds(training, layout, gpu, rates)


def operations(training: Training) -> float:
    """Return the floating-point operations per token: forward, backward and recomputed. Attention is causal.

    A token takes 2 operations per parameter and pass: one pass forward, two backward (one with a frozen base), and one
    more if checkpointing recomputes (Kaplan et al., arXiv 2001.08361, section 2; Korthikanti et al., arXiv 2205.05198).
    Of a mixture of experts, the active parameters count. A reference model adds a forward pass.
    """
    model = training.architecture
    lookup = 0 if model.tied else model.vocabulary * model.hidden
    reference = 1 if training.objective.has_reference else 0
    recompute = (1 if training.checkpointing else 0) + reference
    passes = (2 if training.method.has_adapters else 3) + recompute
    layers = model.attention_layers or model.layers
    scores = layers * model.heads * model.head_dim * training.sequence  # QK and PV over half of the matrix
    scores *= 2 if training.attention is Attention.EAGER else 1
    return 2.0 * passes * (model.active_parameters - lookup) + 2.0 * (3 + recompute) * scores


def _micro_seconds(training: Training, layout: Layout, gpu: Gpu, rates: Rates) -> float:
    """Return seconds of one forward and backward pass on one GPU."""
    local = layout.batch * training.sequence * training.objective.answers / training.context
    compute = local * operations(training) / training.ways / (gpu.tflops * 1e12 * efficiency(training, gpu, rates))
    busy = compute + _unpacking(training, gpu, rates) + _launching(training, rates)
    return _overlapped(busy, _gathering(training, layout, gpu, rates), rates) + _exchanging(training, local, gpu, rates)


def _overlapped(one: float, other: float, rates: Rates) -> float:
    return pow(pow(one, rates.overlap) + pow(other, rates.overlap), 1 / rates.overlap)


def _passes(training: Training) -> int:
    """Return the runs of a layer in a step: forward, backward, and recomputed."""
    return 2 + (1 if training.checkpointing else 0)


def _unpacking(training: Training, gpu: Gpu, rates: Rates) -> float:
    """Return seconds of unpacking a 4-bit base: every weight in every pass, however many tokens it then serves."""
    if training.method not in QUANTIZED:
        return 0.0
    weights = sum(linear.size * linear.count for linear in training.architecture.linears)
    per_second = rates.dequantized * 1e9 * (gpu.bandwidth_gbs or _REFERENCE) / 1e3
    return _passes(training) * weights / training.ways / per_second


def _launching(training: Training, rates: Rates) -> float:
    """Return seconds in which the GPU waits for launches: per layer, and per expert where experts run in a loop."""
    model, layers = training.architecture, training.architecture.layers / training.pipeline
    routed = [linear for linear in model.linears if linear.active < linear.count]  # an expert has several matrices
    matrices = len({linear.name for linear in routed}) or 1
    experts = sum(linear.count for linear in routed) / matrices / training.pipeline
    return layers * rates.layer + experts * (_passes(training) + 1) * rates.expert


def _gathering(training: Training, layout: Layout, gpu: Gpu, rates: Rates) -> float:
    """Return seconds of gathering sharded weights and scattering gradients, and of loading what is offloaded.

    FSDP (arXiv 2304.11277, section 3) and ZeRO-3 (arXiv 1910.02054, section 7) gather weights forward and backward, and
    scatter the gradients of all weights if they are trained.
    """
    model, shards = training.architecture, shards_of(training, layout)
    size = _BYTES_4BIT if training.method in QUANTIZED else _BYTES
    weights = size * model.parameters / training.ways
    gathers = 2 if training.method.has_adapters else 3
    seconds = 0.0
    if shards.weights > 1:
        moved = gathers * weights * (shards.weights - 1) / shards.weights
        seconds += moved / (link_gbs(gpu, rates) * 1e9)
        if layout.workers > 1 and shards.weights > layout.gpus_per_worker:
            seconds = max(seconds, moved / (rates.network * 1e9))
        if training.method.has_adapters and training.strategy in FSDP:
            seconds += gathers * _adapter_matrices(training) * rates.unit
    if training.offload is Offload.ALL:
        seconds += gathers * weights / shards.weights / (rates.host * 1e9)
    return seconds


def _adapter_matrices(training: Training) -> float:
    """Return the number of adapter matrices, two for each layer with an adapter."""
    model, targets = training.architecture, {name.rsplit(".", 1)[-1] for name in training.lora_targets}
    every = "all-linear" in targets
    count = sum(linear.count for linear in model.linears if not linear.fused and (every or linear.name in targets))
    return 2.0 * count / training.pipeline


def _exchanging(training: Training, local: float, gpu: Gpu, rates: Rates) -> float:
    """Return seconds of exchanging activations in tensor parallelism and keys and values in context parallelism.

    A layer reduces its outputs twice per pass over the GPUs of a tensor (Megatron-LM, arXiv 1909.08053, section 3), and
    passes the keys and values of the others around (Ring Attention, arXiv 2310.01889, section 3).
    """
    model, layers = training.architecture, training.architecture.layers / training.pipeline
    moved = 0.0
    if training.tensor > 1:
        moved += 2 * 2 * _BYTES * local * model.hidden * (training.tensor - 1) / training.tensor
    if training.context > 1:
        moved += 2 * _BYTES * local * model.kv_heads * model.head_dim * (training.context - 1)
    return layers * _passes(training) * moved / (link_gbs(gpu, rates) * 1e9)


def _update_seconds(training: Training, layout: Layout, gpu: Gpu, rates: Rates) -> float:
    """Return seconds per update: the reduction of unsharded gradients, the optimizer, paging, offload."""
    if training.method.has_adapters:
        return 0.0
    shards, parameters = shards_of(training, layout), training.architecture.parameters / training.ways
    own = parameters / shards.optimizer
    seconds = _reducing(training, layout, gpu, rates)
    if training.offload is not Offload.NONE:
        moved = 2 * _BYTES * own / (rates.host * 1e9)
        per_billion = rates.deepspeed_update if training.strategy in DEEPSPEED else rates.host_update
        return seconds + moved + per_billion * own * layout.gpus_per_worker / training.ways / 1e9
    seconds += _OPTIMIZER_BYTES * own / ((gpu.bandwidth_gbs or _REFERENCE) * 1e9)
    if training.optimizer.startswith("paged") and estimate(training, layout, gpu).unpaged_gib is not None:
        states = 2 if "8bit" in training.optimizer else 8
        seconds += 2 * states * own / (rates.paging * 1e9)
    return seconds


def _reducing(training: Training, layout: Layout, gpu: Gpu, rates: Rates) -> float:
    """Return seconds of reducing gradients over replicas of the weights: 4 bytes a parameter there and back."""
    shards = shards_of(training, layout)
    replicas = layout.gpus // training.ways // shards.weights
    if replicas < 2:  # noqa: PLR2004 - a single replica has nobody to reduce with
        return 0.0
    gradients = 2 * _BYTES * training.architecture.parameters / training.ways / shards.weights
    if layout.workers == 1:
        return gradients / (link_gbs(gpu, rates) * 1e9)
    return gradients * min(shards.weights, layout.gpus_per_worker) / (rates.network * 1e9)


def efficiency(training: Training, gpu: Gpu, rates: Rates) -> float:
    """Return the fraction of the GPU's peak that matrix products reach."""
    fraction = rates.adapters if training.method.has_adapters else rates.full
    fraction *= pow(_REFERENCE / gpu.tflops, rates.decline)
    if training.precision is Precision.FP32:
        fraction /= 2  # TF32 runs at half the rate
    if is_upcast(training, stack_of(training.framework), sharded=False):
        fraction *= rates.upcast
    if gpu.bandwidth_gbs > 0:
        fraction *= min(1.0, sqrt(gpu.bandwidth_gbs / gpu.tflops / rates.balance))
    return min(fraction, 0.9)


def link_gbs(gpu: Gpu, rates: Rates) -> float:
    """Return GB/s between GPUs of one node."""
    return rates.link if has_fast_link(gpu.product) else rates.bus


MEASURED_EXPERTS = 40
"""The largest number of experts in a layer that was measured. With more, the framework's kernels decide: in a loop,
each expert costs a launch; grouped kernels are up to ten times as fast, and a launch line does not name them."""

SLOW_NETWORK, FAST_NETWORK = 7.0, 400.0
"""GB/s of a node: measured without RDMA (8 GPUs on two nodes), and of eight network cards with 400 Gb/s each."""

_BASE = 0.2
_FEW_TOKENS = 2048  # of one GPU in one pass: below, launches and the data loader decide
_MEASURED = ("A100", "H100-80GB", "L40", "3090", "4090", "RTX-6000-ADA")


def throughput(training: Training, layout: Layout, gpu: Gpu, rates: Rates = RATES) -> Throughput | None:
    """Return the predicted throughput; None if unknown: a GPU without figures, more experts than measured, or PPO.

    Samples count at their full length. The network between nodes is unknown: if weights are sharded across nodes, the
    range covers what was measured without RDMA and with eight fast network cards, and the prediction is between them.
    """
    if gpu.tflops <= 0 or training.architecture.experts > MEASURED_EXPERTS or training.companions:
        return None
    tokens = tokens_per_step(training, layout)
    slow, fast = (
        tokens / step_seconds(training, layout, gpu, replace(rates, network=network))
        for network in (SLOW_NETWORK, FAST_NETWORK)
    )
    uncertainties = tuple(_uncertainties(training, layout, gpu))
    factor = exp(sqrt(sum(error * error for _, error in uncertainties) + _BASE * _BASE))
    return Throughput(
        tokens_per_s=sqrt(slow * fast),
        low=slow / factor,
        high=fast * factor,
        uncertainties=tuple(name for name, _ in uncertainties),
    )


def _uncertainties(training: Training, layout: Layout, gpu: Gpu) -> Iterator[tuple[str, float]]:
    """Yield the sources of uncertainty of a run, each with its error: the logarithm of a factor."""
    few = layout.batch * training.sequence / training.context < _FEW_TOKENS
    gathers = layout.gpus > 1 and shards_of(training, layout).weights > 1
    trains_all = not training.method.has_adapters
    is_measured = any(name in gpu.product.upper() for name in _MEASURED)
    for applies, name, error in (
        (training.method in QUANTIZED, "unpacking of a 4-bit base", 0.2),
        (training.architecture.experts > 0, "experts", 0.25),
        (few, "few tokens per step", 0.45),
        (gathers and not has_fast_link(gpu.product), "PCIe between GPUs", 0.5),
        (layout.workers > 1, "the network between nodes", 0.5),
        (training.offload is not Offload.NONE, "the host's memory and processors", 0.9 if trains_all else 0.3),
        (training.ways > 1 or training.context > 1, "tensor, pipeline or context parallelism", 0.7),
        (trains_all and is_paged(training.optimizer), "paging", 0.25),
        (training.objective is not Objective.SFT, "preference training", 0.4),
        (training.attention is Attention.EAGER or not training.checkpointing, "activations in memory", 0.2),
        (not is_measured, f"{gpu.product}, which was not measured", 0.4),
    ):
        if applies:
            yield name, error
