"""The decisions of the evaluator about each node, which the two lanes carry out."""

from enum import StrEnum

from msgspec import Struct

from reconciler.nodehealth.findings import RepairAction
from reconciler.nodehealth.fleet.state import FleetState, HealthPhase
from reconciler.nodehealth.quarantine import TaintEffect


class HealthProposal(StrEnum):
    """A change of the config repository that somebody has to merge."""

    QUARANTINE = "quarantine"  # keep the node out of use
    RELEASE = "release"  # delete its quarantine after a deep pass
    REMOVE_STALE = "remove-stale"  # delete the quarantine of a node that is gone
    INSPECT = "inspect"  # it came back and failed again
    SUPPORT = "support"  # it did so too often
    REMEDIATE = "remediate"  # repair the node, which is drained


class ProblemStatus(StrEnum):
    """The status of the node condition `GPUProblem`."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class HealthDecision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision about one node, and its reason.

    taint: what the fast lane puts on the node; None: our taint does not belong there. until: its end.
    refused: why the breaker did not let the quarantine through. escalate: somebody must look at it.
    observes_only: another system repairs this node, so nothing is written but condition and alert.
    """

    node: str
    phase: HealthPhase
    before: HealthPhase
    condition: ProblemStatus
    reason: str = ""
    check: str = ""
    slots: tuple[str, ...] = ()
    taint: TaintEffect | None = None
    until: float = 0.0
    proposal: HealthProposal | None = None
    action: RepairAction = RepairAction.NONE
    refused: str = ""
    escalate: bool = False
    observes_only: bool = False
    evidence: str = ""

    @property
    def changed(self) -> bool:
        """True if the node enters another phase."""
        return self.phase is not self.before


class BreakerAlert(Struct, frozen=True, kw_only=True):
    """One thing for a person: the breaker tripped, or a check is frozen. `nodes` are those it was about."""

    reason: str
    check: str = ""
    nodes: tuple[str, ...] = ()
    common: tuple[str, ...] = ()  # labels that all of these nodes share, and not all others


class FleetEvaluation(Struct, frozen=True, kw_only=True):
    """The result of one round: the new state, a decision for each node, alerts, and notes about what has no effect."""

    state: FleetState
    decisions: dict[str, HealthDecision]
    alerts: tuple[BreakerAlert, ...] = ()
    notes: tuple[str, ...] = ()
