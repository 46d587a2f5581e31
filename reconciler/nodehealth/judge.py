"""Readings in, findings out: run the checks of the catalogue over a sweep. One finding for each check and subject."""

from collections.abc import Collection, Mapping, Sequence

from reconciler.nodehealth.catalogue import CHECKS
from reconciler.nodehealth.checks.check import CheckInput, CheckResult, CheckScope, HealthCheck, Unmeasured
from reconciler.nodehealth.findings import (
    CheckStatus,
    FindingSeverity,
    HealthFinding,
    ProbeProfile,
    RepairAction,
    Threshold,
)
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readings import GpuIdentity, ReadingId, Sweep
from reconciler.nodehealth.xids import NO_XIDS, XidTable
from reconciler.sizing.peaks import NO_PEAKS, PeakTable

Limits = Mapping[str, Mapping[str, Threshold]]
"""Thresholds of a policy: by id of the check, then by name. Those that it does not name stay as in the catalogue."""

_NODE = GpuIdentity(slot="")


def judge(
    sweep: Sweep,
    *,
    history: Sequence[Sweep] = (),
    limits: Mapping[str, Mapping[str, Threshold]] | None = None,
    expected: NodeExpectation = NodeExpectation(),  # noqa: B008 - a frozen value
    xids: XidTable = NO_XIDS,
    peaks: PeakTable = NO_PEAKS,
    profile: ProbeProfile = ProbeProfile.LIGHT,
    only: Collection[str] = (),
    also: Collection[str] = (),
) -> tuple[HealthFinding, ...]:
    """Return the findings of all checks of a profile (or of the ids in `only`), in the order of the catalogue.

    `also` are checks of heavier profiles.
    """
    chosen = [check for check in CHECKS if _applies(check, sweep, profile, only) or (check.id in also and not only)]
    history, xids = sorted(history, key=lambda earlier: earlier.taken_at), xids.escalated(expected.xids)
    findings: list[HealthFinding] = []
    for check in chosen:
        merged = {**check.limits, **((limits or {}).get(check.id, {}))}
        for gpu in _subjects(check, sweep):
            subject = CheckInput(
                sweep=sweep, slot=gpu.slot, limits=merged, history=history, expected=expected, xids=xids, peaks=peaks
            )
            findings.append(_finding(check, gpu, _run(check, subject)))
    return tuple(findings)


def _applies(check: HealthCheck, sweep: Sweep, profile: ProbeProfile, only: Collection[str]) -> bool:
    if check.vendor not in ("", sweep.vendor):
        return False
    return check.id in only if only else check.profile.weight <= profile.weight


def _subjects(check: HealthCheck, sweep: Sweep) -> Sequence[GpuIdentity]:
    """Return the GPUs to judge; the node where it is the subject, or where no GPU could be read."""
    return sweep.gpus if check.scope is CheckScope.GPU and sweep.gpus else (_NODE,)


def _run(check: HealthCheck, subject: CheckInput) -> CheckResult:
    try:
        if check.scope is CheckScope.GPU and not subject.slot:
            raise _no_gpus(subject)
        return check.judge(subject)
    except Unmeasured as unmeasured:
        if check.vendor and check.id != "nvml.init" and _has_no_gpus(subject):
            return CheckResult(status=CheckStatus.SKIP, message=_NO_GPU)
        return CheckResult(status=unmeasured.status, message=str(unmeasured))


def _no_gpus(subject: CheckInput) -> Unmeasured:
    """Say why no GPU could be judged: SKIP where there is none, UNKNOWN where one is expected or nothing is known."""
    if _has_no_gpus(subject):
        return Unmeasured(CheckStatus.SKIP, _NO_GPU)
    reason = subject.sweep.find(ReadingId.AMDSMI_INIT if subject.sweep.vendor == "amd" else ReadingId.NVML_INIT)
    detail = f": {reason.detail}" if reason is not None and reason.detail else ""
    return Unmeasured(CheckStatus.UNKNOWN, f"no GPU could be read{detail}")


_NO_GPU = "this node has no GPU"


def _has_no_gpus(subject: CheckInput) -> bool:
    cards = subject.sweep.find(ReadingId.SYSFS_PCI_GPUS)
    has_none = cards is not None and cards.value == [] and cards.error is None
    return not subject.sweep.gpus and (subject.expected.gpus == 0 or (has_none and not subject.expected.gpus))


def _finding(check: HealthCheck, gpu: GpuIdentity, result: CheckResult) -> HealthFinding:
    severity, action = weigh(check, result)
    return HealthFinding(
        check=check.id,
        status=result.status,
        message=result.message,
        slot=gpu.slot,
        uuid=gpu.uuid,
        severity=severity,
        action=action,
        observed=result.observed,
        unit=check.unit if result.observed is not None else "",
        threshold=result.threshold,
        profile=check.profile,
        rule=check.rule,
        samples=result.samples,
        scale=result.scale,
        since=result.since,
        codes=result.codes,
    )


def weigh(check: HealthCheck, result: CheckResult) -> tuple[FindingSeverity, RepairAction]:
    """Return severity and action: those of the row for a failure. A warning is degraded at most, and is observed."""
    if result.status is CheckStatus.FAIL:
        return result.severity or check.severity, result.action or check.action
    if result.status is CheckStatus.WARN:
        usual = FindingSeverity.DEGRADED if check.severity is FindingSeverity.FATAL else check.severity
        return result.severity or usual, result.action or RepairAction.OBSERVE
    return FindingSeverity.INFO, RepairAction.NONE
