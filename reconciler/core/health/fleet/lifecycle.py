"""The lifecycle of a node: which phase follows which, on which signal. Everything else stays where it is."""

from collections.abc import Mapping
from enum import StrEnum

from reconciler.core.health.fleet.state import HealthPhase


class Signal(StrEnum):
    """What happened to a node."""

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
    SURVIVED = "survived"  # the probation is over
    REPLACED = "replaced"  # another node has the name, or another GPU the slot


P, S = HealthPhase, Signal

TRANSITIONS: Mapping[tuple[HealthPhase, Signal], HealthPhase] = {
    (P.HEALTHY, S.SUSPECTED): P.SUSPECT,
    (P.HEALTHY, S.FENCED): P.QUARANTINED,
    (P.HEALTHY, S.MERGED): P.QUARANTINED,
    (P.SUSPECT, S.FENCED): P.QUARANTINED,
    (P.SUSPECT, S.MERGED): P.QUARANTINED,
    (P.SUSPECT, S.RECOVERED): P.HEALTHY,
    (P.QUARANTINED, S.DRAIN): P.DRAINING,
    (P.QUARANTINED, S.REPAIR): P.REMEDIATING,
    (P.QUARANTINED, S.VALIDATE): P.VALIDATING,
    (P.QUARANTINED, S.REBOOTED): P.VALIDATING,
    (P.QUARANTINED, S.RECOVERED): P.VALIDATING,
    (P.QUARANTINED, S.RELEASED): P.PROBATION,
    (P.QUARANTINED, S.OVERRIDDEN): P.HEALTHY,
    (P.DRAINING, S.DRAINED): P.REMEDIATING,
    (P.DRAINING, S.REPAIR): P.REMEDIATING,
    (P.DRAINING, S.VALIDATE): P.VALIDATING,
    (P.DRAINING, S.REBOOTED): P.VALIDATING,
    (P.DRAINING, S.RELEASED): P.PROBATION,
    (P.DRAINING, S.OVERRIDDEN): P.HEALTHY,
    (P.REMEDIATING, S.VALIDATE): P.VALIDATING,
    (P.REMEDIATING, S.REBOOTED): P.VALIDATING,
    (P.REMEDIATING, S.RELEASED): P.PROBATION,
    (P.REMEDIATING, S.OVERRIDDEN): P.HEALTHY,
    (P.VALIDATING, S.FENCED): P.QUARANTINED,
    (P.VALIDATING, S.SUSPECTED): P.QUARANTINED,  # it is out of use already
    (P.VALIDATING, S.VALIDATED): P.PROBATION,
    (P.VALIDATING, S.RELEASED): P.PROBATION,
    (P.VALIDATING, S.OVERRIDDEN): P.HEALTHY,
    (P.PROBATION, S.FENCED): P.QUARANTINED,
    (P.PROBATION, S.MERGED): P.QUARANTINED,
    (P.PROBATION, S.SURVIVED): P.HEALTHY,
    **{(phase, S.RETIRE): P.RETIRED for phase in P if phase is not P.RETIRED},
    **{(phase, S.REPLACED): P.HEALTHY for phase in P},
}
"""Every transition. A signal that a phase does not know changes nothing."""


def follow(phase: HealthPhase, signal: Signal | None) -> HealthPhase:
    """Return the phase after a signal."""
    return phase if signal is None else TRANSITIONS.get((phase, signal), phase)
