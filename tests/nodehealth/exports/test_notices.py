"""Which messages about a fleet are new."""

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.messages import NoticeFormat, send
from reconciler.nodehealth.exports.notices import notices
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.state import FleetState, HealthPhase, NodeState

RECEIVER: Any = SimpleNamespace(post=lambda _: None)
SUSPECT, FENCED = HealthPhase.SUSPECT, HealthPhase.QUARANTINED


def fleet(phase: HealthPhase, days: int = 0) -> FleetEvaluation:
    decision = HealthDecision(node="n1", phase=phase, before=phase, condition=ProblemStatus.TRUE, check="gpu.xid")
    return FleetEvaluation(state=FleetState(nodes={"n1": NodeState(renewals=days)}), decisions={"n1": decision})


@pytest.mark.parametrize(
    ("rounds", "counts"),
    [
        (
            [(FENCED, 0), (FENCED, 1), (FENCED, 1), (FENCED, 2), (HealthPhase.VALIDATING, 2), (HealthPhase.HEALTHY, 0)],
            [1, 1, 0, 1, 1, 1],
        ),
        ([(SUSPECT, 0), (SUSPECT, 1), (SUSPECT, 1), (SUSPECT, 2), (HealthPhase.HEALTHY, 0)], [0, 1, 0, 1, 1]),
    ],
    ids=["quarantined", "proposed"],
)
def test_a_day_without_a_decision_is_told_once(rounds: list[tuple[HealthPhase, int]], counts: list[int]) -> None:
    """F-127: a suspect alone is no message; each day in which nobody decides is one, and so is the end."""
    told: dict[str, str] = {}
    found = []
    for phase, days in rounds:
        new = notices(fleet(phase, days), told)
        told = send(new, told, [(RECEIVER, NoticeFormat.JSON)], pytest.fail)
        found.append(len(new))
    assert (found, told) == (counts, {})
