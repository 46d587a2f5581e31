"""Heat, throttling, clocks and power of a GPU."""

from reconciler.nodehealth.checks.check import (
    MINUTE,
    CheckInput,
    CheckResult,
    Unmeasured,
    failed,
    health_checks,
    outcome,
    passed,
)
from reconciler.nodehealth.checks.counters import CounterChange, change, in_a_row, lasting
from reconciler.nodehealth.findings import CheckStatus, Threshold, ThresholdSource
from reconciler.nodehealth.readings import ReadError, ReadingId

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_TEN = 10 * MINUTE


def _margin(given: CheckInput) -> CheckResult:
    margin, slowdown = given.number(ReadingId.NVML_TEMPERATURE_MARGIN), given.number(ReadingId.NVML_MARGIN_LIMIT)
    limit = Threshold(value=slowdown, source=ThresholdSource.VENDOR, citation="NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT")
    text = f"{margin:g} degrees to the limit, slowdown at {slowdown:g}"
    if margin > slowdown + given.limit("warnDegrees"):
        return passed(text, margin, limit)
    count = in_a_row(given, _is_over)
    return outcome(FAIL if count >= given.limit("sweeps") else WARN, text, margin, limit, samples=max(count, 1))


def _is_over(given: CheckInput) -> bool:
    return given.number(ReadingId.NVML_TEMPERATURE_MARGIN) < given.number(ReadingId.NVML_MARGIN_LIMIT)


def _core(given: CheckInput) -> CheckResult:
    """Judge the temperature of GPUs that do not tell their margin, by their own threshold where they have one."""
    margin = given.sweep.find(ReadingId.NVML_TEMPERATURE_MARGIN, given.slot)
    if margin is not None and margin.error is None:
        raise Unmeasured(CheckStatus.SKIP, "temp.margin judges this GPU")
    degrees = given.number(ReadingId.NVML_TEMPERATURE)
    slowdown = given.sweep.find(ReadingId.NVML_TEMPERATURE_SLOWDOWN, given.slot)
    if slowdown is not None and slowdown.error is None:
        hot = given.number(ReadingId.NVML_TEMPERATURE_SLOWDOWN)
        limits = [
            Threshold(value=value, source=ThresholdSource.VENDOR, citation="slowdown threshold of this GPU")
            for value in (hot - given.limit("warnBelowSlowdown"), hot)
        ]
    else:
        limits = [given.threshold("warnDegrees"), given.threshold("failDegrees")]
        given.limit("warnDegrees")
        given.limit("failDegrees")
    return _compare(degrees, *limits)


def _memory(given: CheckInput) -> CheckResult:
    degrees, most = given.number(ReadingId.NVML_MEMORY_TEMPERATURE), given.number(ReadingId.NVML_MEMORY_TEMPERATURE_MAX)
    source, citation = ThresholdSource.VENDOR, "memory threshold of this GPU"
    return _compare(
        degrees,
        Threshold(value=most - given.limit("warnBelowMax"), source=source, citation=citation),
        Threshold(value=most, source=source, citation=citation),
    )


def _compare(degrees: float, warn: Threshold, fail: Threshold) -> CheckResult:
    text = f"{degrees:g} degrees"
    if degrees >= float(fail.value):
        return failed(text, degrees, fail)
    return outcome(WARN if degrees >= float(warn.value) else PASS, text, degrees, warn)


_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _HW_BRAKE = 0x08, 0x20, 0x40, 0x80  # nvmlClocksEventReasons
_HARDWARE = {_HW_THERMAL: ("hw_thermal", "hardware thermal slowdown"), _HW_BRAKE: ("hw_power_brake", "power brake")}
_SOFTWARE = {_SW_THERMAL: ("sw_thermal", "software thermal slowdown"), _HW_SLOWDOWN: ("", "hardware slowdown")}
_FULL_WINDOW = 0.9 * _TEN


def _throttle(given: CheckInput) -> CheckResult:
    """Judge for which part of ten minutes a GPU was slowed down. Idle, set clocks and the power cap are normal."""
    reasons = int(given.number(ReadingId.NVML_CLOCKS_EVENT_REASONS))
    causes: list[tuple[CheckStatus, float, str]] = []
    for names, status, name in ((_HARDWARE, FAIL, "failPercent"), (_SOFTWARE, WARN, "warnPercent")):
        for bit, (counter, text) in names.items():
            percent, seconds = _percent(given, bit, counter)
            if percent > given.limit(name) and seconds >= _FULL_WINDOW:
                causes.append((status, percent, f"{text} for {percent:.0f} % of {seconds / MINUTE:.0f} minutes"))
            elif reasons & bit and bit is not _SW_THERMAL:
                causes.append((WARN, percent, f"{text} now"))
    if not causes:
        return passed("no lasting slowdown", 0)
    status = FAIL if any(each is FAIL for each, _, _ in causes) else WARN
    return outcome(
        status,
        ", ".join(text for _, _, text in causes),
        round(max(percent for _, percent, _ in causes), 1),
        given.threshold("failPercent" if status is FAIL else "warnPercent"),
        samples=len(given.earlier(_TEN)) + 1,
    )


def _percent(given: CheckInput, bit: int, counter: str) -> tuple[float, float]:
    """Return the percentage of time, and the time: by the driver's counter of nanoseconds, else by the sweeps."""
    counted: CounterChange | None = change(given, ReadingId.NVML_VIOLATIONS, counter, seconds=_TEN) if counter else None
    if counted is not None:
        return min(100.0, counted.per_second / 1e9 * 100), counted.seconds
    sweeps = [*given.earlier(_TEN), given.sweep]
    values = [
        reading.value for sweep in sweeps if (reading := sweep.find(ReadingId.NVML_CLOCKS_EVENT_REASONS, given.slot))
    ]
    known = [value for value in values if isinstance(value, int)]
    share = sum(bool(value & bit) for value in known) / len(known) if known else 0.0
    return share * 100, given.sweep.taken_at - sweeps[0].taken_at


_NORMAL = 0x01 | 0x02 | 0x100  # idle, clocks that somebody set, display clocks


def _clock(given: CheckInput) -> CheckResult:
    busy, reasons = (
        given.field(ReadingId.NVML_UTILIZATION, "gpu"),
        int(given.number(ReadingId.NVML_CLOCKS_EVENT_REASONS)),
    )
    if busy <= given.limit("busyPercent"):
        raise Unmeasured(CheckStatus.SKIP, f"the GPU is not busy enough to judge its clock ({busy:g} %)")
    if reasons & ~_NORMAL:
        raise Unmeasured(CheckStatus.SKIP, "the clock is held down for a reason that the driver names")
    percent = _clock_percent(given)
    text = f"{percent:.0f} % of the highest clock while busy"
    if percent >= given.limit("warnPercent"):
        return passed(text, percent, given.threshold("warnPercent"))
    is_lasting = lasting(given, _TEN, lambda each: _clock_percent(each) < given.limit("failPercent"))
    name = "failPercent" if is_lasting else "warnPercent"
    return outcome(FAIL if is_lasting else WARN, text, round(percent, 1), given.threshold(name))


def _clock_percent(given: CheckInput) -> float:
    most = given.number(ReadingId.NVML_CLOCK_SM_MAX)
    if most <= 0:
        raise Unmeasured(CheckStatus.UNKNOWN, "the driver reports no highest clock")
    return given.number(ReadingId.NVML_CLOCK_SM) / most * 100


def _limit(given: CheckInput) -> CheckResult:
    enforced, usual = given.number(ReadingId.NVML_POWER_LIMIT), given.number(ReadingId.NVML_POWER_DEFAULT_LIMIT)
    if usual <= 0:
        raise Unmeasured(CheckStatus.UNKNOWN, "the driver reports no default power limit")
    percent = enforced / usual * 100
    text = f"{enforced / 1000:.0f} W of {usual / 1000:.0f} W"
    for status, name in ((FAIL, "failPercent"), (WARN, "warnPercent")):
        if percent < given.limit(name):
            return outcome(status, text, round(percent, 1), given.threshold(name))
    return passed(text, round(percent, 1), given.threshold("warnPercent"))


def _usage(given: CheckInput) -> CheckResult:
    reading = given.sweep.find(ReadingId.NVML_POWER_USAGE, given.slot)
    if reading is not None and reading.error is ReadError.FAILED:
        count = in_a_row(given, _is_unreadable)
        if count >= given.limit("sweeps"):
            text = f"the power cannot be read ({reading.detail}), {count} sweeps in a row"
            return failed(text, threshold=given.threshold("sweeps"), samples=count)
    watts = given.number(ReadingId.NVML_POWER_USAGE) / 1000
    most = given.number(ReadingId.NVML_POWER_LIMIT) / 1000 * given.limit("overLimit")
    is_odd = not given.limit("leastWatts") <= watts <= most
    least = given.limit("leastWatts")
    text = f"{watts:.0f} W" + (f", outside {least:g} to {most:.0f} W" if is_odd else "")
    return outcome(WARN if is_odd else PASS, text, round(watts, 1))


def _is_unreadable(given: CheckInput) -> bool:
    reading = given.sweep.find(ReadingId.NVML_POWER_USAGE, given.slot)
    return reading is not None and reading.error is ReadError.FAILED


CHECKS = health_checks(
    "thermal",
    {
        "temp.margin": _margin,
        "temp.core": _core,
        "temp.hbm": _memory,
        "throttle": _throttle,
        "clock.locked": _clock,
        "power.limit": _limit,
        "power.read": _usage,
    },
)
