"""Decisions about nodes as marks: what the node object says of a phase."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.health.findings import ProbeProfile
from reconciler.core.health.fleet.decisions import HealthDecision, ProblemStatus
from reconciler.core.health.fleet.state import NodeState
from reconciler.core.health.nodes.mark import (
    AUTOSCALER_TAINT,
    PROBLEM,
    TAINT,
    HealthTaint,
    NodeMark,
    condition_reason,
)
from reconciler.core.health.quarantine import TaintEffect

_MESSAGE_LENGTH = 1000
_ENDLESS = 0.0


def node_mark(
    decision: HealthDecision,
    state: NodeState,
    body: Mapping[str, Any],
    *,
    case: str,
    policy: str = "",
    autoscaler: bool = False,
) -> NodeMark | None:
    """Return what a node shall say; None where nothing is known of it and nothing was ever written.

    A stale report changes no condition: it stays, and its message says since when the state is unknown. Only a merged
    quarantine may evict; the fast lane never does.
    """
    is_problem = decision.condition is ProblemStatus.TRUE
    before = _problem_before(body)
    if decision.condition is ProblemStatus.UNKNOWN:
        if before is None and decision.taint is None:
            return None
        is_problem = before == "True"
    reason = condition_reason(decision.check) if is_problem else "NoProblem"
    if decision.condition is ProblemStatus.UNKNOWN:
        reason = "ReportMissing"
    return NodeMark(
        node=decision.node,
        uid=body["metadata"]["uid"],
        state=decision.phase.value,
        is_problem=is_problem,
        reason=reason or "GpuProblem",
        message=(decision.reason or "no check reports a problem")[:_MESSAGE_LENGTH],
        validated=_validated(state),
        taint=_taint(decision, state, case, policy, autoscaler=autoscaler),
    )


def _taint(
    decision: HealthDecision, state: NodeState, case: str, policy: str, *, autoscaler: bool
) -> HealthTaint | None:
    if decision.taint is None:
        return None
    evicts = decision.taint is TaintEffect.NO_EXECUTE and state.merged
    effect = TaintEffect.NO_SCHEDULE if decision.taint is TaintEffect.NO_EXECUTE and not evicts else decision.taint
    return HealthTaint(
        reason=decision.check or "quarantine",
        case=case,
        since=state.since,
        until=decision.until or _ENDLESS,
        effect=effect.value,
        policy=policy,
        key=AUTOSCALER_TAINT if autoscaler else TAINT,
        keep=autoscaler,
    )


def _validated(state: NodeState) -> bool | None:
    heavy = [one for one in state.failures if one.profile.weight >= ProbeProfile.DEEP.weight and one.is_failing]
    if heavy:
        return False
    return True if state.validated_at else None


def _problem_before(body: Mapping[str, Any]) -> str | None:
    rows = (body.get("status") or {}).get("conditions") or ()
    return next((row.get("status") for row in rows if row.get("type") == PROBLEM), None)
