"""Bandwidth, measured: PCI Express both ways, the memory of the GPU, copies between GPUs."""

from typing import Any

from reconciler.nodehealth.checks.check import (
    CheckInput,
    CheckResult,
    Unmeasured,
    as_number,
    failed,
    health_checks,
    outcome,
    passed,
)
from reconciler.nodehealth.findings import CheckStatus, Threshold, ThresholdSource
from reconciler.nodehealth.readings import ReadingId
from reconciler.sizing.peaks import PcieGeneration, memory_peak_gbs

_IMPOSSIBLE = 1.05  # of a peak


def rated(
    what: str, observed: float, peak: float, warn: Threshold, fail: Threshold, *, samples: int = 1
) -> CheckResult:
    """Judge GB/s against parts of a peak. The threshold of the result is in GB/s."""
    part = observed / peak
    text = f"{what}: {observed:.4g} GB/s, {part:.0%} of {peak:.4g}"
    for status, limit in ((CheckStatus.FAIL, fail), (CheckStatus.WARN, warn)):
        number = as_number(limit.value)
        if number is None:
            raise Unmeasured(CheckStatus.UNKNOWN, "the threshold is not a number")
        if part < number:
            return outcome(
                status,
                f"{text}, below {number * peak:.4g}",
                observed,
                _in_gbs(limit, number * peak),
                samples=samples,
                scale=round(peak, 3),
            )
    return passed(
        text, observed, _in_gbs(warn, (as_number(warn.value) or 0) * peak), samples=samples, scale=round(peak, 3)
    )


def _in_gbs(limit: Threshold, gbs: float) -> Threshold:
    return Threshold(value=round(gbs, 3), source=limit.source, citation=limit.citation)


def _direction(given: CheckInput, name: ReadingId, what: str) -> CheckResult:
    found = given.table(name)
    return judge_link(given, given.field(name, "best"), what, found.get("link"), len(found.get("samples") or [0]))


def judge_link(given: CheckInput, observed: float, what: str, link: object = None, samples: int = 1) -> CheckResult:
    """Judge the bandwidth of one direction by the generation that slot and GPU can have, and the width they do have."""
    limits = given.peaks.limits(given.gpu.product)
    if limits is not None and limits.c2c:
        raise Unmeasured(CheckStatus.SKIP, "connected by NVLink-C2C: the PCI Express link says nothing")
    row, width = _link(given, link)
    warn, fail = (_of_link(given, name, row) for name in ("warnBelow", "failBelow"))
    return rated(f"{what} (Gen{row.generation} x{width})", observed, row.lane_gbs * width, warn, fail, samples=samples)


def _of_link(given: CheckInput, name: str, row: PcieGeneration) -> Threshold:
    """Return a limit as part of the link: of the policy if it says a number, else of the table."""
    limit = given.threshold(name)
    if as_number(limit.value) is not None:
        return limit
    value = row.warn_below if name == "warnBelow" else row.fail_below
    return Threshold(value=value, source=limit.source, citation=row.source)


def _link(given: CheckInput, link: object) -> tuple[PcieGeneration, int]:
    """Return generation and width: from sysfs while the copy ran, else from NVML."""
    state: dict[str, Any] = link if isinstance(link, dict) else {}
    generation = _first(
        as_number(state.get("maxGeneration")),
        _least(_read(given, ReadingId.NVML_PCIE_MAX_GENERATION), _read(given, ReadingId.NVML_PCIE_GPU_GENERATION)),
    )
    width = _first(as_number(state.get("width")), _read(given, ReadingId.NVML_PCIE_WIDTH))
    row = given.peaks.pcie(int(generation)) if generation else None
    if row is None or not width:
        raise Unmeasured(CheckStatus.UNKNOWN, "generation and width of the PCI Express link are not known")
    return row, int(width)


def _read(given: CheckInput, name: ReadingId) -> float | None:
    reading = given.sweep.find(name, given.slot)
    return None if reading is None or reading.error is not None else as_number(reading.value)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value), None)


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value), default=None)


def _generation(given: CheckInput) -> CheckResult:
    """Judge the generation while copies run: without load, links go down to save power."""
    link = given.table(ReadingId.CUDA_H2D).get("link")
    state: dict[str, Any] = link if isinstance(link, dict) else {}
    current, most = as_number(state.get("generation")), as_number(state.get("maxGeneration"))
    if current is None or most is None:
        raise Unmeasured(CheckStatus.UNKNOWN, "the generation of the link cannot be read from sysfs")
    threshold = Threshold(value=most, source=ThresholdSource.SPEC, citation="the maximum of GPU and slot")
    if current < most:
        return failed(f"Gen{current:g} while copies run, Gen{most:g} is possible", current, threshold)
    return passed(f"Gen{current:g} while copies run", current, threshold)


def _memory(given: CheckInput) -> CheckResult:
    found = given.table(ReadingId.CUDA_DAXPY)
    observed = given.field(ReadingId.CUDA_DAXPY, "best")
    peak = memory_peak(given)
    if observed > peak * _IMPOSSIBLE:
        text = f"memory: {observed:.4g} GB/s is more than the peak of {peak:.4g}: the measurement or the peak is wrong"
        raise Unmeasured(CheckStatus.UNKNOWN, text)
    kind = "Gddr" if _loses_to_ecc(given) else ""
    warn, fail = given.threshold(f"warnBelow{kind}"), given.threshold(f"failBelow{kind}")
    return rated("memory", observed, peak, warn, fail, samples=len(found.get("samples") or [0]))


def memory_peak(given: CheckInput) -> float:
    """Return the peak of the memory in GB/s: of the table, else of NVML, else of the driver."""
    gpu = given.peaks.gpu(given.gpu.product)
    if gpu is not None:
        return gpu.bandwidth_gbs
    clock, bits = _read(given, ReadingId.NVML_CLOCK_MEMORY_MAX), _read(given, ReadingId.NVML_MEMORY_BUS_WIDTH)
    if not clock or not bits:
        device = given.sweep.find(ReadingId.CUDA_DEVICE, given.slot)
        facts = device.value if device is not None and isinstance(device.value, dict) else {}
        clock, bits = (as_number(facts.get("memoryClockKhz")) or 0) / 1000, as_number(facts.get("busBits"))
    if not clock or not bits:
        raise Unmeasured(CheckStatus.UNKNOWN, f"the peak of the memory of {given.gpu.product!r} is not known")
    return memory_peak_gbs(clock, bits)


def _loses_to_ecc(given: CheckInput) -> bool:
    """Say whether ECC takes bandwidth: on GDDR memory, unless it is known to be off."""
    gpu = given.peaks.gpu(given.gpu.product)
    if gpu is not None and (gpu.health is None or not gpu.health.gddr):
        return False
    mode = given.sweep.find(ReadingId.NVML_ECC_MODE, given.slot)
    is_known = mode is not None and mode.error is None and isinstance(mode.value, dict)
    return not is_known or mode.value.get("current") != 0  # type: ignore[union-attr]


def _peers(given: CheckInput) -> CheckResult:
    """Judge the slowest copy to another GPU over NVLink; copies through the host are reported and not judged."""
    if given.sweep.find(ReadingId.CUDA_PEER, given.slot) is None and len(given.sweep.gpus) == 1:
        raise Unmeasured(CheckStatus.SKIP, "this node has one GPU")
    found = given.table(ReadingId.CUDA_PEER)
    rates = {peer: as_number(row.get("best")) for peer, row in found.items() if isinstance(row, dict)}
    broken = sorted(peer for peer, rate in rates.items() if rate is None)
    if broken or not rates:
        raise Unmeasured(CheckStatus.UNKNOWN, f"no copy to {', '.join(broken) or 'another GPU'} was measured")
    slowest = min(rates, key=lambda peer: (rates[peer], peer))
    observed = rates[slowest] or 0.0
    limits = given.peaks.limits(given.gpu.product)
    limit = given.threshold("failBelow")
    floor = as_number(limit.value) or (limits.peer_floor_gbs if limits is not None else None)
    message = f"slowest copy to another GPU: {observed:.4g} GB/s, to {slowest}"
    if floor is None:
        return passed(f"{message}; no threshold for this product", observed)
    threshold = _in_gbs(limit, floor)
    if observed < floor:
        return failed(f"{message}, below {floor:g}", observed, threshold)
    return passed(message, observed, threshold)


CHECKS = health_checks(
    "bandwidth",
    {
        "pcie.h2d": lambda given: _direction(given, ReadingId.CUDA_H2D, "to the GPU"),
        "pcie.d2h": lambda given: _direction(given, ReadingId.CUDA_D2H, "from the GPU"),
        "pcie.gen.load": _generation,
        "hbm.bandwidth": _memory,
        "p2p.bandwidth": _peers,
    },
)
