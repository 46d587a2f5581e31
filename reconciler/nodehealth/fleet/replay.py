"""Replay: what a policy would have done with reports of the past, and whether it may be merged."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.kube.values import plural
from reconciler.nodehealth.catalogue import CHECKS
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthProposal
from reconciler.nodehealth.fleet.evaluate import FleetInput, Round, evaluate, next_round
from reconciler.nodehealth.fleet.failures import Rules
from reconciler.nodehealth.fleet.state import FleetNode, FleetState, HealthPhase
from reconciler.nodehealth.limits import rejudged_reports
from reconciler.nodehealth.policy import CheckRule, PolicyBook
from reconciler.nodehealth.report import NodeReport

WEEK = 7 * 86400.0
MAX_A_WEEK = 0.01
"""The share of nodes that a policy may take out of use in a week."""

_STEP = 60.0


class ReplayEvent(Struct, frozen=True, kw_only=True):
    """A node that the policy would have taken out of use, or proposed to. `refused`: the breaker said no."""

    at: float
    node: str
    check: str
    reason: str
    lane: str
    refused: str = ""


class Replay(Struct, frozen=True, kw_only=True):
    """The actions of a policy on the reports. `verdicts` are the phases at the end, by node."""

    nodes: int
    reports: int
    weeks: float
    events: tuple[ReplayEvent, ...]
    trips: tuple[str, ...]
    verdicts: Mapping[str, HealthPhase]

    @property
    def taken(self) -> tuple[str, ...]:
        """The nodes that were taken out of use, or would be if the proposals were merged."""
        return tuple(sorted({event.node for event in self.events if not event.refused}))

    @property
    def a_week(self) -> float:
        """Predicted quarantines in a week."""
        return sum(not event.refused for event in self.events) / self.weeks


class ReplayComparison(Struct, frozen=True, kw_only=True):
    """The differences of another policy: nodes whose verdict changes, with both phases."""

    changed: Mapping[str, tuple[HealthPhase, HealthPhase]]
    newly_quarantined: tuple[str, ...]


def catalogue_rules() -> Rules:
    """Return what the catalogue says about each check. Severity and action are those of each finding."""
    return {one.id: CheckRule(mode=one.mode, lane=one.lane) for one in CHECKS}


def replay(policies: PolicyBook, reports: Iterable[NodeReport], facts: Mapping[str, FleetNode], rules: Rules) -> Replay:
    """Evaluate the reports one minute after the other. Equal reports give equal results."""
    ordered = sorted(reports, key=lambda one: (one.measured_at, one.node))
    made: Round | None = None
    latest: dict[str, NodeReport] = {}
    events: list[ReplayEvent] = []
    trips: list[str] = []
    known: set[tuple[str, str]] = set()
    for now, batch in _steps(ordered):
        latest = {**latest, **rejudged_reports({one.node: one for one in batch}, facts, policies)}
        given = FleetInput(facts=facts, reports=latest, policies=policies, defaults=rules)
        made = (
            Round(given=given, evaluation=evaluate(given, FleetState(), now))
            if made is None
            else next_round(made, given, now)
        )
        events += _events(made.evaluation, {one.node for one in batch}, known, now)
        trips += [alert.reason for alert in made.evaluation.alerts]
    duration = ordered[-1].measured_at - ordered[0].measured_at if ordered else 0.0
    states = made.evaluation.state.nodes if made is not None else {}
    return Replay(
        nodes=len(facts),
        reports=len(ordered),
        weeks=max(duration, WEEK) / WEEK,
        events=tuple(events),
        trips=tuple(trips),
        verdicts={name: one.phase for name, one in sorted(states.items())},
    )


def _steps(ordered: Sequence[NodeReport]) -> Iterable[tuple[float, list[NodeReport]]]:
    batch: list[NodeReport] = []
    for report in ordered:
        if batch and (report.measured_at - batch[0].measured_at >= _STEP or report.node in {one.node for one in batch}):
            yield batch[-1].measured_at, batch
            batch = []
        batch.append(report)
    if batch:
        yield batch[-1].measured_at, batch


def _events(
    evaluation: FleetEvaluation, nodes: Iterable[str], known: set[tuple[str, str]], now: float
) -> Iterable[ReplayEvent]:
    """Yield the cases that begin for these nodes; `known` are the cases that go on, until the node is healthy again."""
    for name in sorted(nodes):
        decision = evaluation.decisions.get(name)
        if decision is None:
            continue
        if decision.phase is HealthPhase.HEALTHY and decision.proposal is None:
            known.difference_update({case for case in known if case[0] == name})
            continue
        is_fast = decision.phase is HealthPhase.QUARANTINED
        is_wanted = is_fast or decision.refused or decision.proposal is HealthProposal.QUARANTINE
        lane = "fast" if is_fast or decision.refused else "reviewed"
        case = (name, f"{lane} {'refused' if decision.refused else ''}")
        if is_wanted and case not in known:
            known.add(case)
            yield ReplayEvent(
                at=now, node=name, check=decision.check, reason=decision.reason, lane=lane, refused=decision.refused
            )


def compare_replays(current: Replay, candidate: Replay) -> ReplayComparison:
    """Return the differences between two policies."""
    names = sorted(candidate.verdicts.keys() | current.verdicts.keys())
    pairs = {
        name: (current.verdicts.get(name, HealthPhase.HEALTHY), candidate.verdicts.get(name, HealthPhase.HEALTHY))
        for name in names
    }
    return ReplayComparison(
        changed={name: pair for name, pair in pairs.items() if pair[0] is not pair[1]},
        newly_quarantined=tuple(name for name in candidate.taken if name not in set(current.taken)),
    )


def gate(candidate: Replay, comparison: ReplayComparison | None, listed: Iterable[str] = ()) -> tuple[str, ...]:
    """Return why a policy must not be merged; empty if it may.

    At most one percent of the nodes in a week, and no node is taken that the present policy leaves alone, unless
    somebody lists it: whether jobs run there is not known, which is not "no".
    """
    reasons = []
    most = MAX_A_WEEK * candidate.nodes
    if candidate.a_week > max(1.0, most):
        share = 100 * candidate.a_week / candidate.nodes
        reasons.append(
            f"{plural(round(candidate.a_week, 1), 'quarantine')} a week are {share:.1f} % of the nodes; "
            f"the limit is {100 * MAX_A_WEEK:.0f} %"
        )
    if comparison is not None:
        new = [name for name in comparison.newly_quarantined if name not in set(listed)]
        if new:
            more = f" and {len(new) - 5} more" if len(new) > 5 else ""  # noqa: PLR2004 - as many as a line holds
            reasons.append(f"takes nodes out of use that the current policy leaves alone: {', '.join(new[:5])}{more}")
    reasons += [f"trips the breaker: {trip}" for trip in dict.fromkeys(candidate.trips)]
    return tuple(reasons)
