"""The use of the GPUs of a node, from two sweeps, which the agent publishes for the detectors of jobs."""

from collections.abc import Sequence

from reconciler.nodehealth.checks.check import as_number
from reconciler.nodehealth.readings import GpuIdentity, ReadingId, Sweep
from reconciler.nodehealth.report import GpuUse

_OCCUPIED = 0.02  # of the memory: the driver itself needs less than a hundredth
_BENIGN = frozenset({"recovery_success", "recovery_events", "effective", "symbol"})
_COUNTERS = (
    ("ecc.uncorrected", ReadingId.NVML_ECC_UNCORRECTED),
    ("ecc.corrected", ReadingId.NVML_ECC_CORRECTED),
    ("pcie.replays", ReadingId.NVML_PCIE_REPLAYS),
)


def gpu_uses(sweep: Sweep, history: Sequence[Sweep]) -> tuple[GpuUse, ...]:
    """Return how each GPU is used. Power and traffic are means since the newest earlier sweep of this boot."""
    before = next((one for one in reversed(history) if _follows(sweep, one)), None)
    return tuple(_use(sweep, before, gpu) for gpu in sweep.gpus)


def _follows(sweep: Sweep, earlier: Sweep) -> bool:
    return earlier.boot_id == sweep.boot_id and earlier.taken_at < sweep.taken_at


def _use(sweep: Sweep, before: Sweep | None, gpu: GpuIdentity) -> GpuUse:
    slot = gpu.slot
    if before is not None and all(one.uuid != gpu.uuid for one in before.gpus if one.slot == slot):
        before = None  # another device
    used, memory = (
        _value(sweep, ReadingId.NVML_MEMORY, slot, "used"),
        _value(sweep, ReadingId.NVML_MEMORY, slot, "total"),
    )
    return GpuUse(
        slot=slot,
        watts=_watts(sweep, before, slot),
        utilization=_value(sweep, ReadingId.NVML_UTILIZATION, slot, "gpu"),
        traffic=_traffic(sweep, before, slot),
        occupied=None if used is None or not memory else used > _OCCUPIED * memory,
        errors=_errors(sweep, slot),
    )


def _watts(sweep: Sweep, before: Sweep | None, slot: str) -> float | None:
    """Return the mean power by the energy counter, which misses nothing between two sweeps; else the power now."""
    if before is not None:
        used = _grown(sweep, before, ReadingId.NVML_ENERGY, slot)
        if used is not None:
            return round(used / 1000 / (sweep.taken_at - before.taken_at), 1)
    now = _value(sweep, ReadingId.NVML_POWER_USAGE, slot)
    return None if now is None else round(now / 1000, 1)


def _traffic(sweep: Sweep, before: Sweep | None, slot: str) -> float | None:
    if before is None:
        return None
    parts = [_grown(sweep, before, ReadingId.NVML_TRAFFIC, slot, name) for name in ("nvlink", "pcie")]
    known = [part for part in parts if part is not None]
    return round(sum(known) / (sweep.taken_at - before.taken_at), 1) if known else None


def _errors(sweep: Sweep, slot: str) -> dict[str, float]:
    """Return the counters of errors that can be read."""
    found = {name: value for name, source in _COUNTERS if (value := _value(sweep, source, slot)) is not None}
    links, pcie = _table(sweep, ReadingId.NVML_NVLINK_ERRORS, slot), _table(sweep, ReadingId.NVML_PCIE_ERRORS, slot)
    if links:
        found["nvlink.errors"] = sum(value for name, value in links.items() if name not in _BENIGN)
    if "fatal" in pcie:
        found["pcie.fatal"] = pcie["fatal"]
    return found


def _grown(sweep: Sweep, before: Sweep, name: ReadingId, slot: str, key: str = "") -> float | None:
    """Return how much a counter grew; None if one of both is not known, or it was reset or has wrapped."""
    now, then = (_value(one, name, slot, key) for one in (sweep, before))
    return now - then if now is not None and then is not None and now >= then else None


def _value(sweep: Sweep, name: ReadingId, slot: str, key: str = "") -> float | None:
    if key:
        return _table(sweep, name, slot).get(key)
    reading = sweep.find(name, slot)
    return as_number(reading.value) if reading is not None and reading.error is None else None


def _table(sweep: Sweep, name: ReadingId, slot: str) -> dict[str, float]:
    """Return the numbers of a value with named parts; nothing if it was not read."""
    reading = sweep.find(name, slot)
    if reading is None or reading.error is not None or not isinstance(reading.value, dict):
        return {}
    return {key: number for key, value in reading.value.items() if (number := as_number(value)) is not None}
