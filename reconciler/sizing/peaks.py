"""The peaks of a GPU and its link: the health columns of `data/gpus.json`, and NVML's values of an unknown card."""

import msgspec
from msgspec import Struct


class GpuLimits(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The limits of a product for health checks. None: not known, so not judged.

    `fp64`, `fp64_tensor` and `bf16` are operations per clock and multiprocessor (fp16 where there is no bf16). Floors
    are in GB/s: `memory_floor_gbs` is the vendor's diagnostic one, which only dead parts fail.
    """

    source: str
    sms: int | None = None
    fp64: float | None = None
    fp64_tensor: float | None = None
    bf16: float | None = None
    gddr: bool = False
    c2c: bool = False
    peer_gbs: float | None = None
    peer_floor_gbs: float | None = None
    memory_floor_gbs: float | None = None


class PcieGeneration(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A generation of PCI Express. The two limits are parts of the bandwidth of the link."""

    generation: int
    lane_gbs: float
    warn_below: float
    fail_below: float
    source: str


class GpuPeak(Struct, frozen=True, kw_only=True, rename="camel"):
    """A product of the table with its peaks."""

    product: str
    bandwidth_gbs: float
    aliases: tuple[str, ...] = ()
    health: GpuLimits | None = None


class _PeakFile(Struct, frozen=True):
    pcie: tuple[PcieGeneration, ...]
    gpus: tuple[GpuPeak, ...]


class PeakTable:
    """The GPUs and generations of `data/gpus.json`, for checks."""

    def __init__(self, gpus: tuple[GpuPeak, ...] = (), pcie: tuple[PcieGeneration, ...] = ()) -> None:
        self._gpus: dict[str, GpuPeak] = {
            product_key(name): gpu for gpu in gpus for name in (gpu.product, *gpu.aliases)
        }
        self._pcie: dict[int, PcieGeneration] = {row.generation: row for row in pcie}

    def gpu(self, product: str) -> GpuPeak | None:
        """Return a product by its name in NVML (`NVIDIA H200`) or in a node label (`NVIDIA-H200`)."""
        return self._gpus.get(product_key(product))

    def limits(self, product: str) -> GpuLimits | None:
        """Return the limits of a product, if there are any."""
        gpu = self.gpu(product)
        return None if gpu is None else gpu.health

    def pcie(self, generation: int) -> PcieGeneration | None:
        """Return a generation of PCI Express."""
        return self._pcie.get(generation)


NO_PEAKS = PeakTable()


def read_peaks(raw: bytes) -> PeakTable:
    """Read the table from the bytes of `data/gpus.json`."""
    found = msgspec.json.decode(raw, type=_PeakFile)
    return PeakTable(found.gpus, found.pcie)


def product_key(name: str) -> str:
    """Return the name of a product as tables compare it."""
    return "-".join(name.lower().split())


def memory_peak_gbs(clock_mhz: float, bus_bits: float) -> float:
    """Return the peak of a memory from its clock and the width of its bus: two transfers each clock."""
    return 2 * clock_mhz * bus_bits / 8 / 1000
