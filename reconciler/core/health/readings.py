"""What one pass over a node has read, before anything judges it. A recorded sweep gives the same findings anywhere."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct

Value = Any
"""A value that JSON can hold. Nobody has checked it: a recorded file or a broken driver may say anything."""


class ReadError(StrEnum):
    """Why a value could not be read. Never a verdict by itself: the checks decide what it means."""

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

    name: str  # the source, as `nvml.remapped_rows` or `sysfs.infiniband.ports`
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

    def find(self, name: str, slot: str = "") -> NodeReading | None:
        """Return the reading of this name, or None if nothing read it."""
        return self._by_key.get((name, slot))

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], NodeReading]:
        return {(reading.name, reading.slot): reading for reading in reversed(self.readings)}

    def all(self, name: str, slot: str | None = None) -> Iterator[NodeReading]:
        """Yield the readings of this name: of one slot, or of all with None."""
        for reading in self.readings:
            if reading.name == name and (slot is None or reading.slot == slot):
                yield reading

    def by_slot(self, name: str) -> Mapping[str, NodeReading]:
        """Return the readings of this name by the slot of their GPU."""
        return {reading.slot: reading for reading in self.all(name)}
