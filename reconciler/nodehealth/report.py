"""The health report of one node, which its agent publishes as the status of a `NodeHealthReport`."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.nodehealth.checks.check import as_number
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.readings import GpuIdentity

NEWEST = 3
_MEASURED = (CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL)
_SAME_SCALE = 0.01


class GpuSeries(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The runs of one check on one GPU since its device, driver or test changed last.

    newest: the last three values, newest last. limit: the agent's warning, in the unit of the values. scale: the whole
    that the limits of the check are parts of.
    """

    newest: tuple[float, ...] = ()
    runs: int = 0
    limit: float = 0.0
    scale: float = 0.0
    rule: int = 1


Measured = Mapping[str, Mapping[str, GpuSeries]]
"""Series by id of the check, then by slot."""


def followed(before: Measured, findings: Iterable[HealthFinding], checks: Collection[str]) -> Measured:
    """Return the series after a heavy run; `checks` are those whose values are kept."""
    after = {check: dict(slots) for check, slots in before.items()}
    for one in findings:
        value = as_number(one.observed)
        if one.check in checks and one.slot and one.profile.weight and one.status in _MEASURED and value is not None:
            slots = after.setdefault(one.check, {})
            slots[one.slot] = _after(slots.get(one.slot), one, value)
    return {check: dict(sorted(slots.items())) for check, slots in sorted(after.items())}


def without_slots(measured: Measured, gone: Collection[str]) -> Measured:
    """Return the series without those of GPUs that were replaced."""
    if not gone:
        return measured
    kept = {check: {slot: one for slot, one in slots.items() if slot not in gone} for check, slots in measured.items()}
    return {check: slots for check, slots in kept.items() if slots}


def _after(before: GpuSeries | None, finding: HealthFinding, value: float) -> GpuSeries:
    series = before if before is not None and _is_same_test(before, finding) else GpuSeries(rule=finding.rule)
    return replace(
        series,
        newest=(*series.newest, significant(value))[-NEWEST:],
        runs=series.runs + 1,
        scale=significant(finding.scale),
        limit=series.limit if finding.status is CheckStatus.FAIL else _limit(finding),
    )


def _limit(finding: HealthFinding) -> float:
    """Return the limit of a warning by which the agent judged; 0 without one."""
    limit = as_number(finding.threshold.value) if finding.threshold is not None else None
    return significant(limit or 0.0)


def _is_same_test(before: GpuSeries, finding: HealthFinding) -> bool:
    """Say whether values compare: the same version of the test, and a link or memory that is as fast as before."""
    return before.rule == finding.rule and math.isclose(before.scale, finding.scale, rel_tol=_SAME_SCALE)


def significant(value: float) -> float:
    """Return a value with four digits: more is noise, and takes room in a report."""
    return float(f"{value:.4g}")


KIND = "NodeHealthReport"
API_VERSION = "gpureconciler.io/v1alpha1"
HEARTBEAT_SECONDS = 120.0
"""The interval of reports while nothing changes. A report older than two and a half of them is stale."""

_MISSED = 2.5
_ORDER = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.WARN, CheckStatus.PASS, CheckStatus.SKIP)


class ProfileRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last run of a profile heavier than light: asked for, running until `deadline` at most, or finished.

    All times are in seconds since the epoch; 0 is "not yet". `level` is the DCGM level that ran, `failed` the checks.
    """

    profile: ProbeProfile
    requested_at: float = 0.0
    started_at: float = 0.0
    deadline: float = 0.0
    finished_at: float = 0.0
    status: CheckStatus = CheckStatus.UNKNOWN
    level: int = 0
    failed: tuple[str, ...] = ()

    def is_running(self, now: float) -> bool:
        """Say whether the run goes on. One that passed its deadline without an end has died."""
        return self.started_at > self.finished_at and now < self.deadline


class GpuUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The use of one GPU up to the sweep of the report. None: nobody tells.

    watts, traffic (bytes a second by PCIe and NVLink): the mean since the sweep before. utilization is in percent.
    occupied: a program holds memory of the GPU. errors: counters of this boot, by name.
    """

    slot: str
    watts: float | None = None
    utilization: float | None = None
    traffic: float | None = None
    occupied: bool | None = None
    errors: Mapping[str, float] = {}


class FailedPreflight(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod on this node whose preflight check did not pass, and the checks that failed; none could not measure."""

    namespace: str
    pod: str
    uid: str
    measured_at: float
    checks: tuple[str, ...] = ()


class NodeReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The findings of one node: everything but PASS and SKIP in full, those two as ids of checks.

    `passed` lists a check that passed wherever no finding says otherwise; `passed_by` the profile of passes that were
    heavier than light. `measured_at` is in seconds since the epoch, of the last sweep; `node_uid` tells a replaced
    node of the same name. `heartbeat_seconds`: how long after `measured_at` the next report comes at the latest.
    `shortened` findings lost their text and `omitted` ones are missing, because the report was too large; the gravest
    come first. `utilization` is that of each GPU by slot, in percent, where the driver tells it; `activity` is what
    detectors of jobs look at, `preflights` the pods of the last hour whose preflight check did not pass. `measured` are
    the series of the heavy runs, by check and slot, whatever the verdict was. `networks` are the addresses of the agent
    by interface, which other agents ping.
    """

    node: str
    measured_at: float
    node_uid: str = ""
    boot_id: str = ""
    driver: str = ""
    version: str = ""  # of the agent
    gpus: tuple[GpuIdentity, ...] = ()
    findings: tuple[HealthFinding, ...] = ()
    passed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    passed_by: Mapping[str, ProbeProfile] = {}
    runs: tuple[ProfileRun, ...] = ()
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    shortened: int = 0
    omitted: int = 0
    utilization: Mapping[str, float] = {}
    activity: tuple[GpuUse, ...] = ()
    preflights: tuple[FailedPreflight, ...] = ()
    address: str = ""  # of the agent's HTTP interface
    measured: Measured = {}
    networks: Mapping[str, str] = {}

    def is_overdue(self, now: float) -> bool:
        """Say whether two and a half heartbeats have passed without a report."""
        return now - self.measured_at > _MISSED * self.heartbeat_seconds

    def run(self, profile: ProbeProfile) -> ProfileRun | None:
        """Return the last run of a profile, or None."""
        return next((run for run in self.runs if run.profile is profile), None)

    @property
    def status(self) -> CheckStatus:
        """The worst status of all checks: FAIL, UNKNOWN, WARN, PASS; UNKNOWN if no check ran."""
        found = {finding.status for finding in self.findings} | ({CheckStatus.PASS} if self.passed else set())
        return next(
            (status for status in _ORDER if status in found and status is not CheckStatus.SKIP), CheckStatus.UNKNOWN
        )


def with_found(report: NodeReport, check: str, found: Sequence[HealthFinding]) -> NodeReport:
    """Return a report with what the controller found of a check: its findings, or the least heavy of its passes."""
    bad = tuple(one for one in found if one.status is not CheckStatus.PASS)
    findings = (*(one for one in report.findings if one.check != check), *bad)
    if bad or not found:
        return replace(report, findings=findings)
    return replace(
        report,
        findings=findings,
        passed=tuple(sorted({*report.passed, check})),
        skipped=tuple(one for one in report.skipped if one != check),
        passed_by={**report.passed_by, check: min((one.profile for one in found), key=lambda one: one.weight)},
    )
