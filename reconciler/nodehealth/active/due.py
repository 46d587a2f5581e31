"""The nodes that are due for a deep run: their validation needs one, or their agents ask for one. A few at one time."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision
from reconciler.nodehealth.fleet.evaluate import FleetInput, is_stale
from reconciler.nodehealth.fleet.state import HealthPhase, NodeState
from reconciler.nodehealth.report import NodeReport

RETRY_SECONDS = 3600.0
"""The least time between two starts on one node, whatever became of the first."""


class DueRuns(Struct, frozen=True, kw_only=True):
    """The nodes that are due, those of open cases first, and how many may start now."""

    nodes: tuple[str, ...] = ()
    free: int = 0


def is_requested(report: NodeReport, now: float, profile: ProbeProfile = ProbeProfile.DEEP) -> bool:
    """Say whether the agent asks for a run that has not begun."""
    run = report.run(profile)
    if run is None or run.is_running(now):
        return False
    return run.requested_at > max(run.started_at, run.finished_at)


def due_runs(
    given: FleetInput, evaluation: FleetEvaluation, started: Mapping[str, float], now: float, *, seconds: float
) -> DueRuns:
    """Return what is due. `started`: when we last started a run on a node; one takes `seconds` at most."""
    reports = given.reports
    running = {node for node in given.facts if _is_running(reports.get(node), started.get(node, 0.0), now, seconds)}
    due = [
        (decision.phase is not HealthPhase.VALIDATING, node)
        for node, decision in evaluation.decisions.items()
        if node not in running and now - started.get(node, 0.0) >= RETRY_SECONDS
        if _is_due(given, decision, evaluation.state.nodes[node], now)
    ]
    free = max(given.policies.base.deep_runs.at_once - len(running), 0)
    return DueRuns(nodes=tuple(node for _, node in sorted(due)), free=free)


def _is_due(given: FleetInput, decision: HealthDecision, state: NodeState, now: float) -> bool:
    """Say whether a node needs a run and may get it. Without a current report its agent could not tell the result."""
    policy = given.policies.of_labels(given.facts[decision.node].labels)
    report = given.reports.get(decision.node)
    if decision.observes_only or not policy.deep_runs.enabled:
        return False
    if report is None or report.measured_at != state.measured_at or is_stale(state, policy.lifecycle.stale_after, now):
        return False
    needs_pass = decision.phase is HealthPhase.VALIDATING and state.validated_at <= state.since
    return needs_pass or is_requested(report, now)


def _is_running(report: NodeReport | None, started: float, now: float, seconds: float) -> bool:
    """Say whether a run goes on, or was started and may still begin. One that died ends at its deadline."""
    run = report.run(ProbeProfile.DEEP) if report is not None else None
    if run is not None and run.is_running(now):
        return True
    has_ended = run is not None and run.finished_at >= started
    return bool(started) and now - started < seconds and not has_ended
