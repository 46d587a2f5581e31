"""`reconciler health explain`: the chain from a reading to its consequence."""

import pytest
from msgspec.structs import replace

from reconciler.health.pages.explained import NodeExplanation, explanation_json, render_explanation
from reconciler.nodehealth.fleet.decisions import HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.state import HealthPhase, NodeState
from reconciler.nodehealth.policy import HealthPolicy, LifecycleLimits, NodeExpectation


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


@pytest.mark.parametrize(
    ("limit", "jobs", "words"),
    [
        (3, 2, "probation ends in 20 h, or after 1 more job without a failure, if no check fails"),
        (3, 0, "probation ends in 20 h, or after 3 more jobs without a failure, if no check fails"),
        (0, 9, "probation ends in 20 h, if no check fails"),
    ],
)
def test_the_end_of_a_probation(limit: int, jobs: int, words: str) -> None:
    policy = HealthPolicy(lifecycle=LifecycleLimits(probation=86400.0, probation_jobs=limit))
    one = replace(explained(HealthPhase.PROBATION, ProblemStatus.FALSE), policy=policy, jobs=jobs)
    assert words in render_explanation(one, 4 * 3600.0, width=120)


def test_what_is_expected_of_a_node() -> None:
    expected = NodeExpectation(
        gpus=8,
        drivers=("570.1", "580.2"),
        denied_drivers=("560.3",),
        nvlinks=18,
        pcie_width=16,
        origin="base",
    )
    one = replace(explained(HealthPhase.HEALTHY, ProblemStatus.FALSE), policy=HealthPolicy(expected=expected))
    text = " ".join(render_explanation(one, 0.0, width=200).split())
    assert ("expected: 8 GPUs, driver 570.1 or 580.2, not driver 560.3, 18 NVLinks per GPU, PCIe x16 (base)") in text
