"""What one more report changes in the known failures of a node."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from reconciler.core.health.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.core.health.fleet.state import CheckFailure, NodeState
from reconciler.core.health.policy import XID_CHECK, CheckMode, CheckRule, HealthPolicy, Lane
from reconciler.core.health.report import NodeReport

SKEW = 120.0
"""Seconds that the clock of a node may be ahead. A report from further ahead is not believed."""

UNLISTED = CheckRule(mode=CheckMode.SHADOW, lane=Lane.REVIEWED)
"""The rule of a check that neither the policy nor the catalogue knows."""

Rules = Mapping[str, CheckRule]


def is_new(state: NodeState, report: NodeReport, now: float) -> bool:
    """Say whether a report says anything new: not the same again, not an older one, not one from the future."""
    return state.measured_at < report.measured_at <= now + SKEW


def absorb(state: NodeState, report: NodeReport, policy: HealthPolicy, defaults: Rules, now: float) -> NodeState:
    """Return the state with the failures as the report leaves them. The report must be new."""
    gpus = {gpu.slot: gpu.uuid for gpu in report.gpus} if report.gpus else {}
    if gpus == state.gpus:
        gpus = dict(state.gpus)
    failures = _updated(state, report, policy, defaults, gpus) if state.failures or report.findings else ()
    tested_at = _tested_at(report)
    deepest = max((profile.weight for profile in report.passed_by.values()), default=0)
    is_validated = tested_at and deepest >= ProbeProfile.DEEP.weight and not any(one.is_failing for one in failures)
    return replace(
        state,
        uid=report.node_uid or state.uid,
        boot_id=report.boot_id or state.boot_id,
        measured_at=report.measured_at,
        received_at=now,
        gpus=gpus or state.gpus,
        failures=failures,
        validated_at=tested_at if is_validated else state.validated_at,
    )


def _tested_at(report: NodeReport) -> float:
    """Return when the last heavy run ended; an old pass that later reports repeat validates nothing anew.

    0 without a run: single heavy checks that somebody asked an agent for validate no node.
    """
    return max((run.finished_at for run in report.runs if run.profile.weight >= ProbeProfile.DEEP.weight), default=0.0)


def _updated(
    state: NodeState, report: NodeReport, policy: HealthPolicy, defaults: Rules, gpus: Mapping[str, str]
) -> tuple[CheckFailure, ...]:
    known = {one.key: one for one in state.failures if not _was_swapped(one, gpus)}
    found = {one.key: one for one in report.findings}
    after: dict[tuple[str, str], CheckFailure] = {}
    for key, finding in found.items():
        failure = _judged(known.get(key), finding, report, policy, defaults)
        if failure is not None:
            after[key] = failure
    for key, failure in known.items():
        if key not in found and _is_judged(failure, policy, defaults):
            kept = _without_finding(failure, report, state, policy, gpus)
            if kept is not None:
                after[key] = kept
    return tuple(after[key] for key in sorted(after))


def _was_swapped(failure: CheckFailure, gpus: Mapping[str, str]) -> bool:
    """Say whether another GPU sits in the slot: the failure was that of the one that is gone."""
    present = gpus.get(failure.slot, "")
    return bool(failure.slot and failure.uuid and present and present != failure.uuid)


def _is_judged(failure: CheckFailure, policy: HealthPolicy, defaults: Rules) -> bool:
    rule = policy.rule(failure.check, defaults.get(failure.check, UNLISTED), failure.message)
    return rule.enabled and rule.mode is not CheckMode.SHADOW


def _judged(
    known: CheckFailure | None, finding: HealthFinding, report: NodeReport, policy: HealthPolicy, defaults: Rules
) -> CheckFailure | None:
    """Return the failure that a finding makes or continues; what could not be measured changes nothing."""
    rule = policy.rule(finding.check, defaults.get(finding.check, UNLISTED), finding.message)
    if not rule.enabled or rule.mode is CheckMode.SHADOW:
        return None
    if finding.status is not CheckStatus.FAIL:
        return known if known is None or not known.passing_since else replace(known, passing_since=0.0)
    heavier = known is not None and known.profile.weight > finding.profile.weight
    before = known.recent if known is not None else ()
    return CheckFailure(
        check=finding.check,
        slot=finding.slot,
        uuid=finding.uuid or next((gpu.uuid for gpu in report.gpus if gpu.slot == finding.slot), ""),
        message=finding.message,
        severity=rule.severity or finding.severity,
        action=rule.action or finding.action,
        profile=known.profile if known is not None and heavier else finding.profile,
        lane=rule.lane or Lane.REVIEWED,
        enforced=rule.mode is CheckMode.ENFORCE,
        boot_id=report.boot_id,
        first=known.first if known is not None else report.measured_at,
        last=report.measured_at,
        recent=(*before, True)[-policy.lifecycle.of :],
    )


def _without_finding(
    failure: CheckFailure, report: NodeReport, state: NodeState, policy: HealthPolicy, gpus: Mapping[str, str]
) -> CheckFailure | None:
    """Return a failure that the report does not mention: an equal or heavier pass of the same check counts for it."""
    is_rebooted = bool(failure.boot_id and report.boot_id and failure.boot_id != report.boot_id)
    if is_rebooted and failure.check == XID_CHECK and state.phase.is_out:
        return None  # the kernel's log begins anew: only the validation can tell
    is_present = not failure.slot or failure.slot in gpus
    weight = report.passed_by.get(failure.check, ProbeProfile.LIGHT).weight
    if failure.check not in report.passed or not is_present or weight < failure.profile.weight:
        return replace(failure, passing_since=0.0) if failure.check in report.skipped else failure
    since = failure.passing_since or report.measured_at
    if report.measured_at - since >= policy.lifecycle.healthy_delay:
        return None
    return replace(failure, passing_since=since, recent=(*failure.recent, False)[-policy.lifecycle.of :])


def confirmed(state: NodeState, confirmations: int) -> Iterator[CheckFailure]:
    """Yield the failures that enough reports agree on, fatal ones first."""
    ranked = sorted(state.failures, key=lambda one: (not one.is_strong, one.first, one.key))
    return (one for one in ranked if one.is_failing and one.is_confirmed(confirmations))
