"""What happened to a node since the last round, in the order in which it counts."""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.core.health.fleet.history import confirmed
from reconciler.core.health.fleet.lifecycle import Signal
from reconciler.core.health.fleet.state import FleetNode, HealthPhase, NodeState
from reconciler.core.health.policy import HealthPolicy
from reconciler.core.health.quarantine import NodeQuarantine, Stage

_STAGES = {
    Stage.DRAIN: Signal.DRAIN,
    Stage.REPAIR: Signal.REPAIR,
    Stage.VALIDATE: Signal.VALIDATE,
    Stage.RETIRE: Signal.RETIRE,
}


class NodeSight(Struct, frozen=True, kw_only=True):
    """One node in one round. `state` has taken in the report already; `before` has not.

    quarantine: the merged one for this node. is_stale: the report is too old to say anything.
    """

    facts: FleetNode
    policy: HealthPolicy
    before: NodeState
    state: NodeState
    quarantine: NodeQuarantine | None = None
    stale_quarantine: NodeQuarantine | None = None
    is_replaced: bool = False
    is_stale: bool = False

    @property
    def acts(self) -> bool:
        """Whether we may touch the node: nobody else repairs it."""
        return not self.facts.owner and self.policy.remediation != "provider"

    @property
    def confirmations(self) -> int:
        """The reports that must agree. During the probation one is enough."""
        return 1 if self.state.phase is HealthPhase.PROBATION else self.policy.lifecycle.confirmations


def signals(sight: NodeSight, now: float, *, is_admitted: bool) -> Iterator[Signal]:
    """Yield what happened: first what people decided, then what was measured; at most one of the latter."""
    if sight.is_replaced:
        yield Signal.REPLACED
    decided = [*_decided(sight)]
    yield from decided
    if decided and sight.quarantine is None:
        return
    measured = _measured(sight, now, is_admitted=is_admitted)
    if measured is not None:
        yield measured


def _decided(sight: NodeSight) -> Iterator[Signal]:
    """Yield what Git and people say."""
    merged, state = sight.quarantine, sight.state
    if merged is not None:
        if merged.takes_node and not state.phase.is_out:
            yield Signal.MERGED
        if merged.stage in _STAGES and not _was_done(merged.stage, state.phase):
            yield _STAGES[merged.stage]
    elif state.merged:
        yield Signal.RELEASED
    elif state.ours and sight.facts.unfenced:
        yield Signal.OVERRIDDEN


def _was_done(stage: Stage, phase: HealthPhase) -> bool:
    """Say whether the node is past a stage, which the file still names."""
    done = {
        Stage.DRAIN: (HealthPhase.DRAINING, HealthPhase.REMEDIATING, HealthPhase.VALIDATING),
        Stage.REPAIR: (HealthPhase.REMEDIATING, HealthPhase.VALIDATING),
        Stage.VALIDATE: (HealthPhase.VALIDATING,),
    }
    return phase in done.get(stage, ())


def _measured(sight: NodeSight, now: float, *, is_admitted: bool) -> Signal | None:
    if is_admitted:
        return Signal.FENCED
    if sight.is_stale:  # pods are counted all the same
        return Signal.DRAINED if _is_drained(sight) else None
    if _has_expired(sight, now):
        return Signal.RELEASED
    state, before = sight.state, sight.before
    is_rebooted = bool(before.boot_id and before.boot_id != state.boot_id and not sight.is_replaced)
    if is_rebooted and state.phase.is_out and state.phase is not HealthPhase.VALIDATING:
        return Signal.REBOOTED
    return next((signal for signal, holds in _of_phase(sight, now) if holds), None)


def _of_phase(sight: NodeSight, now: float) -> Iterator[tuple[Signal, bool]]:
    """Yield the signals that the phase of a node waits for, and whether they hold."""
    state = sight.state
    match state.phase:
        case HealthPhase.HEALTHY:
            yield Signal.SUSPECTED, any(one.is_failing for one in state.failures)
        case HealthPhase.VALIDATING:
            yield Signal.SUSPECTED, any(confirmed(state, sight.confirmations))
            yield Signal.VALIDATED, sight.quarantine is None and state.validated_at > state.since
        case HealthPhase.DRAINING:
            yield Signal.DRAINED, _is_drained(sight)
        case HealthPhase.PROBATION:
            yield Signal.SURVIVED, _is_over(sight, now)
        case HealthPhase.SUSPECT | HealthPhase.QUARANTINED:
            yield Signal.RECOVERED, not state.failures
        case _:
            return


def _is_drained(sight: NodeSight) -> bool:
    return sight.state.phase is HealthPhase.DRAINING and sight.facts.drained


def _has_expired(sight: NodeSight, now: float) -> bool:
    """Say whether our taint ended without a merge, and the check passes. While it fails, the taint is renewed."""
    state = sight.state
    failing = any(one.is_failing for one in state.failures)
    return state.ours and sight.quarantine is None and 0 < state.until <= now and not failing


def _is_over(sight: NodeSight, now: float) -> bool:
    """Say whether a probation is over: long enough, or enough jobs ended well, and nothing fails."""
    life, state = sight.policy.lifecycle, sight.state
    if any(one.is_failing for one in state.failures):
        return False
    return now - state.since >= life.probation or 0 < life.probation_jobs <= sight.facts.jobs
