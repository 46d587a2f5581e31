"""The lifecycle of a node: the signals of a round, and the phase that follows each. All other phases stay."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from reconciler.nodehealth.fleet.state import FleetNode, HealthPhase, NodeState, confirmed
from reconciler.nodehealth.policy import HealthPolicy
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage


class Signal(StrEnum):
    """An event of a node."""

    SUSPECTED = "suspected"  # a check failed
    FENCED = "fenced"  # a fast rule confirmed it, and the breaker let it through
    MERGED = "merged"  # its quarantine is in Git
    DRAIN = "drain"  # its quarantine in Git says so, as of the next three
    REPAIR = "repair"
    VALIDATE = "validate"
    RETIRE = "retire"
    DRAINED = "drained"  # no pods with GPUs run there any more
    REBOOTED = "rebooted"
    RECOVERED = "recovered"  # every failure ended
    VALIDATED = "validated"  # a deep pass
    RELEASED = "released"  # its quarantine left Git, or our taint expired while the check passes
    OVERRIDDEN = "overridden"  # a person removed our taint
    WITHDRAWN = "withdrawn"  # the policy of today has no fast rule for what it was fenced for
    SURVIVED = "survived"  # the probation is over
    REPLACED = "replaced"  # another node has the name, or another GPU the slot


P, S = HealthPhase, Signal

_AGAIN = {S.VALIDATE: P.VALIDATING, S.REBOOTED: P.VALIDATING}
_BACK = {S.RELEASED: P.PROBATION, S.OVERRIDDEN: P.HEALTHY, S.WITHDRAWN: P.SUSPECT}
_NEXT: Mapping[HealthPhase, Mapping[Signal, HealthPhase]] = {
    P.HEALTHY: {S.SUSPECTED: P.SUSPECT, S.FENCED: P.QUARANTINED, S.MERGED: P.QUARANTINED},
    P.SUSPECT: {S.FENCED: P.QUARANTINED, S.MERGED: P.QUARANTINED, S.RECOVERED: P.HEALTHY},
    P.QUARANTINED: {S.DRAIN: P.DRAINING, S.REPAIR: P.REMEDIATING, S.RECOVERED: P.VALIDATING, **_AGAIN, **_BACK},
    P.DRAINING: {S.DRAINED: P.REMEDIATING, S.REPAIR: P.REMEDIATING, **_AGAIN, **_BACK},
    P.REMEDIATING: {**_AGAIN, **_BACK},
    P.VALIDATING: {S.FENCED: P.QUARANTINED, S.SUSPECTED: P.QUARANTINED, S.VALIDATED: P.PROBATION, **_BACK},
    P.PROBATION: {S.FENCED: P.QUARANTINED, S.MERGED: P.QUARANTINED, S.SURVIVED: P.HEALTHY},
    P.RETIRED: {},
}
TRANSITIONS: Mapping[tuple[HealthPhase, Signal], HealthPhase] = {
    **{(phase, signal): after for phase, row in _NEXT.items() for signal, after in row.items()},
    **{(phase, S.RETIRE): P.RETIRED for phase in P if phase is not P.RETIRED},
    **{(phase, S.REPLACED): P.HEALTHY for phase in P},
}
"""Every transition. A signal that a phase does not know changes nothing."""


def follow(phase: HealthPhase, signal: Signal | None) -> HealthPhase:
    """Return the phase after a signal."""
    return phase if signal is None else TRANSITIONS.get((phase, signal), phase)


_STAGES = {
    Stage.DRAIN: Signal.DRAIN,
    Stage.REPAIR: Signal.REPAIR,
    Stage.VALIDATE: Signal.VALIDATE,
    Stage.RETIRE: Signal.RETIRE,
}


class NodeView(Struct, frozen=True, kw_only=True):
    """One node in one round. `state` has taken in the report already; `before` has not.

    quarantine: the merged one for this node. is_stale: the report is too old to say anything. is_bound: it is surely
    about this machine. is_withdrawn: our taint has no rule any more.
    """

    facts: FleetNode
    policy: HealthPolicy
    before: NodeState
    state: NodeState
    quarantine: NodeQuarantine | None = None
    stale_quarantine: NodeQuarantine | None = None
    is_replaced: bool = False
    is_stale: bool = False
    is_bound: bool = False
    is_withdrawn: bool = False

    @property
    def acts(self) -> bool:
        """True if we may touch the node: nobody else repairs it."""
        return not self.facts.owner and self.policy.remediation != "provider"

    @property
    def confirmations(self) -> int:
        """The reports that must agree. During the probation one is enough."""
        return 1 if self.state.phase is HealthPhase.PROBATION else self.policy.lifecycle.confirmations


def signals(view: NodeView, now: float, *, is_admitted: bool) -> Iterator[Signal]:
    """Yield the signals: first the decisions of people, then measurements; at most one of the latter."""
    if view.is_replaced:
        yield Signal.REPLACED
    decided = [*_decided(view)]
    yield from decided
    if decided and view.quarantine is None:
        return
    measured = _measured(view, now, is_admitted=is_admitted)
    if measured is not None:
        yield measured


def _decided(view: NodeView) -> Iterator[Signal]:
    """Yield the decisions of Git and people."""
    merged, state = view.quarantine, view.state
    if merged is not None:
        if merged.takes_node and not state.phase.is_out:
            yield Signal.MERGED
        if merged.stage in _STAGES and not _was_done(merged.stage, state.phase):
            yield _STAGES[merged.stage]
    elif state.merged:
        yield Signal.RELEASED
    elif state.ours and view.facts.unfenced:
        yield Signal.OVERRIDDEN
    elif view.is_withdrawn:
        yield Signal.WITHDRAWN


def _was_done(stage: Stage, phase: HealthPhase) -> bool:
    """Say whether the node is past a stage, which the file still names."""
    done = {
        Stage.DRAIN: (HealthPhase.DRAINING, HealthPhase.REMEDIATING, HealthPhase.VALIDATING),
        Stage.REPAIR: (HealthPhase.REMEDIATING, HealthPhase.VALIDATING),
        Stage.VALIDATE: (HealthPhase.VALIDATING,),
    }
    return phase in done.get(stage, ())


def _measured(view: NodeView, now: float, *, is_admitted: bool) -> Signal | None:
    if is_admitted:
        return Signal.FENCED
    if view.is_stale:  # pods are counted all the same, and what was seen is told
        is_seen = view.state.phase is HealthPhase.HEALTHY and any(one.is_failing for one in view.state.failures)
        return Signal.DRAINED if _is_drained(view) else Signal.SUSPECTED if is_seen else None
    if _has_expired(view, now):
        return Signal.RELEASED
    state, before = view.state, view.before
    is_rebooted = bool(before.boot_id and before.boot_id != state.boot_id and not view.is_replaced)
    if is_rebooted and state.phase.is_out and state.phase is not HealthPhase.VALIDATING:
        return Signal.REBOOTED
    return next((signal for signal, holds in _of_phase(view, now) if holds), None)


def _of_phase(view: NodeView, now: float) -> Iterator[tuple[Signal, bool]]:
    """Yield the signals that the phase of a node waits for, and whether they hold."""
    state = view.state
    match state.phase:
        case HealthPhase.HEALTHY:
            yield Signal.SUSPECTED, any(one.is_failing for one in state.failures)
        case HealthPhase.VALIDATING:
            yield Signal.SUSPECTED, any(confirmed(state, view.confirmations))
            is_tested = view.quarantine is None and state.validated_at > state.since
            yield Signal.VALIDATED, is_tested and not needs_a_person(view, now)
        case HealthPhase.DRAINING:
            yield Signal.DRAINED, _is_drained(view)
        case HealthPhase.PROBATION:
            yield Signal.SURVIVED, _is_over(view, now)
        case HealthPhase.SUSPECT | HealthPhase.QUARANTINED:
            yield Signal.RECOVERED, not state.failures
        case _:
            return


def _is_drained(view: NodeView) -> bool:
    return view.state.phase is HealthPhase.DRAINING and view.facts.drained


def _has_expired(view: NodeView, now: float) -> bool:
    """Say whether our taint ended without a merge, and the check passes. While it fails, the taint is renewed."""
    state = view.state
    failing = any(one.is_failing for one in state.failures)
    has_ended = state.ours and view.quarantine is None and 0 < state.until <= now
    return has_ended and not failing and not needs_a_person(view, now)


def needs_a_person(view: NodeView, now: float) -> bool:
    """Say whether the node came back too often to do so again by itself; so it is until somebody decides."""
    life = view.policy.lifecycle
    return view.state.waits or view.state.returned(now, life.return_window) >= life.inspect_after


def _is_over(view: NodeView, now: float) -> bool:
    """Say whether a probation is over: long enough, or enough jobs ended well, and nothing fails."""
    life, state = view.policy.lifecycle, view.state
    if any(one.is_failing for one in state.failures):
        return False
    return now - state.since >= life.probation or 0 < life.probation_jobs <= view.facts.jobs
