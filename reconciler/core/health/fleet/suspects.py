"""What statistics say of nodes, as failures and proposals: never the fast lane, and nothing in shadow mode."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.core.health.findings import ProbeProfile
from reconciler.core.health.fleet.history import UNLISTED, Rules
from reconciler.core.health.fleet.lifecycle import Signal
from reconciler.core.health.fleet.state import CheckFailure, FleetNode, FleetState, HealthPhase, NodeState
from reconciler.core.health.peaks import product_key
from reconciler.core.health.policy import CheckMode, HealthPolicy, Lane, PolicyBook
from reconciler.core.health.quarantine import NodeQuarantine
from reconciler.core.health.statistics.checks import FLEET_BY_ID, LEMON
from reconciler.core.health.statistics.compare import FleetStatistics, Suspicion
from reconciler.core.health.statistics.lemons import (
    FEWEST_EVENTS,
    MEMORY,
    LemonKind,
    LemonMark,
    LemonNode,
    exposure_days,
    find_lemons,
)
from reconciler.core.health.statistics.peers import cohort_drift
from reconciler.core.values import mapping

_FLIGHT = (ProbeProfile.PREFLIGHT, ProbeProfile.POSTFLIGHT)
_MOST_MARKS, _MOST_NOTES = 50, 10


def suspected(found: Iterable[Suspicion], policy: HealthPolicy, defaults: Rules) -> Iterator[CheckFailure]:
    """Yield the suspicions of a node that may lead to a proposal, as failures without a time."""
    for one in found:
        rule = policy.rule(one.check, defaults.get(one.check, UNLISTED))
        if rule.enabled and rule.mode is not CheckMode.SHADOW:
            row = FLEET_BY_ID[one.check]
            yield CheckFailure(
                check=one.check,
                slot=one.slot,
                message=one.message,
                severity=rule.severity or row.severity,
                action=rule.action or row.action,
                profile=ProbeProfile.DEEP,
                lane=Lane.REVIEWED,
                recent=(True,) * policy.lifecycle.of if one.is_proven else (),
            )


def with_suspicions(state: NodeState, found: Iterable[Suspicion], policy: HealthPolicy, defaults: Rules) -> NodeState:
    """Return the state with what statistics say now. The message stays that of the first sight."""
    known = {one.key: one for one in state.failures if one.check in FLEET_BY_ID}
    at = state.measured_at
    fresh = []
    for one in suspected(found, policy, defaults):
        uuid, before = state.gpus.get(one.slot, ""), known.get(one.key)
        same = before if before is not None and before.uuid == uuid else replace(one, uuid=uuid, first=at)
        fresh.append(replace(same, last=at, recent=one.recent, action=one.action, severity=one.severity))
    if not known and not fresh:
        return state
    others = [one for one in state.failures if one.check not in FLEET_BY_ID]
    return replace(state, failures=tuple(sorted([*others, *fresh], key=lambda one: one.key)))


# Lemons.


def remembered(
    before: NodeState, state: NodeState, signals: Iterable[Signal], merged: NodeQuarantine | None, now: float
) -> NodeState:
    """Return the state with what counts against the node since the last round, for as long as it counts."""
    known = {one.key for one in before.failures}
    new = [one for one in state.failures if one.key not in known and one.check not in FLEET_BY_ID]
    kinds = [
        (LemonKind.FATAL, any(one.is_strong for one in new)),
        (LemonKind.PREFLIGHT, any(one.profile in _FLIGHT for one in new)),
        (LemonKind.REMEDIATION, state.phase is HealthPhase.PROBATION and before.phase is not HealthPhase.PROBATION),
        (LemonKind.EXCLUDED, Signal.MERGED in signals and merged is not None and not merged.check),
    ]
    marks = tuple(LemonMark(kind=kind, at=now) for kind, happened in kinds if happened)
    kept = tuple(one for one in state.marks if now - one.at < MEMORY)
    if not marks and len(kept) == len(state.marks):
        return state
    return replace(state, marks=(*kept, *marks)[-_MOST_MARKS:])


def lemons_of(facts: Mapping[str, FleetNode], state: FleetState, since: float, now: float) -> dict[str, LemonNode]:
    """Return the lemons by node."""
    marks = {name: one.marks for name, one in state.nodes.items() if one.marks and name in facts}
    if not any(len(known) >= FEWEST_EVENTS for known in marks.values()):
        return {}
    exposure = {name: exposure_days(max(node.created, since), now) for name, node in facts.items()}
    return {one.node: one for one in find_lemons(marks, exposure, now)}


def may_retire(policy: HealthPolicy, defaults: Rules) -> bool:
    """Say whether lemons may be proposed for retirement."""
    rule = policy.rule(LEMON, defaults.get(LEMON, UNLISTED))
    return rule.enabled and rule.mode is not CheckMode.SHADOW


# Notes for people.


def statistics_notes(
    statistics: FleetStatistics,
    lemons: Mapping[str, LemonNode],
    policies: PolicyBook,
    defaults: Rules,
) -> Iterator[str]:
    """Yield what is seen in shadow mode, and cohorts that moved as a whole."""
    hidden = [
        f"{one.node}: {one.check} on {one.slot} in shadow mode: {one.message}"
        for name, found in sorted(statistics.suspicions.items())
        for one in found
        if _is_shadowed(policies.of_labels(statistics.facts[name].labels), one.check, defaults)
    ]
    hidden += [
        f"{name}: {LEMON} in shadow mode: {one.message}"
        for name, one in sorted(lemons.items())
        if _is_shadowed(policies.of_labels(statistics.facts[name].labels), LEMON, defaults)
    ]
    yield from hidden[:_MOST_NOTES]
    if len(hidden) > _MOST_NOTES:
        yield f"{len(hidden) - _MOST_NOTES} more suspicions in shadow mode"
    yield from cohort_drift(statistics.cohorts, _approved(policies.base))


def _is_shadowed(policy: HealthPolicy, check: str, defaults: Rules) -> bool:
    rule = policy.rule(check, defaults.get(check, UNLISTED))
    return rule.enabled and rule.mode is CheckMode.SHADOW


def _approved(policy: HealthPolicy) -> dict[tuple[str, str], float]:
    """Return the medians that the policy names, by product and check."""
    return {
        (product_key(product), check): float(value)
        for product, values in policy.models.items()
        for check, value in mapping(values.get("medians")).items()
        if isinstance(value, int | float)
    }
