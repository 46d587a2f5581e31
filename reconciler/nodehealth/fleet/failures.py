"""The failures of a node: what its reports say, kept as it was seen, and what the policy of today makes of it."""

from collections.abc import Mapping
from zlib import crc32

from msgspec.structs import replace

from reconciler.nodehealth.catalogue import BY_ID
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.fleet.state import CheckFailure, NodeState
from reconciler.nodehealth.merging import DCGM_LEVEL
from reconciler.nodehealth.policy import CheckMode, CheckRule, HealthPolicy, Lane
from reconciler.nodehealth.report import NodeReport

SKEW = 120.0
"""Seconds that the clock of a node may be ahead. A report from further ahead is not believed."""

UNLISTED = CheckRule(mode=CheckMode.SHADOW, lane=Lane.REVIEWED)
"""The rule of a check that neither the policy nor the catalogue knows."""

Rules = Mapping[str, CheckRule]
_LONGEST_DELAY = 86400.0
_MOST_FLAPS = 9
_BAD = (CheckStatus.FAIL, CheckStatus.WARN)


def is_new(state: NodeState, report: NodeReport, now: float) -> bool:
    """Say whether a report says anything new: not the same again, not an older one, not one from the future."""
    return state.measured_at < report.measured_at <= now + SKEW


def absorb(state: NodeState, report: NodeReport, policy: HealthPolicy, defaults: Rules, now: float) -> NodeState:
    """Return the state with the failures as the report leaves them. The report must be new."""
    gpus = {gpu.slot: gpu.uuid for gpu in report.gpus} if report.gpus else {}
    is_whole = len(gpus) >= len(state.gpus)
    flaps = {check: times for check, times in state.flaps.items() if now - times[-1] < policy.lifecycle.return_window}
    failures = (
        _updated(state, report, policy, defaults, gpus=gpus, flaps=flaps) if state.failures or report.findings else ()
    )
    tested_at = _tested_at(report)
    is_validated = tested_at and not any(one.is_failing and one.acts for one in failures)
    return replace(
        state,
        uid=report.node_uid or state.uid,
        boot_id=report.boot_id or state.boot_id,
        measured_at=report.measured_at,
        received_at=now,
        gpus=gpus if is_whole else {**state.gpus, **gpus},  # one that is missing is not forgotten
        failures=failures,
        flaps=flaps,
        validated_at=tested_at if is_validated else state.validated_at,
    )


def _tested_at(report: NodeReport) -> float:
    """Return when the last deep run ended that tested what its GPUs need; 0 without one.

    An old pass that later reports repeat validates nothing anew, nor do single heavy checks that somebody asked for,
    nor a run that could not measure.
    """
    deep = [run for run in report.runs if run.profile.weight >= ProbeProfile.DEEP.weight]
    last = max(deep, key=lambda run: run.finished_at, default=None)
    is_odd = any(one.check.startswith(DCGM_LEVEL) and one.status is CheckStatus.WARN for one in report.findings)
    is_good = last is not None and last.status in (CheckStatus.PASS, CheckStatus.WARN) and not is_odd
    return last.finished_at if last is not None and is_good else 0.0


def judged(state: NodeState, policy: HealthPolicy, defaults: Rules) -> NodeState:
    """Return the state with its failures as the policy of today judges them: one that is switched off is none."""
    found = (judged_failure(one, policy, defaults) for one in state.failures)
    return replace(state, failures=tuple(one for one in found if one is not None)) if state.failures else state


def judged_failure(failure: CheckFailure, policy: HealthPolicy, defaults: Rules) -> CheckFailure | None:
    """Return what a policy makes of something seen. A warning is a failure only if the policy calls it graver."""
    rule, cause = policy.rule_and_cause(failure.check, defaults.get(failure.check, UNLISTED), failure.text)
    severity = rule.severity or failure.seen
    if not rule.enabled or (failure.is_warning and severity.weight <= failure.seen.weight):
        return None
    return replace(
        failure,
        severity=severity,
        action=rule.action or failure.advised,
        lane=rule.lane or Lane.REVIEWED,
        enforced=rule.mode is CheckMode.ENFORCE,
        acts=rule.mode is not CheckMode.SHADOW,
        cause=cause,
    )


def _updated(
    state: NodeState,
    report: NodeReport,
    policy: HealthPolicy,
    defaults: Rules,
    *,
    gpus: Mapping[str, str],
    flaps: dict[str, tuple[float, ...]],
) -> tuple[CheckFailure, ...]:
    """Return the failures after a report; add to `flaps` when checks began to fail again."""
    known = {one.key: one for one in state.failures if not _was_swapped(one, state.gpus, gpus)}
    found = {one.key: one for one in report.findings}
    after: dict[tuple[str, str], CheckFailure] = {}
    for key, finding in found.items():
        failure = _seen(known.get(key), finding, report, policy)
        failure = judged_failure(failure, policy, defaults) if failure is not None else None
        if failure is not None:
            after[key] = failure
            if key not in known and failure.check not in {one.check for one in known.values()}:
                flaps[failure.check] = (*flaps.get(failure.check, ()), report.measured_at)[-_MOST_FLAPS:]
    for key, failure in known.items():
        if key not in found:
            kept = _without_finding(failure, report, state, policy, gpus=gpus, flaps=len(flaps.get(failure.check, ())))
            if kept is not None:
                after[key] = kept
    return tuple(after[key] for key in sorted(after))


def short(uuid: str) -> str:
    """Return a UUID in eight digits, as the state keeps it: enough to see that another device has the slot."""
    return uuid if not uuid or len(uuid) == 8 else f"{crc32(uuid.encode()):08x}"  # noqa: PLR2004 - the digits


def _was_swapped(failure: CheckFailure, before: Mapping[str, str], gpus: Mapping[str, str]) -> bool:
    """Say whether another GPU sits in the slot, or all have others: the failure was that of the one that is gone."""
    present, known = gpus.get(failure.slot, ""), failure.uuid or before.get(failure.slot, "")
    if failure.slot and gpus and len(gpus) >= len(before) and failure.slot not in gpus:
        return True
    return bool(failure.slot and known and present and short(present) != short(known))


def _seen(
    known: CheckFailure | None, finding: HealthFinding, report: NodeReport, policy: HealthPolicy
) -> CheckFailure | None:
    """Return the failure that a finding makes or continues; what could not be measured changes nothing."""
    if finding.status not in _BAD:
        return known if known is None or not known.passing_since else replace(known, passing_since=0.0)
    heavier = known is not None and known.profile.weight > finding.profile.weight
    recent = (*(known.recent if known is not None else ()), True)[-policy.lifecycle.of :]
    return CheckFailure(
        check=finding.check,
        slot=finding.slot,
        uuid=finding.uuid or next((gpu.uuid for gpu in report.gpus if gpu.slot == finding.slot), ""),
        message=finding.message,
        codes=finding.codes,
        seen=finding.severity,
        advised=finding.action,
        is_warning=finding.status is CheckStatus.WARN,
        profile=known.profile if known is not None and heavier else finding.profile,
        boot_id=report.boot_id,
        first=known.first if known is not None else report.measured_at,
        last=report.measured_at,
        recent=recent,
        agreed=(known is not None and known.agreed) or sum(recent) >= policy.lifecycle.confirmations,
    )


def _without_finding(
    failure: CheckFailure,
    report: NodeReport,
    state: NodeState,
    policy: HealthPolicy,
    *,
    gpus: Mapping[str, str],
    flaps: int,
) -> CheckFailure | None:
    """Return a failure that the report does not mention: an equal or heavier pass of the same check counts for it.

    A check that fails again and again must pass for longer each time.
    """
    is_rebooted = bool(failure.boot_id and report.boot_id and failure.boot_id != report.boot_id)
    is_log = failure.check in BY_ID and BY_ID[failure.check].is_log
    if is_rebooted and is_log and state.phase.is_out:
        return None  # the kernel's log begins anew: only the validation can tell
    is_present = not failure.slot or failure.slot in gpus
    weight = report.passed_by.get(failure.check, ProbeProfile.LIGHT).weight
    if failure.check not in report.passed or not is_present or weight < failure.profile.weight:
        return replace(failure, passing_since=0.0) if failure.check in report.skipped else failure
    since = failure.passing_since or report.measured_at
    delay = policy.lifecycle.healthy_delay
    if report.measured_at - since >= min(delay * 2 ** max(flaps - 1, 0), max(delay, _LONGEST_DELAY)):
        return None
    return replace(failure, passing_since=since, recent=(*failure.recent, False)[-policy.lifecycle.of :])
