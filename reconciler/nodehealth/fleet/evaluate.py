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
from reconciler.nodehealth.findings import ProbeProfile, RepairAction
from reconciler.nodehealth.fleet.breaker import Admitted, FenceRequest, Fleet, admit, freeze, reset
from reconciler.nodehealth.fleet.decisions import (
    BreakerAlert,
    FleetEvaluation,
    HealthDecision,
    HealthProposal,
    ProblemStatus,
)
from reconciler.nodehealth.fleet.failures import SKEW, UNLISTED, Rules, absorb, is_new, judged, short
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
from reconciler.nodehealth.policy import CheckMode, HealthPolicy, Lane, PolicyBook
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage, TaintEffect
from reconciler.nodehealth.report import NodeReport


def is_stale(state: NodeState, limit: float, now: float) -> bool:
    """Say whether the newest report is too old to say anything; so is none at all."""
    return not state.measured_at or now - state.measured_at > limit


_DAY = 86400.0
_NEW = (HealthProposal.QUARANTINE, HealthProposal.INSPECT, HealthProposal.SUPPORT)


def decision_of(
    view: NodeView, state: NodeState, refused: str, breaker: BreakerState, now: float
) -> tuple[NodeState, HealthDecision]:
    """Return the state as it is kept, and the decision about the node."""
    state = _renewed(view, replace(state, merged=view.quarantine is not None), now)
    if state.override_until and state.override_until <= now:
        state = replace(state, override_until=0.0, excused=())
    confirmations = view.confirmations
    failures = tuple(confirmed(state, confirmations)) or tuple(one for one in state.failures if one.is_failing)
    worst = (*failures, *state.failures, None)[0]
    proposal = _proposal(view, state, breaker, now)
    state = _waiting(state, proposal, now)
    return state, HealthDecision(
        node=view.facts.name,
        phase=state.phase,
        before=view.before.phase,
        condition=_condition(view, state),
        reason=_reason(view, state, worst, refused),
        check=_check(view, worst),
        slots=tuple(sorted({one.slot for one in failures if one.slot})),
        taint=_taint(view, state),
        until=state.until,
        proposal=proposal,
        action=worst.action if worst is not None and worst.acts else RepairAction.NONE,
        refused=refused,
        escalate=state.renewals > view.before.renewals,
        observes_only=not view.acts,
        evidence=_digest(state) if state.failures or state.phase.is_out else "",
    )


def _renewed(view: NodeView, state: NodeState, now: float) -> NodeState:
    """Prolong our taint if it would end while the check fails, its state is unknown, or a person must decide."""
    if not state.ours or state.merged or not state.phase.is_out or not 0 < state.until <= now:
        return state
    return replace(state, until=now + view.policy.lifecycle.ttl, renewals=state.renewals + 1)


def _waiting(state: NodeState, proposal: HealthProposal | None, now: float) -> NodeState:
    """Note since when a proposal is open, how many days nobody has decided about it, and that a person must."""
    if proposal not in _NEW:
        return replace(state, proposed_at=0.0, renewals=state.renewals if state.ours else 0, waits=False)
    since = state.proposed_at or now
    if state.ours:
        return replace(state, proposed_at=since, waits=state.waits or proposal is not HealthProposal.QUARANTINE)
    return replace(state, proposed_at=since, renewals=int((now - since) // _DAY))


def _condition(view: NodeView, state: NodeState) -> ProblemStatus:
    """Return what was seen, whatever a policy does about it. A check that passes again is trusted after its delay."""
    if state.failures or state.phase.is_out:
        return ProblemStatus.TRUE
    return ProblemStatus.UNKNOWN if view.is_stale else ProblemStatus.FALSE


def _taint(view: NodeView, state: NodeState) -> TaintEffect | None:
    if not view.acts:
        return None
    if view.quarantine is not None:
        return view.quarantine.effect
    if state.phase.is_out:
        return TaintEffect.NO_SCHEDULE if state.ours else None
    if state.override_until or view.is_stale:
        return None
    flight = (ProbeProfile.PREFLIGHT, ProbeProfile.POSTFLIGHT)
    floors = [one for one in state.failures if one.is_failing and one.enforced and one.profile in flight]
    return TaintEffect.PREFER_NO_SCHEDULE if floors else None


def _proposal(view: NodeView, state: NodeState, breaker: BreakerState, now: float) -> HealthProposal | None:
    """Return what somebody has to merge. A check that passes for a while keeps its proposal until its failure ends."""
    if view.stale_quarantine is not None:
        return HealthProposal.REMOVE_STALE
    if view.acts and view.quarantine is not None:
        return _next_step(view.quarantine.stage, state)
    is_ours = state.ours and state.phase.is_out
    agreed = [
        one
        for one in state.failures
        if one.acts and (one.agreed or one.is_confirmed(view.confirmations)) and not state.is_excused(one, now)
        if not breaker.frozen_at.keys() & {one.cause, f"{one.cause} in pool {view.facts.pool}"}
    ]
    if not view.acts or not (agreed or is_ours) or (state.override_until and not state.excused):
        return None
    life = view.policy.lifecycle
    returns = state.returned(now, life.return_window)
    if returns >= life.support_after:
        return HealthProposal.SUPPORT
    is_often = state.waits or returns >= life.inspect_after
    return HealthProposal.INSPECT if is_often else HealthProposal.QUARANTINE


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
        what = "released it" if state.excused else "removed our taint"
        parts.append(f"a person {what}, so nothing is done for now")
    if not view.acts:
        owner = view.facts.owner or "the provider"
        parts.append(f"{owner} repairs this node; we only report")
    if view.stale_quarantine is not None:
        parts.append(f"the quarantine {view.stale_quarantine.name} is for an earlier node of this name")
    parts += _undecided(state)
    if view.is_stale:
        parts.append(_silence(state))
    return "; ".join(parts)


def _undecided(state: NodeState) -> Iterator[str]:
    """Say what waits for a person, and how long."""
    if state.waits:
        yield "it came back too often to do so again by itself"
    if state.renewals and state.ours:
        yield f"nobody has confirmed it; our taint was prolonged {plural(state.renewals, 'time')}"
    elif state.renewals:
        yield f"proposed {plural(state.renewals, 'day')} ago, and nobody has decided"


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
    keys = [[one.check, one.slot, _device(state, one), one.severity, one.profile] for one in state.failures if one.acts]
    return f"sha256:{sha256(msgspec.json.encode([state.uid, keys])).hexdigest()}"


def _device(state: NodeState, failure: CheckFailure) -> str:
    return short(failure.uuid or state.gpus.get(failure.slot, ""))


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
    notes = [*_notes(given, now), *_bounded(nodes, decisions, given.policies.base.breaker.proposals)]
    return FleetEvaluation(
        state=FleetState(nodes=nodes, breaker=admitted.state),
        decisions=decisions,
        alerts=(*alerts, *admitted.alerts),
        notes=tuple(notes),
    )


def _bounded(nodes: dict[str, NodeState], decisions: dict[str, HealthDecision], most: int) -> Iterator[str]:
    """Withdraw proposals beyond so many open ones, the newest first; say how many there are."""
    open_ = [name for name, one in decisions.items() if one.proposal in _NEW]
    open_.sort(key=lambda name: (nodes[name].proposed_at, not nodes[name].phase.is_out, name))
    for name in open_[most:]:
        nodes[name] = replace(nodes[name], proposed_at=0.0)
        decisions[name] = replace(decisions[name], proposal=None)
    if len(open_) > most:
        yield f"{plural(len(open_) - most, 'node')} more should be proposed; {most} are, as many as may be open"


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
    state = judged(state, policy, given.defaults)
    if not state.uid and uid:
        state = replace(state, uid=uid)
    if is_replaced and before.merged and merged is not None and not merged.uid:
        state = replace(state, unbound=merged.name)
    is_meant = merged is not None and not merged.is_stale(uid) and (merged.uid or merged.name != state.unbound)
    quarantine = merged if is_meant else None
    return NodeView(
        facts=facts,
        policy=policy,
        before=before,
        state=state,
        quarantine=quarantine,
        stale_quarantine=merged if quarantine is None else None,
        is_replaced=is_replaced,
        is_bound=report is not None and _is_bound(report, facts),
        is_withdrawn=state.ours and quarantine is None and not _is_allowed(state, policy, given.defaults),
        is_stale=is_stale(state, policy.lifecycle.stale_after, now),
    )


def _is_bound(report: NodeReport, facts: FleetNode) -> bool:
    """Say whether a report is surely about this machine: by the UID of the node, else by its boot."""
    if report.node_uid or not facts.uid:
        return True
    return bool(report.boot_id) and report.boot_id == facts.boot_id


def _is_allowed(state: NodeState, policy: HealthPolicy, defaults: Rules) -> bool:
    """Say whether the policy of today would still fence this node: for its cause, or for another that fails."""
    if not state.cause or any(one.is_fast and one.is_failing for one in state.failures):
        return True
    rule = policy.rule_of_cause(state.cause, defaults.get(state.cause.partition(" ")[0], UNLISTED))
    return rule.enabled and rule.mode is CheckMode.ENFORCE and rule.lane is Lane.FAST


def _admitted(
    given: FleetInput, state: FleetState, views: Mapping[str, NodeView], now: float
) -> tuple[Admitted, tuple[BreakerAlert, ...]]:
    limits = given.policies.base.breaker
    breaker = reset(state.breaker, limits)
    onsets = [one for view in views.values() for one in _onsets(view, now)]
    failing: dict[str, list[str]] = {}
    for name, view in views.items():
        for cause in {one.cause for one in confirmed(view.state, view.confirmations)} if not view.is_stale else ():
            failing.setdefault(cause, []).append(name)
    breaker, alerts = freeze(breaker, onsets, failing, limits, facts=given.facts, now=now)
    candidates = [one for view in views.values() if (one := _candidate(view, now)) is not None]
    kept = ((name, views[name].state if name in views else state.nodes.get(name)) for name in given.facts)
    known = [(name, one) for name, one in kept if one is not None]
    out = {name for name, one in known if one.phase.is_out}
    out |= {name for name, one in views.items() if one.quarantine is not None and one.quarantine.takes_node}
    held = {name for name, one in known if one.phase.is_out and one.ours and not one.merged}
    return admit(breaker, candidates, Fleet.of(given.facts, frozenset(out)), limits, now=now, held=held), alerts


def _onsets(view: NodeView, now: float) -> Iterator[Onset]:
    """Yield the causes that are confirmed on this node now and were not before."""
    needed = view.policy.lifecycle.confirmations
    before = {one.cause for one in confirmed(view.before, needed)} if not view.is_replaced else set()
    for cause in sorted({one.cause for one in confirmed(view.state, needed)} - before):
        yield Onset(at=now, check=cause, node=view.facts.name)


def _candidate(view: NodeView, now: float) -> FenceRequest | None:
    """Return the node as a candidate if a fast rule wants it out of use, and it is not.

    Only a current report of this machine fences it, and only for what that report says.
    """
    state = view.state
    if state.phase.is_out or view.quarantine is not None or not view.acts or view.is_stale or not view.is_bound:
        return None
    failures = [
        one
        for one in confirmed(state, view.confirmations)
        if one.is_fast and one.last == state.measured_at and not state.is_excused(one, now)
    ]
    if not failures:
        return None
    causes = tuple(dict.fromkeys(one.cause for one in failures))
    return FenceRequest(node=view.facts.name, causes=causes, is_fatal=failures[0].is_strong)


def _decide(view: NodeView, admitted: Admitted, now: float) -> tuple[NodeState, HealthDecision]:
    name = view.facts.name
    state = view.state
    for signal in signals(view, now, is_admitted=name in admitted.nodes):
        state = _enter(view, state, signal, now, admitted.nodes.get(name, ""))
    return decision_of(view, state, admitted.refused.get(name, ""), admitted.state, now)


def _enter(view: NodeView, state: NodeState, signal: Signal, now: float, cause: str) -> NodeState:
    """Return the state after a signal, with what it leaves behind."""
    phase = follow(state.phase, signal)
    life = view.policy.lifecycle
    if signal is Signal.FENCED and phase is HealthPhase.QUARANTINED and not view.state.phase.is_out:
        state = replace(state, ours=True, cause=cause, until=now + life.ttl, renewals=0)
    if signal is Signal.OVERRIDDEN:
        state = replace(state, override_until=now + life.operator_override, excused=(), failures=())
    if signal is Signal.RELEASED and state.merged:
        failing = tuple(one.key for one in state.failures if one.is_failing)
        state = replace(state, override_until=now + life.operator_override, excused=failing) if failing else state
    if signal in (Signal.OVERRIDDEN, Signal.WITHDRAWN):
        state = replace(state, ours=False, cause="", until=0.0, renewals=0)
    if phase is HealthPhase.PROBATION and state.phase is not HealthPhase.PROBATION:
        returns = tuple(one for one in state.returns if now - one < life.return_window)
        state = replace(state, ours=False, cause="", until=0.0, renewals=0, returns=(*returns, now))
    return state if phase is state.phase else replace(state, phase=phase, since=now)


def _notes(given: FleetInput, now: float) -> Iterator[str]:
    """Yield what was ignored: reports of nodes that do not exist, and reports from the future."""
    for name in sorted(given.reports.keys() - given.facts.keys()):
        yield f"{name}: there is a health report, but no such node"
    ahead = [name for name, one in given.reports.items() if one.measured_at > now + SKEW]
    for name in sorted(ahead):
        yield f"{name}: the report is from the future, so the clock of the node is wrong; it is ignored"
