"""Rates of computation and transfer, fitted to `tests/data/sizing/gpu_speed_rows.csv` and `gpu_memory_rows.csv`.

`python -m benchmarks.sizing.speeds --fit` fits them again. A rate without a fit names its source.
"""

from msgspec import Struct


class Rates(Struct, frozen=True, kw_only=True):
    """How fast GPUs, links and hosts work, and what a step costs beside that. Seconds, GB/s, or fractions.

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
