"""Which messages about a fleet are new."""

from reconciler.nodehealth.exports.notices import notices, sent_after
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.state import FleetState, HealthPhase


def fleet(phase: HealthPhase, *, escalate: bool = False) -> FleetEvaluation:
    decision = HealthDecision(
        node="n1", phase=phase, before=phase, condition=ProblemStatus.TRUE, check="gpu.xid", escalate=escalate
    )
    return FleetEvaluation(state=FleetState(), decisions={"n1": decision})


def test_the_round_after_an_escalation_tells_nothing_again() -> None:
    """F-127: a decision escalates in one round, and the node stays quarantined in the next ones."""
    rounds = [
        fleet(HealthPhase.QUARANTINED),
        fleet(HealthPhase.QUARANTINED, escalate=True),
        fleet(HealthPhase.QUARANTINED),
        fleet(HealthPhase.VALIDATING),
        fleet(HealthPhase.HEALTHY),
    ]
    told: dict[str, str] = {}
    counts = []
    for one in rounds:
        new = notices(one, told)
        told = sent_after(told, new)
        counts.append(len(new))
    assert counts == [1, 1, 0, 1, 1]
    assert told == {}
