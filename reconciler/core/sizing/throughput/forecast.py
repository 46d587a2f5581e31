"""Tokens per second with their range: nine of ten measured runs are inside, by what makes a run harder to predict.

The ranges were taken from the 310 runs of `tests/data/sizing` with a measured speed; `make sizing-report` prints the
errors by source, and of runs outside the fit. What was measured once or never has a wide range that is not fitted.
"""

from collections.abc import Iterator
from math import exp, sqrt

from msgspec.structs import replace

from reconciler.core.sizing.gpus import Gpu
from reconciler.core.sizing.memory.prediction import has_fast_link
from reconciler.core.sizing.memory.states import is_paged, shards_of
from reconciler.core.sizing.throughput.cost import Cost, Throughput, layout_cost
from reconciler.core.sizing.throughput.prediction import step_seconds, tokens_per_step
from reconciler.core.sizing.throughput.rates import RATES, Rates
from reconciler.core.sizing.training import QUANTIZED, Attention, Layout, Objective, Offload, Training

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
    doubts = tuple(_doubts(training, layout, gpu))
    factor = exp(sqrt(sum(error * error for _, error in doubts) + _BASE * _BASE))
    return Throughput(
        tokens_per_s=sqrt(slow * fast),
        low=slow / factor,
        high=fast * factor,
        doubts=tuple(name for name, _ in doubts),
    )


def training_cost(training: Training, layout: Layout, gpu: Gpu) -> Cost:
    """Return the cost of a training in a layout."""
    return layout_cost(gpu, layout.gpus, throughput(training, layout, gpu))


def _doubts(training: Training, layout: Layout, gpu: Gpu) -> Iterator[tuple[str, float]]:
    """Yield what makes a run harder to predict, each with its error: the logarithm of a factor."""
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
