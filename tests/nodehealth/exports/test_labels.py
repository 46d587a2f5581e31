"""Labels for those who depend on Autopilot or AgentaFlow: exact values, and no state of their own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.nodehealth.exports.labels import (
    MAX_LENGTH,
    GpuHealthLabel,
    UtilizationTier,
    agentaflow_labels,
    autopilot_labels,
    gpu_health,
    steady_tier,
    utilization_tier,
)
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding, ProbeProfile
from reconciler.nodehealth.merging import merged
from reconciler.nodehealth.report import NodeReport, ProfileRun
from tests.nodehealth.reports import FAIL, NOW, PASS, SKIP, UNKNOWN, WARN, finding, result, slot

DEEP = ProbeProfile.DEEP
FATAL, APP = FindingSeverity.FATAL, FindingSeverity.APP
RUNNING = ProfileRun(profile=DEEP, started_at=NOW - 60, deadline=NOW + 840)
DEAD = ProfileRun(profile=DEEP, started_at=NOW - 1000, deadline=NOW - 100)


def report(*findings: HealthFinding, run: ProfileRun | None = None) -> NodeReport:
    made = merged(None, result(*findings))
    return replace(made, runs=(run,)) if run else made


@pytest.mark.parametrize(
    ("findings", "run", "expected"),
    [
        ((finding("a", PASS),), None, "PASS"),
        ((finding("a", PASS), finding("b", SKIP)), None, "PASS"),
        ((finding("a", PASS), finding("b", WARN)), None, "WARN"),
        ((finding("a", PASS), finding("b", FAIL)), None, "WARN"),
        ((finding("a", PASS), finding("b", FAIL, severity=FATAL)), None, "EVICT"),
        ((finding("a", PASS), finding("b", WARN, severity=FATAL)), None, "WARN"),
        ((finding("a", PASS), finding("b", FAIL, severity=APP)), None, "PASS"),
        ((finding("a", PASS), finding("b", UNKNOWN)), None, ""),
        ((finding("a", WARN), finding("b", UNKNOWN)), None, "WARN"),
        ((finding("a", SKIP),), None, ""),
        ((), None, ""),
        ((finding("a", PASS),), RUNNING, "TESTING"),
        ((finding("a", WARN),), RUNNING, "TESTING"),
        ((finding("a", FAIL, severity=FATAL),), RUNNING, "EVICT"),
        ((finding("a", PASS),), DEAD, "PASS"),
        ((), DEAD, ""),
    ],
)
def test_the_precedence_of_the_health_label(
    findings: tuple[HealthFinding, ...], run: ProfileRun | None, expected: str
) -> None:
    """F-090: EVICT before TESTING before WARN before PASS; what is unknown is no PASS, a run that died no TESTING."""
    assert gpu_health(report(*findings, run=run), NOW).value == expected


def test_eviction_survives_a_periodic_pass() -> None:
    """F-090: only the same check ends it, never the pass of a lighter sweep."""
    evicted = merged(None, result(finding("hbm", FAIL, severity=FATAL, profile=DEEP), profile=DEEP))
    later = merged(evicted, result(finding("a", PASS), finding("b", PASS), at=NOW + 3600))
    assert gpu_health(later, NOW) is GpuHealthLabel.EVICT
    again = merged(later, result(finding("hbm", PASS, profile=DEEP), profile=DEEP, at=NOW + 7200))
    assert gpu_health(again, NOW) is GpuHealthLabel.PASS


@pytest.mark.parametrize(
    ("status", "label"),
    [
        (PASS, "PASS_2027-01-15_08.00.00UTC"),
        (WARN, "PASS_2027-01-15_08.00.00UTC"),
        (FAIL, "ERR_2027-01-15_08.00.00UTC"),
    ],
)
def test_the_label_of_a_level_of_dcgm(status: CheckStatus, label: str) -> None:
    """F-091: the exact format, with the time in UTC."""
    failed = ("dcgm.level3",) if status is FAIL else ("other",)
    run = ProfileRun(profile=DEEP, level=3, finished_at=NOW, status=status, failed=failed)
    made = autopilot_labels(report(finding("a", PASS), run=run), NOW)
    assert made.labels == {"autopilot.ibm.com/gpuhealth": "PASS", "autopilot.ibm.com/dcgm.level.3": label}


def test_a_run_without_a_result_has_no_level_label() -> None:
    """F-083, F-091: an aborted run is neither PASS nor ERR."""
    for run in (
        replace(RUNNING, level=3),
        ProfileRun(profile=DEEP, finished_at=NOW),
        ProfileRun(profile=DEEP),
    ):
        assert set(autopilot_labels(report(finding("a", PASS), run=run), NOW).labels) == {"autopilot.ibm.com/gpuhealth"}


def test_the_annotation_names_failing_tests_with_the_gpu() -> None:
    """F-091."""
    failures = (finding("dcgm.level3", FAIL, slot=slot(1)), finding("dcgm.level3", FAIL), finding("other", FAIL))
    run = ProfileRun(profile=DEEP, level=3, finished_at=NOW, status=FAIL, failed=("dcgm.level3", "other"))
    made = autopilot_labels(report(*failures, run=run), NOW)
    assert made.annotations == {"autopilot.ibm.com/dcgm.level.3.output": "dcgm.level3\ndcgm.level3.1"}


@given(
    st.lists(
        st.builds(
            finding,
            st.sampled_from("abc"),
            st.sampled_from(list(CheckStatus)),
            severity=st.sampled_from(list(FindingSeverity)),
        ),
        max_size=3,
    ),
    st.sampled_from(list(CheckStatus)),
    st.integers(1, 4),
    st.floats(1, 4e9),
)
def test_every_value_is_a_label(findings: list[HealthFinding], status: CheckStatus, level: int, at: float) -> None:
    """F-091: at most 63 characters that Kubernetes takes."""
    run = ProfileRun(profile=DEEP, level=level, started_at=NOW, finished_at=at, deadline=NOW, status=status)
    node = report(*findings, run=run)
    for made in (autopilot_labels(node, NOW), agentaflow_labels(node, {slot(0): 50.0})):
        for value in made.labels.values():
            assert value is None or re.fullmatch(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", value, re.ASCII)
            assert len(value or "") <= MAX_LENGTH


# AgentaFlow.


@pytest.mark.parametrize(
    ("percent", "tier"), [(0, "low"), (24.9, "low"), (25, "medium"), (74.9, "medium"), (75, "high"), (100, "high")]
)
def test_the_edges_of_the_tiers(percent: float, tier: str) -> None:
    """F-101."""
    assert utilization_tier(percent).value == tier


@pytest.mark.parametrize(
    ("percent", "before", "tier"),
    [
        (26, UtilizationTier.LOW, "low"),
        (30, UtilizationTier.LOW, "medium"),
        (24, UtilizationTier.MEDIUM, "medium"),
        (19, UtilizationTier.MEDIUM, "low"),
        (90, UtilizationTier.LOW, "high"),
        (74.9, None, "medium"),
    ],
)
def test_a_tier_does_not_flap(percent: float, before: UtilizationTier | None, tier: str) -> None:
    """F-101: within five points of an edge the label stays."""
    assert steady_tier(percent, before).value == tier


def test_the_labels_of_agentaflow() -> None:
    """F-101."""
    loads = {slot(0): 95.0, slot(1): 10.0}
    made = agentaflow_labels(report(finding("a", PASS)), loads)
    assert made.labels == {
        "agentaflow.gpu/enabled": "true",
        "agentaflow.gpu/count": "2",
        "agentaflow.gpu/schedulable": "true",
        "agentaflow.gpu/utilization-tier": "medium",
    }
    assert made.annotations == {"agentaflow.gpu/available-count": "1"}


@pytest.mark.parametrize(
    ("failing", "schedulable"),
    [
        (finding("x", FAIL, slot=slot(1)), "false"),
        (finding("x", FAIL), "false"),
        (finding("x", FAIL, severity=APP), "true"),
    ],
)
def test_a_failing_gpu_is_not_schedulable(failing: HealthFinding, schedulable: str) -> None:
    """F-100, F-101: health is part of it, and unknown utilisation is not free."""
    loads = {slot(1): 0.0}
    made = agentaflow_labels(report(failing), loads)
    assert made.labels["agentaflow.gpu/schedulable"] == schedulable


def test_unknown_utilisation_has_no_tier() -> None:
    made = agentaflow_labels(report(finding("a", PASS)), {})
    assert made.labels["agentaflow.gpu/utilization-tier"] is None
    assert made.labels["agentaflow.gpu/schedulable"] == "false"
