"""PCIe: width and generation of the link, replays and errors."""

import math

from reconciler.nodehealth.checks.check import (
    MINUTE,
    CheckInput,
    CheckResult,
    Unmeasured,
    failed,
    health_checks,
    outcome,
    passed,
    warned,
)
from reconciler.nodehealth.checks.counters import in_a_row, since_zero
from reconciler.nodehealth.findings import CheckStatus, Threshold, ThresholdSource
from reconciler.nodehealth.readings import ReadingId

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_TRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # GT/s of one lane
_ERRORS_PER_TRANSFER = 0.06  # replays a minute of one lane at 1 GT/s: a bit error rate of 1e-12
_BIT_ERRORS = "DCGM, replays at a bit error rate of 1e-12"
_NARROW = ("GH200", "GB200", "GB300")  # the processor is reached by C2C; PCIe has one lane


def _width(given: CheckInput) -> CheckResult:
    current, wanted = int(given.number(ReadingId.NVML_PCIE_WIDTH)), given.expected.pcie_width
    limit, said_by = given.expected_limit(wanted), given.expected.said_by
    if wanted is None:
        most, said_by = int(given.number(ReadingId.NVML_PCIE_MAX_WIDTH)), ""
        wanted = 1 if any(name in given.gpu.product for name in _NARROW) else most
        limit = Threshold(value=wanted, source=ThresholdSource.VENDOR, citation="the maximum of GPU and slot")
    if wanted <= 0 or current <= 0:
        raise Unmeasured(CheckStatus.UNKNOWN, f"the driver reports a width of {current} of {wanted} lanes")
    status = FAIL if current < wanted else PASS
    return outcome(status, f"{current} of {wanted} lanes{said_by}", current, limit)


def _is_slow(given: CheckInput) -> bool:
    """Say whether the link is slower than it can be while the GPU works: an idle link saves power."""
    return (
        _generation(given) < _best_generation(given)
        and given.number(ReadingId.NVML_PERFORMANCE_STATE) == 0
        and given.field(ReadingId.NVML_UTILIZATION, "gpu") > 0
    )


def _generation(given: CheckInput) -> int:
    return int(given.number(ReadingId.NVML_PCIE_GENERATION))


def _best_generation(given: CheckInput) -> int:
    return int(min(given.number(ReadingId.NVML_PCIE_MAX_GENERATION), given.number(ReadingId.NVML_PCIE_GPU_GENERATION)))


def _speed(given: CheckInput) -> CheckResult:
    current, best = _generation(given), _best_generation(given)
    limit = Threshold(value=best, source=ThresholdSource.VENDOR, citation="the maximum of GPU and slot")
    if current >= best:
        return passed(f"generation {current}", current, limit)
    if not _is_slow(given):
        raise Unmeasured(CheckStatus.SKIP, f"generation {current} of {best}, but the GPU is idle: the link saves power")
    count = in_a_row(given, _is_slow)
    if count < given.limit("sweeps"):
        text = f"generation {current} of {best} while the GPU works, in {count} sweeps"
        raise Unmeasured(CheckStatus.UNKNOWN, f"{text}; {given.limit('sweeps'):g} sweeps trigger a warning")
    return warned(f"generation {current} of {best} while the GPU works", current, limit, samples=count)


def most_replays(generation: int, width: int) -> int | None:
    """Return how many replays a minute a sound link has at most: 8, 16, 31 and 62 for x16 of generation 3 to 6."""
    transfers = _TRANSFERS.get(generation)
    return math.ceil(transfers * width * _ERRORS_PER_TRANSFER) if transfers and width > 0 else None


def _replays(given: CheckInput) -> CheckResult:
    limit = most_replays(_best_generation(given), int(given.number(ReadingId.NVML_PCIE_WIDTH)))
    if limit is None:
        raise Unmeasured(CheckStatus.UNKNOWN, "the driver reports a link that PCIe does not have")
    grown = since_zero(given, ReadingId.NVML_PCIE_REPLAYS, seconds=10 * MINUTE)
    a_minute = grown.difference / max(grown.seconds, MINUTE) * MINUTE
    threshold = Threshold(value=limit, source=ThresholdSource.VENDOR, citation=_BIT_ERRORS)
    most = limit * given.limit("failFactor")
    is_failure = a_minute > most and grown.seconds >= 9 * MINUTE
    status = FAIL if is_failure else WARN if a_minute > limit else PASS
    return outcome(status, f"{a_minute:.1f} replays a minute", round(a_minute, 3), threshold, samples=grown.samples)


def _errors(given: CheckInput) -> CheckResult:
    errors = given.table(ReadingId.NVML_PCIE_ERRORS)
    if "fatal" in errors and given.field(ReadingId.NVML_PCIE_ERRORS, "fatal") > 0:
        fatal = int(given.field(ReadingId.NVML_PCIE_ERRORS, "fatal"))
        return failed(f"{fatal} fatal PCIe errors", fatal)
    grown = since_zero(given, ReadingId.NVML_PCIE_ERRORS, "correctable", seconds=10 * MINUTE)
    a_minute = grown.difference / max(grown.seconds, MINUTE) * MINUTE
    status = WARN if a_minute > given.limit("correctableAMinute") else PASS
    return outcome(
        status,
        f"{a_minute:.1f} correctable PCIe errors a minute",
        round(a_minute, 3),
        given.threshold("correctableAMinute"),
        samples=grown.samples,
    )


CHECKS = health_checks(
    "pcie", {"pcie.width": _width, "pcie.gen": _speed, "pcie.replay": _replays, "pcie.errors": _errors}
)
