"""A sweep from the readings of several sources, and which sweeps to keep as history."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.health.readings import GpuIdentity, NodeReading, ReadingId, Sweep


class SourceReadings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one source has read, or several together. A GPU without a slot has not told where it is."""

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
