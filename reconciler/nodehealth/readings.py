"""The readings of one pass over a node, which nothing has judged. A recorded sweep gives the same findings anywhere."""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

_BUS_ID = re.compile(
    r"(?:PCI:)?(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-9a-fA-F]))?", re.ASCII
)


def normal_slot(text: str) -> str:
    """Return a PCI bus id in the form of sysfs; empty if the text is none. The function is 0 where it is left out."""
    found = _BUS_ID.fullmatch(text.strip())
    if found is None:
        return ""
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}.{(function or '0').lower()}"


Value = Any
"""A value that JSON can hold. Nobody has checked it: a recorded file or a broken driver may say anything."""


class ReadingId(StrEnum):
    """A value that a source reads. Sources and checks name it by these members alone, so a wrong one fails early."""

    NVML_CLOCK_MEMORY_MAX = "nvml.clock_memory_max"
    NVML_CLOCK_SM = "nvml.clock_sm"
    NVML_CLOCK_SM_MAX = "nvml.clock_sm_max"
    NVML_CLOCKS_EVENT_REASONS = "nvml.clocks_event_reasons"
    NVML_COUNT = "nvml.count"
    NVML_DRIVER = "nvml.driver"
    NVML_ECC_CORRECTED = "nvml.ecc_corrected"
    NVML_ECC_MODE = "nvml.ecc_mode"
    NVML_ECC_UNCORRECTED = "nvml.ecc_uncorrected"
    NVML_ENERGY = "nvml.energy"
    NVML_FABRIC = "nvml.fabric"
    NVML_GSP_FIRMWARE = "nvml.gsp_firmware"
    NVML_HANDLE = "nvml.handle"
    NVML_INFOROM = "nvml.inforom"
    NVML_INFOROM_VERSION = "nvml.inforom_version"
    NVML_INIT = "nvml.init"
    NVML_MARGIN_LIMIT = "nvml.margin_limit"
    NVML_MEMORY = "nvml.memory"
    NVML_MEMORY_BUS_WIDTH = "nvml.memory_bus_width"
    NVML_MEMORY_TEMPERATURE = "nvml.memory_temperature"
    NVML_MEMORY_TEMPERATURE_MAX = "nvml.memory_temperature_max"
    NVML_MIG_MODE = "nvml.mig_mode"
    NVML_NVLINK_ERRORS = "nvml.nvlink_errors"
    NVML_NVLINK_SPEEDS = "nvml.nvlink_speeds"
    NVML_NVLINK_STATES = "nvml.nvlink_states"
    NVML_PCIE_ERRORS = "nvml.pcie_errors"
    NVML_PCIE_GENERATION = "nvml.pcie_generation"
    NVML_PCIE_GPU_GENERATION = "nvml.pcie_gpu_generation"
    NVML_PCIE_MAX_GENERATION = "nvml.pcie_max_generation"
    NVML_PCIE_MAX_WIDTH = "nvml.pcie_max_width"
    NVML_PCIE_REPLAYS = "nvml.pcie_replays"
    NVML_PCIE_WIDTH = "nvml.pcie_width"
    NVML_PERFORMANCE_STATE = "nvml.performance_state"
    NVML_POWER_DEFAULT_LIMIT = "nvml.power_default_limit"
    NVML_POWER_LIMIT = "nvml.power_limit"
    NVML_POWER_USAGE = "nvml.power_usage"
    NVML_PROCESSES = "nvml.processes"
    NVML_RECOVERY_ACTION = "nvml.recovery_action"
    NVML_REMAPPED_ROWS = "nvml.remapped_rows"
    NVML_REPAIR = "nvml.repair"
    NVML_RETIRED_PAGES = "nvml.retired_pages"
    NVML_ROW_HISTOGRAM = "nvml.row_histogram"
    NVML_SRAM_ECC = "nvml.sram_ecc"
    NVML_TEMPERATURE = "nvml.temperature"
    NVML_TEMPERATURE_MARGIN = "nvml.temperature_margin"
    NVML_TEMPERATURE_SLOWDOWN = "nvml.temperature_slowdown"
    NVML_TRAFFIC = "nvml.traffic"
    NVML_UNREPAIRABLE = "nvml.unrepairable"
    NVML_UTILIZATION = "nvml.utilization"
    NVML_VBIOS = "nvml.vbios"
    NVML_VIOLATIONS = "nvml.violations"
    NVML_XIDS = "nvml.xids"
    AMDSMI_BAD_PAGES = "amdsmi.bad_pages"
    AMDSMI_COUNT = "amdsmi.count"
    AMDSMI_ECC = "amdsmi.ecc"
    AMDSMI_HANDLE = "amdsmi.handle"
    AMDSMI_INIT = "amdsmi.init"
    AMDSMI_PCIE = "amdsmi.pcie"
    AMDSMI_POWER = "amdsmi.power"
    AMDSMI_TEMPERATURE = "amdsmi.temperature"
    AMDSMI_VIOLATIONS = "amdsmi.violations"
    AMDSMI_XGMI_ERROR = "amdsmi.xgmi_error"
    SYSFS_ACS = "sysfs.acs"
    SYSFS_INFINIBAND_PORTS = "sysfs.infiniband_ports"
    SYSFS_NVIDIA_MODULE = "sysfs.nvidia_module"
    SYSFS_PCI_GPUS = "sysfs.pci_gpus"
    PROCFS_BOOT_ID = "procfs.boot_id"
    PROCFS_BTIME = "procfs.btime"
    PROCFS_CGROUPS = "procfs.cgroups"
    PROCFS_DAEMONS = "procfs.daemons"
    PROCFS_UPTIME = "procfs.uptime"
    KMSG_LINES = "kmsg.lines"
    KMSG_SINCE = "kmsg.since"
    IMEX_DOMAIN = "imex.domain"
    KUBERNETES_ALLOCATABLE_GPUS = "kubernetes.allocatable_gpus"
    CUDA_BF16 = "cuda.bf16"
    CUDA_D2H = "cuda.d2h"
    CUDA_D2H_PAGEABLE = "cuda.d2h_pageable"
    CUDA_DAXPY = "cuda.daxpy"
    CUDA_DEVICE = "cuda.device"
    CUDA_FP32 = "cuda.fp32"
    CUDA_FP64 = "cuda.fp64"
    CUDA_H2D = "cuda.h2d"
    CUDA_H2D_PAGEABLE = "cuda.h2d_pageable"
    CUDA_PEER = "cuda.peer"
    CUDA_SOAK = "cuda.soak"
    DCGM_LEVEL1 = "dcgm.level1"
    DCGM_LEVEL2 = "dcgm.level2"
    DCGM_LEVEL3 = "dcgm.level3"
    DCGM_LEVEL4 = "dcgm.level4"
    NET_ALLREDUCE = "net.allreduce"
    NET_IPERF = "net.iperf"
    NET_PING = "net.ping"
    NET_RDMA = "net.rdma"
    STORAGE_PVC = "storage.pvc"
    JOB_ERRORS = "job.errors"
    SOURCE = "source"  # a whole source that failed; `detail` names it

    @property
    def source(self) -> str:
        """The library, file system or program behind the value."""
        return self.value.partition(".")[0]


DIAG_READINGS = {1: ReadingId.DCGM_LEVEL1, 2: ReadingId.DCGM_LEVEL2, 3: ReadingId.DCGM_LEVEL3, 4: ReadingId.DCGM_LEVEL4}
"""The readings of `dcgmi diag` by its level."""


class ReadError(StrEnum):
    """The reason for which a value could not be read. Never a verdict: the checks decide what it means."""

    NOT_SUPPORTED = "not_supported"  # by this GPU, in this mode, or by this driver
    NO_PERMISSION = "no_permission"
    NO_LIBRARY = "no_library"
    NO_DRIVER = "no_driver"
    DRIVER_MISMATCH = "driver_mismatch"  # the driver was upgraded, and the node was not restarted
    GPU_LOST = "gpu_lost"
    RESET_REQUIRED = "reset_required"
    CORRUPTED_INFOROM = "corrupted_inforom"
    DEADLINE = "deadline"  # the call did not return: it may hang in the kernel
    BUSY = "busy"
    FAILED = "failed"  # anything else; `detail` says what


class NodeReading(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value, or the reason why there is none. `slot` is the PCI bus id of the GPU; empty for the node."""

    name: ReadingId
    slot: str = ""
    value: Value = None
    error: ReadError | None = None
    detail: str = ""
    milliseconds: float = 0.0


class GpuIdentity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU. The slot identifies its place, the UUID the device: a replaced GPU has a new UUID in the same slot."""

    slot: str
    index: int = 0
    uuid: str = ""
    serial: str = ""
    product: str = ""


class Sweep(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """All readings of one pass over one node. `taken_at` is in seconds since the epoch."""

    node: str
    taken_at: float
    boot_id: str = ""
    vendor: str = "nvidia"
    driver: str = ""
    gpus: tuple[GpuIdentity, ...] = ()
    readings: tuple[NodeReading, ...] = ()

    def find(self, name: ReadingId, slot: str = "") -> NodeReading | None:
        """Return the reading of this name, or None if nothing read it."""
        return self._by_key.get((name, slot))

    @cached_property
    def _by_key(self) -> dict[tuple[ReadingId, str], NodeReading]:
        return {(reading.name, reading.slot): reading for reading in reversed(self.readings)}

    def all(self, name: ReadingId, slot: str | None = None) -> Iterator[NodeReading]:
        """Yield the readings of this name: of one slot, or of all with None."""
        for reading in self.readings:
            if reading.name == name and (slot is None or reading.slot == slot):
                yield reading


class SourceReadings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The readings of one source, or of several together. A GPU without a slot has not told where it is."""

    vendor: str = ""
    driver: str = ""
    gpus: tuple[GpuIdentity, ...] = ()
    readings: tuple[NodeReading, ...] = ()

    def find(self, name: ReadingId) -> NodeReading | None:
        """Return the reading of the node with this name."""
        return next((reading for reading in self.readings if reading.name == name and not reading.slot), None)

    def plus(self, other: "SourceReadings") -> "SourceReadings":
        """Return both; the first that knows vendor, driver and GPUs is believed."""
        return SourceReadings(
            vendor=self.vendor or other.vendor,
            driver=self.driver or other.driver,
            gpus=self.gpus or other.gpus,
            readings=self.readings + other.readings,
        )


def placeholder(index: int) -> str:
    """Return the slot of a GPU that has not told its bus id, until it is known from the PCI bus."""
    return f"gpu-{index}"


def make_sweep(node: str, taken_at: float, found: SourceReadings) -> Sweep:
    """Return the sweep that these readings make. A lost GPU gets the slot that is left over on the PCI bus."""
    places = _places(found)
    boot = found.find(ReadingId.PROCFS_BOOT_ID)
    return Sweep(
        node=node,
        taken_at=taken_at,
        boot_id=boot.value if boot is not None and isinstance(boot.value, str) else "",
        vendor=found.vendor or _vendor(found),
        driver=found.driver,
        gpus=tuple(replace(gpu, slot=places.get(gpu.slot, gpu.slot)) for gpu in found.gpus),
        readings=tuple(
            replace(reading, slot=places[reading.slot]) if reading.slot in places else reading
            for reading in found.readings
        ),
    )


def _vendor(found: SourceReadings) -> str:
    """Return the vendor of the cards on the PCI bus, where no library answered."""
    cards = found.find(ReadingId.SYSFS_PCI_GPUS)
    rows = cards.value if cards is not None and isinstance(cards.value, list) else []
    vendors = {row.get("vendor") for row in rows if isinstance(row, dict)}
    return "amd" if vendors == {"amd"} else "nvidia"


def _places(found: SourceReadings) -> dict[str, str]:
    """Return the slots of placeholders: NVML counts GPUs in the order of the bus, also those that do not answer."""
    cards = found.find(ReadingId.SYSFS_PCI_GPUS)
    rows = cards.value if cards is not None and isinstance(cards.value, list) else []
    known = {gpu.slot for gpu in found.gpus}
    free = sorted(
        str(row["slot"]) for row in rows if isinstance(row, dict) and row.get("slot") and row["slot"] not in known
    )
    lost = [gpu.slot for gpu in found.gpus if gpu.slot == placeholder(gpu.index)]
    return dict(zip(lost, free, strict=True)) if len(lost) == len(free) else {}


_RECENT, _HOUR, _DAY = 900.0, 3600.0, 86_400.0


def keep(history: Sequence[Sweep], sweep: Sweep) -> tuple[Sweep, ...]:
    """Return the history with a new sweep: all of the last 15 minutes, one an hour for a day, one a day for a week."""
    kept: dict[tuple[str, float], Sweep] = {}
    for earlier in (*history, sweep):
        age = sweep.taken_at - earlier.taken_at
        if age <= _RECENT:
            kept["", earlier.taken_at] = earlier
        elif age <= _DAY:
            kept.setdefault(("hour", earlier.taken_at // _HOUR), earlier)
        elif age <= 8 * _DAY:
            kept.setdefault(("day", earlier.taken_at // _DAY), earlier)
    return tuple(sorted(kept.values(), key=lambda one: one.taken_at))
