"""One round: reports, policy, Git and what is known so far give a decision for each node. Pure, so it can be replayed.

A round has three steps: the failures of each node, the admissions of the breaker, and the decision about each node.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import plural
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile, RepairAction
from reconciler.nodehealth.fleet.breaker import Admitted, FenceRequest, Fleet, admit, freeze, reset
from reconciler.nodehealth.fleet.decisions import (
    BreakerAlert,
    FleetEvaluation,
    HealthDecision,
    HealthProposal,
    ProblemStatus,
)
from reconciler.nodehealth.fleet.lifecycle import NodeView, Signal, follow, signals
from reconciler.nodehealth.fleet.state import (
    BreakerState,
    CheckFailure,
    FleetNode,
    FleetState,
    HealthPhase,
    NodeState,
    Onset,
    confirmed,
)
from reconciler.nodehealth.policy import XID_CHECK, CheckMode, CheckRule, HealthPolicy, Lane, PolicyBook
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage, TaintEffect
from reconciler.nodehealth.report import NodeReport

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
    is_validated = tested_at and not any(one.is_failing for one in failures)
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
    """Return when the last deep run ended that tested what its GPUs need; 0 without one.

    An old pass that later reports repeat validates nothing anew, nor do single heavy checks that somebody asked for,
    nor a run that could not measure.
    """
    deep = [run for run in report.runs if run.profile.weight >= ProbeProfile.DEEP.weight]
    last = max(deep, key=lambda run: run.finished_at, default=None)
    return last.finished_at if last is not None and last.status in (CheckStatus.PASS, CheckStatus.WARN) else 0.0


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


def is_stale(state: NodeState, limit: float, now: float) -> bool:
    """Say whether the newest report is too old to say anything; so is none at all."""
    return not state.measured_at or now - state.measured_at > limit


def decision_of(
    view: NodeView, state: NodeState, refused: str, breaker: BreakerState, now: float
) -> tuple[NodeState, HealthDecision]:
    """Return the state as it is kept, and the decision about the node."""
    state = _renewed(view, replace(state, merged=view.quarantine is not None), now)
    if state.override_until and state.override_until <= now:
        state = replace(state, override_until=0.0)
    failures = tuple(confirmed(state, view.confirmations)) or tuple(one for one in state.failures if one.is_failing)
    worst = failures[0] if failures else None
    reason = _reason(view, state, worst, refused)
    return state, HealthDecision(
        node=view.facts.name,
        phase=state.phase,
        before=view.before.phase,
        condition=_condition(view, state),
        reason=reason,
        check=_check(view, worst),
        slots=tuple(sorted({one.slot for one in failures if one.slot})),
        taint=_taint(view, state),
        until=state.until,
        proposal=_proposal(view, state, breaker, now),
        action=worst.action if worst is not None else RepairAction.NONE,
        refused=refused,
        escalate=state.renewals > view.before.renewals,
        observes_only=not view.acts,
        evidence=_digest(state) if state.failures or state.phase.is_out else "",
    )


def _renewed(view: NodeView, state: NodeState, now: float) -> NodeState:
    """Prolong our taint if it would end while the check fails, or while its state is unknown."""
    if not state.ours or state.merged or not state.phase.is_out or not 0 < state.until <= now:
        return state
    return replace(state, until=now + view.policy.lifecycle.ttl, renewals=state.renewals + 1)


def _condition(view: NodeView, state: NodeState) -> ProblemStatus:
    if any(one.is_failing for one in state.failures) or state.phase.is_out:
        return ProblemStatus.TRUE
    return ProblemStatus.UNKNOWN if view.is_stale else ProblemStatus.FALSE


def _taint(view: NodeView, state: NodeState) -> TaintEffect | None:
    if not view.acts:
        return None
    if view.quarantine is not None:
        return view.quarantine.effect
    if state.phase.is_out:
        return TaintEffect.NO_SCHEDULE if state.ours else None
    if state.override_until:
        return None
    flight = (ProbeProfile.PREFLIGHT, ProbeProfile.POSTFLIGHT)
    floors = [one for one in state.failures if one.is_failing and one.enforced and one.profile in flight]
    return TaintEffect.PREFER_NO_SCHEDULE if floors else None


def _proposal(view: NodeView, state: NodeState, breaker: BreakerState, now: float) -> HealthProposal | None:
    if view.stale_quarantine is not None:
        return HealthProposal.REMOVE_STALE
    if view.acts and view.quarantine is not None:
        return _next_step(view.quarantine.stage, state)
    agreed = next(confirmed(state, view.confirmations), None)
    is_ours = state.ours and state.phase.is_out
    is_frozen = agreed is not None and agreed.check in breaker.frozen
    if not view.acts or state.override_until or is_frozen or not (agreed or is_ours):
        return None
    life = view.policy.lifecycle
    returns = sum(now - one < life.return_window for one in state.returns)
    if returns >= life.support_after:
        return HealthProposal.SUPPORT
    return HealthProposal.INSPECT if returns >= life.inspect_after else HealthProposal.QUARANTINE


def _next_step(stage: Stage, state: NodeState) -> HealthProposal | None:
    """Return what follows for a node in Git: its repair once it is drained, its release once it is validated."""
    if state.phase is HealthPhase.VALIDATING and state.validated_at > state.since:
        return HealthProposal.RELEASE
    return HealthProposal.REMEDIATE if _is_drained(stage, state) else None


def _is_drained(stage: Stage, state: NodeState) -> bool:
    """Say whether the drain that Git asks for has ended."""
    return state.phase is HealthPhase.REMEDIATING and stage is Stage.DRAIN


def _check(view: NodeView, worst: CheckFailure | None) -> str:
    if worst is not None:
        return worst.check
    if view.quarantine is not None:
        return view.quarantine.check
    return ""


def _reason(view: NodeView, state: NodeState, worst: CheckFailure | None, refused: str) -> str:
    parts = []
    if worst is not None:
        parts.append(f"{worst.check}{f' on {worst.slot}' if worst.slot else ''}: {worst.message or 'failed'}")
    elif view.quarantine is not None:
        parts.append(view.quarantine.reason)
    parts += _drain(view, state)
    if refused:
        parts.append(f"not quarantined: {refused}")
    if state.override_until:
        parts.append("a person removed our taint, so nothing is done for now")
    if not view.acts:
        owner = view.facts.owner or "the provider"
        parts.append(f"{owner} repairs this node; we only report")
    if view.stale_quarantine is not None:
        parts.append(f"the quarantine {view.stale_quarantine.name} is for an earlier node of this name")
    if state.renewals:
        parts.append(f"nobody has confirmed it; our taint was prolonged {plural(state.renewals, 'time')}")
    if view.is_stale:
        parts.append(_silence(state))
    return "; ".join(parts)


def _drain(view: NodeView, state: NodeState) -> list[str]:
    """Say how far the drain is that Git asks for."""
    if state.phase is HealthPhase.DRAINING:
        return ["pods with GPUs are left on the node"]
    if view.quarantine is not None and _is_drained(view.quarantine.stage, state):
        return ["drained: no pod with GPUs is left on the node, so it can be repaired"]
    return []


def _silence(state: NodeState) -> str:
    """Say since when there is no report, in words that stay the same while it lasts."""
    if not state.measured_at:
        return "there is no health report, so its health is unknown"
    newest = dt.datetime.fromtimestamp(state.measured_at, dt.UTC).isoformat(timespec="seconds")
    return f"there is no health report since {newest.replace('+00:00', 'Z')}, so its health is unknown"


def _digest(state: NodeState) -> str:
    """Digest what the decision is based on. Another report of the same failures gives the same digest."""
    keys = [[one.check, one.slot, one.uuid, one.severity, one.profile, one.first] for one in state.failures]
    return f"sha256:{sha256(msgspec.json.encode([state.uid, keys])).hexdigest()}"


class FleetInput(Struct, frozen=True, kw_only=True):
    """Everything that a round looks at. `defaults` are the rules of the catalogue, by check."""

    facts: Mapping[str, FleetNode]
    reports: Mapping[str, NodeReport]
    policies: PolicyBook
    defaults: Rules = {}
    quarantines: Sequence[NodeQuarantine] = ()


class Round(Struct, frozen=True, kw_only=True):
    """A finished round. The next one looks again only at nodes of which something changed."""

    given: FleetInput
    evaluation: FleetEvaluation


def evaluate(given: FleetInput, state: FleetState, now: float, previous: Round | None = None) -> FleetEvaluation:
    """Evaluate a fleet at a time. Equal inputs give equal results; `previous` only saves time."""
    merged = _by_node(given.quarantines)
    unchanged = frozenset() if previous is None else _unchanged(given, state, previous, now)
    views = {
        name: _view(given, facts, state.nodes.get(name, NodeState()), merged.get(name), now)
        for name, facts in given.facts.items()
        if name not in unchanged
    }
    admitted, alerts = _admitted(given, state, views, now)
    nodes, decisions = dict(state.nodes), {} if previous is None else dict(previous.evaluation.decisions)
    for name in nodes.keys() - given.facts.keys():
        del nodes[name]
        decisions.pop(name, None)
    for name, view in views.items():
        nodes[name], decisions[name] = _decide(view, admitted, now)
    return FleetEvaluation(
        state=FleetState(nodes=nodes, breaker=admitted.state),
        decisions=decisions,
        alerts=(*alerts, *admitted.alerts),
        notes=tuple(_notes(given, now)),
    )


def next_round(previous: Round, given: FleetInput, now: float) -> Round:
    """Evaluate again after some reports changed: the cost is that of the changed nodes."""
    evaluation = evaluate(given, previous.evaluation.state, now, previous)
    return Round(given=given, evaluation=evaluation)


def _by_node(quarantines: Iterable[NodeQuarantine]) -> dict[str, NodeQuarantine]:
    """Return the quarantines by node. Of two the one that takes the node counts."""
    return {one.node: one for one in sorted(quarantines, key=lambda one: (one.takes_node, one.name))}


def _unchanged(given: FleetInput, state: FleetState, previous: Round, now: float) -> frozenset[str]:
    """Return the nodes for which nothing can have changed: healthy, with the same report, facts and policy."""
    if previous.given.policies is not given.policies or previous.given.defaults != given.defaults:
        return frozenset()
    in_git = {one.node for one in (*given.quarantines, *previous.given.quarantines)}
    old, known, decided = previous.given, state.nodes, previous.evaluation.decisions
    reports, facts, old_reports, old_facts = given.reports, given.facts, old.reports, old.facts
    unchanged = []
    for name, node in facts.items():
        if reports.get(name) is not old_reports.get(name) or node is not old_facts.get(name):
            continue
        if name in in_git or name not in decided:
            continue
        one, report = known.get(name), reports.get(name)
        if one is None or (report is not None and is_new(one, report, now)):  # a clock that was ahead
            continue
        if one.phase is not HealthPhase.HEALTHY or one.failures or one.override_until:
            continue
        limit = given.policies.of_labels(node.labels).lifecycle.stale_after
        if is_stale(one, limit, now) is (decided[name].condition is ProblemStatus.UNKNOWN):
            unchanged.append(name)
    return frozenset(unchanged)


def _view(given: FleetInput, facts: FleetNode, state: NodeState, merged: NodeQuarantine | None, now: float) -> NodeView:
    """Add the report of a node to its state, and note events of the node."""
    policy = given.policies.of_labels(facts.labels)
    report = given.reports.get(facts.name)
    before = state
    uid = facts.uid or (report.node_uid if report is not None else "")
    is_replaced = bool(state.uid and uid and state.uid != uid)
    if is_replaced:
        state = NodeState(uid=uid, since=now)
    is_current = report is not None and not (report.node_uid and facts.uid and report.node_uid != facts.uid)
    if report is not None and is_current and is_new(state, report, now):
        state = absorb(state, report, policy, given.defaults, now)
    if not state.uid and uid:
        state = replace(state, uid=uid)
    quarantine = merged if merged is not None and not merged.is_stale(uid) else None
    return NodeView(
        facts=facts,
        policy=policy,
        before=before,
        state=state,
        quarantine=quarantine,
        stale_quarantine=merged if quarantine is None else None,
        is_replaced=is_replaced,
        is_stale=is_stale(state, policy.lifecycle.stale_after, now),
    )


def _admitted(
    given: FleetInput, state: FleetState, views: Mapping[str, NodeView], now: float
) -> tuple[Admitted, tuple[BreakerAlert, ...]]:
    limits = given.policies.base.breaker
    breaker = reset(state.breaker, limits)
    onsets = [one for view in views.values() for one in _onsets(view, now)]
    breaker, alerts = freeze(breaker, onsets, limits, given.facts, now)
    candidates = [one for view in views.values() if (one := _candidate(view, now)) is not None]
    if not candidates:
        return Admitted(state=breaker), alerts
    kept = ((name, views[name].state if name in views else state.nodes.get(name)) for name in given.facts)
    out = {name for name, one in kept if one is not None and one.phase.is_out}
    out |= {name for name, one in views.items() if one.quarantine is not None and one.quarantine.takes_node}
    return admit(breaker, candidates, Fleet.of(given.facts, frozenset(out)), limits, now), alerts


def _onsets(view: NodeView, now: float) -> Iterator[Onset]:
    """Yield the checks that are confirmed on this node now and were not before."""
    needed = view.policy.lifecycle.confirmations
    before = {one.check for one in confirmed(view.before, needed)} if not view.is_replaced else set()
    for check in sorted({one.check for one in confirmed(view.state, needed)} - before):
        yield Onset(at=now, check=check, node=view.facts.name)


def _candidate(view: NodeView, now: float) -> FenceRequest | None:
    """Return the node as a candidate if a fast rule wants it out of use, and it is not."""
    state = view.state
    if state.phase.is_out or view.quarantine is not None or not view.acts or state.override_until > now:
        return None
    failure = fast_failure(view)
    return (
        None if failure is None else FenceRequest(node=view.facts.name, check=failure.check, is_fatal=failure.is_strong)
    )


def fast_failure(view: NodeView) -> CheckFailure | None:
    """Return the confirmed failure that the fast lane may act on; None if there is none."""
    needed = view.confirmations
    return next((one for one in confirmed(view.state, needed) if one.enforced and one.lane is Lane.FAST), None)


def _decide(view: NodeView, admitted: Admitted, now: float) -> tuple[NodeState, HealthDecision]:
    name = view.facts.name
    state = view.state
    for signal in signals(view, now, is_admitted=name in admitted.nodes):
        state = _enter(view, state, signal, now)
    return decision_of(view, state, admitted.refused.get(name, ""), admitted.state, now)


def _enter(view: NodeView, state: NodeState, signal: Signal, now: float) -> NodeState:
    """Return the state after a signal, with what it leaves behind."""
    phase = follow(state.phase, signal)
    life = view.policy.lifecycle
    if signal is Signal.FENCED and phase is HealthPhase.QUARANTINED and not view.state.phase.is_out:
        state = replace(state, ours=True, until=now + life.ttl, renewals=0)
    if signal is Signal.OVERRIDDEN:
        state = replace(state, ours=False, until=0.0, override_until=now + life.operator_override, failures=())
    if phase is HealthPhase.PROBATION and state.phase is not HealthPhase.PROBATION:
        returns = tuple(one for one in state.returns if now - one < life.return_window)
        state = replace(state, ours=False, until=0.0, renewals=0, returns=(*returns, now))
    return state if phase is state.phase else replace(state, phase=phase, since=now)


def _notes(given: FleetInput, now: float) -> Iterator[str]:
    """Yield what was ignored: reports of nodes that do not exist, and reports from the future."""
    for name in sorted(given.reports.keys() - given.facts.keys()):
        yield f"{name}: there is a health report, but no such node"
    ahead = [name for name, one in given.reports.items() if one.measured_at > now + SKEW]
    for name in sorted(ahead):
        yield f"{name}: the report is from the future, so the clock of the node is wrong; it is ignored"
