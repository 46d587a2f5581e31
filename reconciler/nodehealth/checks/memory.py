"""Memory of a GPU: ECC errors, remapped rows, retired pages, repairs."""

from reconciler.kube.values import plural
from reconciler.nodehealth.checks.check import (
    DAY,
    HOUR,
    CheckInput,
    CheckResult,
    Unmeasured,
    failed,
    health_checks,
    outcome,
    passed,
    warned,
)
from reconciler.nodehealth.checks.counters import change, since_zero
from reconciler.nodehealth.findings import CheckStatus, RepairAction
from reconciler.nodehealth.readings import ReadingId

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL


def _ecc_mode(given: CheckInput) -> CheckResult:
    current, pending = (int(given.field(ReadingId.NVML_ECC_MODE, key)) for key in ("current", "pending"))
    if current != pending:
        return warned("the ECC mode changes at the next reset", _ON[bool(current)])
    if not current and any(word in given.gpu.product for word in _WITHOUT_ECC):
        raise Unmeasured(CheckStatus.SKIP, "this product is sold without ECC, or with ECC off")
    return outcome(PASS if current else WARN, f"ECC is {_ON[bool(current)]}", _ON[bool(current)])


_WITHOUT_ECC = ("GeForce", "TITAN", "RTX", "Quadro")
_ON = {True: "on", False: "off"}


def _uncorrected(given: CheckInput) -> CheckResult:
    """Judge uncorrected errors by what the driver makes of them: it contains most, and asks for a reset otherwise."""
    count = int(given.number(ReadingId.NVML_ECC_UNCORRECTED))
    if count == 0:
        return passed("no uncorrected memory errors since the driver was loaded", 0)
    grown = change(given, ReadingId.NVML_ECC_UNCORRECTED, seconds=DAY)
    if given.maybe(ReadingId.NVML_RECOVERY_ACTION) or given.maybe(ReadingId.NVML_REMAPPED_ROWS, "failure"):
        text = "and the driver asks for a recovery, or a remap failed"
        return failed(f"{plural(count, 'uncorrected memory error')}, {text}", count)
    if grown is not None and grown.difference >= given.limit("errorsInADay"):
        return failed(
            f"{plural(grown.difference, 'uncorrected memory error')} within {grown.seconds / HOUR:.1f} hours",
            count,
            given.threshold("errorsInADay"),
            samples=grown.samples,
        )
    text = "contained: the driver asks for no recovery"
    return warned(f"{plural(count, 'uncorrected memory error')}, {text}", count)


def _sram(given: CheckInput) -> CheckResult:
    flag = given.field(ReadingId.NVML_SRAM_ECC, "bThresholdExceeded")
    uncorrected = given.field(ReadingId.NVML_SRAM_ECC, "volatileUncParity") + given.field(
        ReadingId.NVML_SRAM_ECC, "volatileUncSecDed"
    )
    corrected = given.field(ReadingId.NVML_SRAM_ECC, "aggregateCor")
    if flag:
        return failed("uncorrected SRAM errors exceed the vendor's threshold: run the field diagnostic", uncorrected)
    if uncorrected > 0:
        return warned(f"{uncorrected:g} uncorrected SRAM errors since the driver was loaded", uncorrected)
    if corrected > given.limit("corrected"):
        return warned(f"{corrected:g} corrected SRAM errors in its lifetime", corrected, given.threshold("corrected"))
    return passed("no uncorrected SRAM errors", uncorrected)


def _corrected(given: CheckInput) -> CheckResult:
    """Judge the rate alone: it never fails, and an old total says nothing."""
    grown = since_zero(given, ReadingId.NVML_ECC_CORRECTED, seconds=HOUR)
    an_hour = grown.difference / max(grown.seconds, HOUR) * HOUR
    if an_hour > given.limit("errorsAnHour"):
        status, text = WARN, f"{an_hour:.0f} corrected memory errors an hour"
    else:
        status, text = PASS, f"{an_hour:.0f} corrected memory errors an hour"
    return outcome(status, text, an_hour, given.threshold("errorsAnHour"), samples=grown.samples)


def _banks(given: CheckInput) -> CheckResult:
    none, low = (int(given.field(ReadingId.NVML_ROW_HISTOGRAM, key)) for key in ("none", "low"))
    if none and given.maybe(ReadingId.NVML_REMAPPED_ROWS, "pending"):
        return failed(f"{none} banks have no spare rows left, and a remap is pending", none)
    if none or low:
        return warned(f"{none} banks have no spare rows left, {low} have few", none + low)
    return passed("all banks have spare rows", 0)


def _retired(given: CheckInput) -> CheckResult:
    single, double, pending = (int(given.field(ReadingId.NVML_RETIRED_PAGES, key)) for key in _PAGES)
    pages = single + double
    if pages >= given.limit("failPages") or (pages >= given.limit("failPages") - 1 and pending):
        return failed(f"{plural(pages, 'page')} retired", pages, given.threshold("failPages"))
    if pages >= given.limit("warnPages") or pending:
        return warned(
            f"{plural(pages, 'page')} retired{', more at the next reset' if pending else ''}",
            pages,
            given.threshold("warnPages"),
        )
    return passed(f"{plural(pages, 'page')} retired", pages, given.threshold("warnPages"))


_PAGES = ("single_bit", "double_bit", "pending")


def _repair(given: CheckInput) -> CheckResult:
    """Judge the repair of channels and the flag of memory beyond repair; either is enough to warn or fail."""
    beyond = given.maybe(ReadingId.NVML_UNREPAIRABLE)
    if beyond:
        return failed("memory is beyond repair: replace the GPU", 1)
    channel, tpc = (int(given.field(ReadingId.NVML_REPAIR, key)) for key in ("channel_pending", "tpc_pending"))
    if channel or tpc:
        return warned("a repair waits for the next reset", 0, action=RepairAction.RESET_GPU)
    return passed("no repair is pending", 0)


def _rows(given: CheckInput, key: str) -> int:
    """Return a part of the remapped rows. With MIG on, NVML has none: SKIP, whatever it returns."""
    if given.is_mig:
        raise Unmeasured(CheckStatus.SKIP, "remapped rows cannot be read while MIG is on")
    return int(given.field(ReadingId.NVML_REMAPPED_ROWS, key))


def _pending(given: CheckInput) -> CheckResult:
    if _rows(given, "pending"):
        return warned("rows wait for a remap at the next reset; work can continue", 1, action=RepairAction.RESET_GPU)
    return passed("no row waits for a remap", 0)


def _failure(given: CheckInput) -> CheckResult:
    if _rows(given, "failure"):
        return failed("a row could not be remapped: replace the GPU", 1)
    return passed("no remap failed", 0)


def _remap_count(given: CheckInput) -> CheckResult:
    count = _rows(given, "uncorrected")
    if count >= given.limit("rows"):
        return warned(f"{plural(count, 'row')} remapped", count, given.threshold("rows"))
    # Remapped rows stay so.
    grown = change(given, ReadingId.NVML_REMAPPED_ROWS, "uncorrected", seconds=7 * DAY, any_boot=True)
    if grown is not None and grown.difference >= given.limit("rowsInAWeek"):
        return warned(
            f"{plural(grown.difference, 'row')} remapped within {grown.seconds / DAY:.1f} days",
            count,
            given.threshold("rowsInAWeek"),
            samples=grown.samples,
        )
    return passed(f"{plural(count, 'row')} remapped", count, given.threshold("rows"))


CHECKS = health_checks(
    "memory",
    {
        "ecc.mode": _ecc_mode,
        "ecc.dram.unc.volatile": _uncorrected,
        "ecc.sram": _sram,
        "ecc.dram.corr.rate": _corrected,
        "remap.pending": _pending,
        "remap.failure": _failure,
        "remap.count": _remap_count,
        "remap.banks": _banks,
        "retired.pages": _retired,
        "mem.repair": _repair,
    },
)
