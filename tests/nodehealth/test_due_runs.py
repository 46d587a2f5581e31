"""Which nodes are due for a deep run: what policies allow, what agents ask for, what a validation needs."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.nodehealth.active.due import RETRY_SECONDS, DueRuns, due_runs
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.evaluate import FleetInput
from reconciler.nodehealth.fleet.state import FleetNode, FleetState, HealthPhase, NodeState
from reconciler.nodehealth.policy import PolicyBook, PolicyDocument
from reconciler.nodehealth.report import NodeReport, ProfileRun
from tests.nodehealth.reports import NOW

ASKED = ProfileRun(profile=ProbeProfile.DEEP, requested_at=NOW - 5)
RUNNING = replace(ASKED, started_at=NOW - 60, deadline=NOW + 60)
ENABLED: dict[str, Any] = {"deepRuns": {"enabled": True, "atOnce": 2}}


def due(
    *reports: NodeReport,
    spec: dict[str, Any] = ENABLED,
    started: dict[str, float] | None = None,
    phase: HealthPhase = HealthPhase.HEALTHY,
    validated_at: float = 0.0,
    observes_only: bool = False,
) -> DueRuns:
    names = [one.node for one in reports]
    decisions = {
        name: HealthDecision(
            node=name, phase=phase, before=phase, condition=ProblemStatus.FALSE, observes_only=observes_only
        )
        for name in names
    }
    state = NodeState(phase=phase, since=NOW - 100, measured_at=NOW - 10, validated_at=validated_at)
    return due_runs(
        FleetInput(
            facts={name: FleetNode(name=name) for name in names},
            reports={one.node: one for one in reports},
            policies=PolicyBook([PolicyDocument(name="base", spec=spec)]),
        ),
        FleetEvaluation(state=FleetState(nodes=dict.fromkeys(names, state)), decisions=decisions),
        started or {},
        NOW,
        seconds=1800,
    )


def asking(node: str, *runs: ProfileRun, measured_at: float = NOW - 10) -> NodeReport:
    return NodeReport(node=node, measured_at=measured_at, runs=runs)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("a",)),
        ({"spec": {}}, ()),
        ({"observes_only": True}, ()),
        ({"started": {"a": NOW - RETRY_SECONDS + 1}}, ()),
        ({"started": {"a": NOW - RETRY_SECONDS}}, ("a",)),
    ],
    ids=["allowed", "no policy", "repaired by others", "tried just now", "tried an hour ago"],
)
def test_an_agent_that_asks_gets_a_run(given: dict[str, Any], expected: tuple[str, ...]) -> None:
    """F-089."""
    assert due(asking("a", ASKED), **given).nodes == expected


def test_a_validation_needs_a_pass_that_is_newer_than_itself() -> None:
    """F-089, F-096: without one the node gets a run; it comes before those that only ask."""
    validating: dict[str, Any] = {"phase": HealthPhase.VALIDATING}
    assert due(asking("a"), **validating).nodes == ("a",)
    assert due(asking("a"), **validating, validated_at=NOW - 200).nodes == ("a",)
    assert due(asking("a"), **validating, validated_at=NOW - 50).nodes == ()
    assert due(asking("a")).nodes == ()


def test_a_report_that_is_too_old_gets_none() -> None:
    """F-089: another report than the one that was judged, or one that nobody renews."""
    assert due(asking("a", ASKED, measured_at=NOW - 9)).nodes == ()
    assert due(asking("a", ASKED), spec={**ENABLED, "lifecycle": {"staleAfter": "5s"}}).nodes == ()


def test_few_nodes_are_tested_at_one_time() -> None:
    """F-089: those that run count, and those whose Job was made just now; one that died does not."""
    waiting = asking("b", ASKED)
    assert due(asking("a", RUNNING), waiting) == DueRuns(nodes=("b",), free=1)
    assert due(asking("a"), waiting, started={"a": NOW - 60}) == DueRuns(nodes=("b",), free=1)
    assert due(asking("a"), waiting, started={"a": NOW - 1800}).free == 2
    ended = replace(RUNNING, finished_at=NOW - 30)
    assert due(asking("a", ended), waiting, started={"a": NOW - 60}).free == 2
    assert due(asking("a", replace(RUNNING, deadline=NOW)), waiting).free == 2
