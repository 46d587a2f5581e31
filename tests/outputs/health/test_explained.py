"""`reconciler health explain`: the chain from a reading to its consequence."""

import pytest

from reconciler.core.health.fleet.decisions import HealthDecision, ProblemStatus
from reconciler.core.health.fleet.state import HealthPhase, NodeState
from reconciler.core.health.policy import HealthPolicy
from reconciler.outputs.health.explained import NodeExplanation, explanation_json, render_explanation


def explained(phase: HealthPhase, condition: ProblemStatus) -> NodeExplanation:
    decision = HealthDecision(node="n1", phase=phase, before=phase, condition=condition)
    return NodeExplanation(cluster="main", decision=decision, state=NodeState(phase=phase), policy=HealthPolicy())


@pytest.mark.parametrize(
    ("phase", "condition", "word"),
    [
        (HealthPhase.HEALTHY, ProblemStatus.UNKNOWN, "unknown"),
        (HealthPhase.HEALTHY, ProblemStatus.FALSE, "healthy"),
        (HealthPhase.QUARANTINED, ProblemStatus.UNKNOWN, "quarantined"),
    ],
)
def test_a_node_without_a_current_report_is_never_healthy(
    phase: HealthPhase, condition: ProblemStatus, word: str
) -> None:
    """F-098: as in the list of nodes. What the node says of itself stays as it is."""
    one = explained(phase, condition)
    text = render_explanation(one, 0.0)
    assert text.startswith(f"n1 on main: {word}\n")
    assert explanation_json(one, 0.0)["phase"] == word
    assert (f"label gpureconciler.io/health={word}" in text) is (word != "unknown")
    assert "=healthy" not in text or word == "healthy"
