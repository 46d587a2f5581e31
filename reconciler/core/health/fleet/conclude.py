"""What follows from the phase of a node: condition, taint, and what is proposed, in words for people."""

import datetime as dt
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from reconciler.core.health.findings import ProbeProfile, RepairAction
from reconciler.core.health.fleet.decisions import HealthDecision, HealthProposal, ProblemStatus
from reconciler.core.health.fleet.history import confirmed
from reconciler.core.health.fleet.signals import NodeSight
from reconciler.core.health.fleet.state import BreakerState, CheckFailure, HealthPhase, NodeState
from reconciler.core.health.quarantine import Stage, TaintEffect
from reconciler.core.values import plural


def is_stale(state: NodeState, limit: float, now: float) -> bool:
    """Say whether the newest report is too old to say anything; so is none at all."""
    return not state.measured_at or now - state.measured_at > limit


def conclude(
    sight: NodeSight, state: NodeState, refused: str, breaker: BreakerState, now: float
) -> tuple[NodeState, HealthDecision]:
    """Return the state as it is kept, and the decision about the node."""
    state = _renewed(sight, replace(state, merged=sight.quarantine is not None), now)
    if state.override_until and state.override_until <= now:
        state = replace(state, override_until=0.0)
    failures = tuple(confirmed(state, sight.confirmations)) or tuple(one for one in state.failures if one.is_failing)
    worst = failures[0] if failures else None
    reason = _reason(sight, state, worst, refused)
    return state, HealthDecision(
        node=sight.facts.name,
        phase=state.phase,
        before=sight.before.phase,
        condition=_condition(sight, state),
        reason=reason,
        check=_check(sight, worst),
        slots=tuple(sorted({one.slot for one in failures if one.slot})),
        taint=_taint(sight, state),
        until=state.until,
        proposal=_proposal(sight, state, breaker, now),
        action=worst.action if worst is not None else RepairAction.NONE,
        refused=refused,
        escalate=state.renewals > sight.before.renewals,
        observes_only=not sight.acts,
        evidence=_digest(state) if state.failures or state.phase.is_out else "",
    )


def _renewed(sight: NodeSight, state: NodeState, now: float) -> NodeState:
    """Prolong our taint if it would end while the check fails, or while its state is unknown."""
    if not state.ours or state.merged or not state.phase.is_out or not 0 < state.until <= now:
        return state
    return replace(state, until=now + sight.policy.lifecycle.ttl, renewals=state.renewals + 1)


def _condition(sight: NodeSight, state: NodeState) -> ProblemStatus:
    if any(one.is_failing for one in state.failures) or state.phase.is_out:
        return ProblemStatus.TRUE
    return ProblemStatus.UNKNOWN if sight.is_stale else ProblemStatus.FALSE


def _taint(sight: NodeSight, state: NodeState) -> TaintEffect | None:
    if not sight.acts:
        return None
    if sight.quarantine is not None:
        return sight.quarantine.effect
    if state.phase.is_out:
        return TaintEffect.NO_SCHEDULE if state.ours else None
    if state.override_until:
        return None
    flight = (ProbeProfile.PREFLIGHT, ProbeProfile.POSTFLIGHT)
    floors = [one for one in state.failures if one.is_failing and one.enforced and one.profile in flight]
    return TaintEffect.PREFER_NO_SCHEDULE if floors else None


def _proposal(sight: NodeSight, state: NodeState, breaker: BreakerState, now: float) -> HealthProposal | None:
    if sight.stale_quarantine is not None:
        return HealthProposal.REMOVE_STALE
    if sight.acts and sight.quarantine is not None:
        return _next_step(sight.quarantine.stage, state)
    agreed = next(confirmed(state, sight.confirmations), None)
    is_ours = state.ours and state.phase.is_out
    is_frozen = agreed is not None and agreed.check in breaker.frozen
    if not sight.acts or state.override_until or is_frozen or not (agreed or is_ours):
        return None
    life = sight.policy.lifecycle
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


def _check(sight: NodeSight, worst: CheckFailure | None) -> str:
    if worst is not None:
        return worst.check
    if sight.quarantine is not None:
        return sight.quarantine.check
    return ""


def _reason(sight: NodeSight, state: NodeState, worst: CheckFailure | None, refused: str) -> str:
    parts = []
    if worst is not None:
        parts.append(f"{worst.check}{f' on {worst.slot}' if worst.slot else ''}: {worst.message or 'failed'}")
    elif sight.quarantine is not None:
        parts.append(sight.quarantine.reason)
    parts += _drain(sight, state)
    if refused:
        parts.append(f"not quarantined: {refused}")
    if state.override_until:
        parts.append("a person removed our taint, so nothing is done for now")
    if not sight.acts:
        owner = sight.facts.owner or "the provider"
        parts.append(f"{owner} repairs this node; we only report")
    if sight.stale_quarantine is not None:
        parts.append(f"the quarantine {sight.stale_quarantine.name} is for an earlier node of this name")
    if state.renewals:
        parts.append(f"nobody has confirmed it; our taint was prolonged {plural(state.renewals, 'time')}")
    if sight.is_stale:
        parts.append(_silence(state))
    return "; ".join(parts)


def _drain(sight: NodeSight, state: NodeState) -> list[str]:
    """Say how far the drain is that Git asks for."""
    if state.phase is HealthPhase.DRAINING:
        return ["pods with GPUs are left on the node"]
    if sight.quarantine is not None and _is_drained(sight.quarantine.stage, state):
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
