"""A new sweep and the report before it become the next report: what stays, what is cleared, what is worth a write."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.nodehealth.catalogue import BY_ID, RECORDED
from reconciler.nodehealth.checks.check import as_number
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile, clears
from reconciler.nodehealth.readings import GpuIdentity, ReadingId, Sweep
from reconciler.nodehealth.report import GpuUse, Measured, NodeReport, ProfileRun, followed, without_slots

OUT_OF_ORDER_SECONDS = 600.0
"""An older measurement is dropped, unless the report is this far ahead: then a clock was wrong, not the order."""

YOUNG_SECONDS = 180.0
"""Seconds for which a new failure is repeated with every sweep, so that readers see it confirmed."""

DCGM_LEVEL = "dcgm.level"
"""The checks of DCGM, without their level."""

_LEVELS = (1, 2, 3, 4)  # of `dcgmi diag -r`
_LISTED = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.WARN)


class SweepResult(Struct, frozen=True, kw_only=True):
    """One sweep and everything that the checks of a profile said about it, PASS and SKIP too; how GPUs were used.

    is_partial: only some checks of the profile ran, and nothing is said about the others.
    """

    sweep: Sweep
    findings: tuple[HealthFinding, ...]
    profile: ProbeProfile = ProbeProfile.LIGHT
    activity: tuple[GpuUse, ...] = ()
    is_partial: bool = False


def merged(previous: NodeReport | None, result: SweepResult, **identity: object) -> NodeReport:
    """Return the next report of a node. `identity` sets fields of the report that no sweep knows, such as `version`.

    A failure ends only by a pass of the same check on the same GPU in an equal or heavier profile, or when the GPU was
    replaced. An older measurement than the report changes nothing; of a heavy run, which takes its time, only what no
    light sweep can measure counts then.
    """
    sweep = result.sweep
    before = previous if previous is not None and _is_same_node(previous, identity) else None
    is_late = before is not None and 0 < before.measured_at - sweep.taken_at <= OUT_OF_ORDER_SECONDS
    if before is not None and is_late and not result.profile.weight:
        return before
    told = (_continued(one, before, sweep) for one in result.findings if one.profile.weight or not is_late)
    fresh = {one.key: one for one in told}
    kept = (
        {old.key: old for old in before.findings if _stays(old, fresh.get(old.key), before, result)} if before else {}
    )
    listed = {key: finding for key, finding in fresh.items() if finding.status in _LISTED} | kept
    findings = tuple(_since(listed[key], before, sweep.taken_at) for key in sorted(listed))
    passed = {one.check for one in fresh.values() if one.status is CheckStatus.PASS}
    if before is not None and result.profile.weight:
        passed |= set(before.passed) - {one.check for one in fresh.values()}
    heavy = _heavy_passes(before, passed, result)
    passed |= heavy.keys()
    skipped = {one.check for one in result.findings if one.status is CheckStatus.SKIP}
    if before is not None and result.is_partial:
        skipped |= set(before.skipped) - {one.check for one in fresh.values()}
    skipped -= passed
    skipped -= {finding.check for finding in findings}
    report = NodeReport(
        node=sweep.node,
        measured_at=before.measured_at if before is not None and is_late else sweep.taken_at,
        boot_id=sweep.boot_id,
        driver=sweep.driver,
        gpus=sweep.gpus or _known_gpus(before, sweep),
        findings=findings,
        passed=tuple(sorted(passed)),
        skipped=tuple(sorted(skipped)),
        passed_by=heavy,
        runs=before.runs if before else (),
        utilization=before.utilization if before is not None and is_late else _utilization(sweep),
        preflights=before.preflights if before is not None else (),
        activity=before.activity if before is not None and is_late else result.activity,
        measured=_measured(before, result),
    )
    return replace(report, **identity)


def with_run(report: NodeReport, run: ProfileRun) -> NodeReport:
    """Return the report with the last run of a profile replaced."""
    others = [one for one in report.runs if one.profile is not run.profile]
    return replace(report, runs=tuple(sorted([*others, run], key=lambda one: (one.profile.weight, one.profile))))


REQUIRED = frozenset({"compute.checksum", "hbm.bandwidth"})
"""The heavy checks that every GPU must pass, besides those that its product has: without them nothing was tested."""


def finished(run: ProfileRun, findings: Iterable[HealthFinding], at: float) -> ProfileRun:
    """Return a run that has ended with these findings. Only heavy checks count, and all GPUs must have been tested.

    A run is UNKNOWN if a required check did not pass on a GPU; a failure of any check says enough.
    """
    listed = list(findings)
    found = [one for one in listed if one.status is not CheckStatus.SKIP and one.profile.weight]
    slots = {one.slot for one in listed if one.slot} or {""}
    good = {one.key for one in found if one.status in (CheckStatus.PASS, CheckStatus.WARN)}
    wanted = {(check, slot) for check in REQUIRED for slot in slots}
    is_short = run.profile.weight >= ProbeProfile.DEEP.weight and not wanted <= good
    statuses = {one.status for one in found} | ({CheckStatus.UNKNOWN} if is_short or not found else set())
    failed = {one.check for one in found if one.status is CheckStatus.FAIL or _failed_test(one)}
    measured = {one.check for one in found if one.status is not CheckStatus.UNKNOWN}
    level = max((number for number in _LEVELS if f"{DCGM_LEVEL}{number}" in measured), default=0)
    outcome = next((one for one in (*_LISTED, CheckStatus.PASS) if one in statuses), CheckStatus.UNKNOWN)
    return replace(run, finished_at=at, status=outcome, level=level, failed=tuple(sorted(failed)))


def _failed_test(finding: HealthFinding) -> bool:
    """Say whether a test of DCGM failed that makes no GPU unusable."""
    is_dcgm = finding.check.startswith(DCGM_LEVEL)
    return is_dcgm and finding.status is CheckStatus.WARN and finding.message.startswith("failed")


def is_worth_writing(before: NodeReport | None, after: NodeReport) -> bool:
    """Say whether a report must be written: it has news, confirms a young failure, or its heartbeat is due."""
    if before is None or content(before) != content(after):
        return True
    if youngest_failure(after) < YOUNG_SECONDS and after.measured_at > before.measured_at:
        return True
    return not 0 <= after.measured_at - before.measured_at < after.heartbeat_seconds


def youngest_failure(report: NodeReport) -> float:
    """Return how many seconds ago the last failure began; infinite without one."""
    ages = (report.measured_at - one.since for one in report.findings if one.status is CheckStatus.FAIL)
    return min(ages, default=float("inf"))


def content(report: NodeReport) -> NodeReport:
    """Return what a report says, without its time and without values that change from sweep to sweep."""
    findings = tuple(replace(one, observed=None, samples=1, message="") for one in report.findings)
    return replace(report, measured_at=0.0, findings=findings, utilization={}, activity=(), measured={})


def _measured(before: NodeReport | None, result: SweepResult) -> Measured:
    """Return the series of the heavy runs: those so far of the same GPUs under the same driver, and this run."""
    sweep, known = result.sweep, before.measured if before is not None else {}
    if before is not None and before.driver and sweep.driver and before.driver != sweep.driver:
        known = {}
    before_by_slot = {gpu.slot: gpu.uuid for gpu in (before.gpus if before is not None else ())}
    gone = {gpu.slot for gpu in sweep.gpus if gpu.uuid and before_by_slot.get(gpu.slot, gpu.uuid) not in ("", gpu.uuid)}
    known = without_slots(known, gone)
    return followed(known, result.findings, RECORDED) if result.profile.weight else known


def _heavy_passes(before: NodeReport | None, passed: set[str], result: SweepResult) -> dict[str, ProbeProfile]:
    """Return the checks that passed in a profile heavier than light, now or before, while the same GPUs are there."""
    known = {gpu.uuid for gpu in before.gpus} if before else set()
    present = {gpu.uuid for gpu in result.sweep.gpus}
    found = dict(before.passed_by) if before and (not present or present <= known) else {}
    if result.profile.weight:
        measured = {one.check for one in result.findings if one.status is not CheckStatus.SKIP}
        found = {check: profile for check, profile in found.items() if check not in measured or check in passed}
        own = {one.check: one.profile for one in result.findings if one.profile.weight}
        found |= {check: own[check] for check in passed & measured & own.keys()}
    return dict(sorted(found.items()))


def _is_same_node(previous: NodeReport, identity: dict[str, object]) -> bool:
    """Say whether this is still the node of the report: one replaced under its name inherits nothing."""
    uid = identity.get("node_uid", "")
    return not (uid and previous.node_uid and uid != previous.node_uid)


def _continued(finding: HealthFinding, before: NodeReport | None, sweep: Sweep) -> HealthFinding:
    """Return a pass where a log that begins late begins after the report said that all was well."""
    if finding.status is not CheckStatus.UNKNOWN or not finding.since or before is None or not _is_log(finding):
        return finding
    is_known = before.boot_id == sweep.boot_id and before.measured_at >= finding.since
    listed = any(one.key == finding.key for one in before.findings)
    is_good = is_known and finding.check in before.passed and not listed
    return replace(finding, status=CheckStatus.PASS, since=0.0) if is_good else finding


def _is_log(finding: HealthFinding) -> bool:
    return finding.check in BY_ID and BY_ID[finding.check].is_log


def _is_unended(old: HealthFinding, new: HealthFinding, *, rebooted: bool) -> bool:
    """Say whether a failure that a log told stands: the log is silent by now, and tells of no reset since."""
    if rebooted or old.status is not CheckStatus.FAIL or not _is_log(old):
        return False
    if new.status is CheckStatus.WARN:
        return bool(old.codes) and not set(old.codes) <= set(new.codes)
    return new.status is CheckStatus.PASS and new.since <= old.since


def _stays(old: HealthFinding, new: HealthFinding | None, before: NodeReport, result: SweepResult) -> bool:
    """Say whether an earlier finding outlives a new sweep."""
    if _was_replaced(old, result.sweep.gpus):
        return False
    if new is None:  # not measured: switched off if a sweep of its profile says nothing about it
        return result.is_partial or old.profile.weight != result.profile.weight
    rebooted = bool(before.boot_id and result.sweep.boot_id and before.boot_id != result.sweep.boot_id)
    if _is_unended(old, new, rebooted=rebooted):
        return True
    is_heavier = old.profile.weight > new.profile.weight
    match new.status:
        case CheckStatus.PASS:
            return not clears(new, old)
        case CheckStatus.FAIL | CheckStatus.WARN:
            return is_heavier and old.status is not CheckStatus.UNKNOWN
    return is_heavier or (old.status is CheckStatus.FAIL and not rebooted)


def _was_replaced(old: HealthFinding, gpus: Sequence[GpuIdentity]) -> bool:
    """Say whether another GPU is in the slot by now."""
    return any(gpu.slot == old.slot and old.uuid and gpu.uuid and gpu.uuid != old.uuid for gpu in gpus)


def _since(finding: HealthFinding, before: NodeReport | None, now: float) -> HealthFinding:
    """Return the finding with the time at which its status began."""
    for old in before.findings if before else ():
        if old.key == finding.key and old.status is finding.status:
            return finding if finding.since == old.since else replace(finding, since=old.since or now)
    return finding if finding.since else replace(finding, since=now)


def _utilization(sweep: Sweep) -> dict[str, float]:
    """Return how busy each GPU is, in percent; one whose driver does not tell it is missing."""
    found = {
        one.slot: one.value.get("gpu") for one in sweep.all(ReadingId.NVML_UTILIZATION) if isinstance(one.value, dict)
    }
    return {slot: number for slot, value in sorted(found.items()) if (number := as_number(value)) is not None}


def _known_gpus(before: NodeReport | None, sweep: Sweep) -> tuple[GpuIdentity, ...]:
    """Return the GPUs of the last report while none answers in the same boot: they are not gone, only silent."""
    return before.gpus if before is not None and before.boot_id == sweep.boot_id else ()
