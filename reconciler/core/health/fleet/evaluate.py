"""One round: reports, policy, Git and what is known so far give a decision for each node. Pure, so it can be replayed.

The rounds of a fleet in three steps: what each node says, what the breaker lets through, what follows for each node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.health.fleet.breaker import Admitted, FenceRequest, Fleet, admit, freeze, reset
from reconciler.core.health.fleet.conclude import conclude, is_stale
from reconciler.core.health.fleet.decisions import BreakerAlert, FleetEvaluation, HealthDecision, ProblemStatus
from reconciler.core.health.fleet.history import SKEW, Rules, absorb, confirmed, is_new
from reconciler.core.health.fleet.lifecycle import Signal, follow
from reconciler.core.health.fleet.signals import NodeSight, signals
from reconciler.core.health.fleet.state import CheckFailure, FleetNode, FleetState, HealthPhase, NodeState, Onset
from reconciler.core.health.policy import Lane, PolicyBook
from reconciler.core.health.quarantine import NodeQuarantine
from reconciler.core.health.report import NodeReport


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
    for name, sight in views.items():
        nodes[name], decisions[name] = _decide(sight, admitted, now)
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


def _view(
    given: FleetInput, facts: FleetNode, state: NodeState, merged: NodeQuarantine | None, now: float
) -> NodeSight:
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
    return NodeSight(
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
    given: FleetInput, state: FleetState, views: Mapping[str, NodeSight], now: float
) -> tuple[Admitted, tuple[BreakerAlert, ...]]:
    limits = given.policies.base.breaker
    breaker = reset(state.breaker, limits)
    onsets = [one for sight in views.values() for one in _onsets(sight, now)]
    breaker, alerts = freeze(breaker, onsets, limits, given.facts, now)
    candidates = [one for sight in views.values() if (one := _candidate(sight, now)) is not None]
    if not candidates:
        return Admitted(state=breaker), alerts
    kept = ((name, views[name].state if name in views else state.nodes.get(name)) for name in given.facts)
    out = {name for name, one in kept if one is not None and one.phase.is_out}
    out |= {name for name, one in views.items() if one.quarantine is not None and one.quarantine.takes_node}
    return admit(breaker, candidates, Fleet.of(given.facts, frozenset(out)), limits, now), alerts


def _onsets(sight: NodeSight, now: float) -> Iterator[Onset]:
    """Yield the checks that are confirmed on this node now and were not before."""
    needed = sight.policy.lifecycle.confirmations
    before = {one.check for one in confirmed(sight.before, needed)} if not sight.is_replaced else set()
    for check in sorted({one.check for one in confirmed(sight.state, needed)} - before):
        yield Onset(at=now, check=check, node=sight.facts.name)


def _candidate(sight: NodeSight, now: float) -> FenceRequest | None:
    """Return the node as a candidate if a fast rule wants it out of use, and it is not."""
    state = sight.state
    if state.phase.is_out or sight.quarantine is not None or not sight.acts or state.override_until > now:
        return None
    failure = fast_failure(sight)
    return (
        None
        if failure is None
        else FenceRequest(node=sight.facts.name, check=failure.check, is_fatal=failure.is_strong)
    )


def fast_failure(sight: NodeSight) -> CheckFailure | None:
    """Return the confirmed failure that the fast lane may act on; None if there is none."""
    needed = sight.confirmations
    return next((one for one in confirmed(sight.state, needed) if one.enforced and one.lane is Lane.FAST), None)


def _decide(sight: NodeSight, admitted: Admitted, now: float) -> tuple[NodeState, HealthDecision]:
    name = sight.facts.name
    state = sight.state
    for signal in signals(sight, now, is_admitted=name in admitted.nodes):
        state = _enter(sight, state, signal, now)
    return conclude(sight, state, admitted.refused.get(name, ""), admitted.state, now)


def _enter(sight: NodeSight, state: NodeState, signal: Signal, now: float) -> NodeState:
    """Return the state after a signal, with what it leaves behind."""
    phase = follow(state.phase, signal)
    life = sight.policy.lifecycle
    if signal is Signal.FENCED and phase is HealthPhase.QUARANTINED and not sight.state.phase.is_out:
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
