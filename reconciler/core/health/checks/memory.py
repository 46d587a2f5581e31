"""Memory of a GPU: ECC errors, remapped rows, retired pages, repairs."""

from reconciler.core.health.checks.check import (
    DAY,
    CheckInput,
    CheckResult,
    HealthCheck,
    Unmeasured,
)
from reconciler.core.health.checks.counters import change
from reconciler.core.health.findings import CheckStatus, FindingSeverity, RepairAction, Threshold, ThresholdSource
from reconciler.core.health.policy import Lane

PASS, WARN, FAIL = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL
_ERRORS_DOC = "NVIDIA, A100 GPU Memory Error Management"


def _vendor(value: float, citation: str) -> Threshold:
    return Threshold(value=value, source=ThresholdSource.VENDOR, citation=citation)


def _rows(given: CheckInput, key: str) -> int:
    """Return a part of the remapped rows. With MIG on, NVML has none: SKIP, whatever it returns."""
    mig = given.sweep.find("nvml.mig_mode", given.slot)
    if mig is not None and isinstance(mig.value, dict) and mig.value.get("current") == 1:
        raise Unmeasured(CheckStatus.SKIP, "remapped rows cannot be read while MIG is on")
    return int(given.field("nvml.remapped_rows", key))


def _pending(given: CheckInput) -> CheckResult:
    if _rows(given, "pending"):
        return CheckResult(
            status=WARN,
            message="rows wait for a remap at the next reset; work may go on",
            observed=1,
            action=RepairAction.RESET_GPU,
        )
    return CheckResult(status=PASS, message="no row waits for a remap", observed=0)


def _failure(given: CheckInput) -> CheckResult:
    if _rows(given, "failure"):
        return CheckResult(status=FAIL, message="a row could not be remapped: the GPU is to be replaced", observed=1)
    return CheckResult(status=PASS, message="no remap failed", observed=0)


def _remap_count(given: CheckInput) -> CheckResult:
    count = _rows(given, "uncorrected")
    if count >= given.limit("rows"):
        return CheckResult(
            status=WARN, message=f"{count} rows remapped", observed=count, threshold=given.threshold("rows")
        )
    grown = change(given, "nvml.remapped_rows", "uncorrected", seconds=7 * DAY)
    if grown is not None and grown.difference >= given.limit("rowsInAWeek"):
        return CheckResult(
            status=WARN,
            message=f"{grown.difference:g} rows remapped within {grown.seconds / DAY:.1f} days",
            observed=count,
            threshold=given.threshold("rowsInAWeek"),
            samples=grown.samples,
        )
    return CheckResult(status=PASS, message=f"{count} rows remapped", observed=count, threshold=given.threshold("rows"))


CHECKS = (
    HealthCheck(
        id="remap.pending",
        title="No memory row waits for a remap",
        judge=_pending,
        reads=("nvml.remapped_rows", "nvml.mig_mode"),
        action=RepairAction.RESET_GPU,
        unit="flag",
    ),
    HealthCheck(
        id="remap.failure",
        title="No remap of a memory row failed",
        judge=_failure,
        reads=("nvml.remapped_rows", "nvml.mig_mode"),
        severity=FindingSeverity.FATAL,
        action=RepairAction.CONTACT_SUPPORT,
        lane=Lane.FAST,
        unit="flag",
    ),
    HealthCheck(
        id="remap.count",
        title="Few memory rows were remapped for uncorrectable errors",
        judge=_remap_count,
        reads=("nvml.remapped_rows", "nvml.mig_mode"),
        limits={
            "rows": _vendor(512, "DCGM, row remap limit"),
            "rowsInAWeek": Threshold(value=8, source=ThresholdSource.SPEC),
        },
        window=7 * DAY,
        unit="rows",
    ),
)
