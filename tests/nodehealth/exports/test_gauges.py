"""Gauges from findings: what is not known has no value, and what is gone has no series."""

from msgspec.structs import replace

from reconciler.nodehealth.exports.fleet_gauges import fleet_samples, samples_at
from reconciler.nodehealth.exports.gauges import autopilot_samples, check_samples
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.state import BreakerState, FleetNode, FleetState, HealthPhase
from reconciler.nodehealth.merging import merged
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.reports import FAIL, NOW, PASS, SKIP, UNKNOWN, WARN, finding, result, slot


def test_every_status_has_its_value() -> None:
    """F-093: 0 pass, 1 warn, 2 fail, 3 unknown, nothing for what does not apply."""
    swept = result(
        finding("a", PASS, slot=slot(0)),
        finding("a", WARN, slot=slot(1)),
        finding("b", FAIL),
        finding("c", UNKNOWN),
        finding("d", SKIP),
    )
    samples = check_samples(merged(None, swept), swept.findings)
    assert {(key[0], key[2]): value for key, value in samples.items()} == {
        ("a", slot(0)): 0.0,
        ("a", slot(1)): 1.0,
        ("b", ""): 2.0,
        ("c", ""): 3.0,
    }
    assert ("a", "node-1", slot(0), "NVIDIA H100 80GB HBM3", "info") in samples


def test_a_failure_that_stays_overrules_the_last_sweep() -> None:
    deep = merged(None, result(finding("a", FAIL, profile=ProbeProfile.DEEP), profile=ProbeProfile.DEEP))
    swept = result(finding("a", PASS), at=NOW + 60)
    assert list(check_samples(merged(deep, swept), swept.findings).values()) == [2.0]


def test_the_gauge_of_autopilot() -> None:
    """F-093: 1 failed, 0 passed, the lower bandwidth of both ways; unknown has no value, never 0."""
    swept = result(
        finding("pcie.h2d", PASS, slot=slot(0), observed=26.0),
        finding("pcie.d2h", FAIL, slot=slot(0), observed=3.5),
        finding("remap.pending", PASS, slot=slot(0)),
        finding("remap.failure", WARN, slot=slot(0)),
        finding("remap.pending", PASS, slot=slot(1)),
        finding("throttle", UNKNOWN, slot=slot(0)),
        finding("throttle", PASS, slot=slot(1)),
        finding("ecc.sram", FAIL, slot=slot(1)),
    )
    samples = autopilot_samples(merged(None, swept), swept.findings, "EPYC")
    assert {(key[0], key[4]): value for key, value in samples.items()} == {
        ("pciebw", "0"): 3.5,
        ("remapped", "0"): 1.0,
        ("remapped", "1"): 0.0,
        ("power-slowdown", "1"): 0.0,
    }
    assert {key[1:4] for key in samples} == {("node-1", "EPYC", "NVIDIA H100 80GB HBM3")}


def test_the_gauges_of_a_fleet() -> None:
    decisions = {
        name: HealthDecision(node=name, phase=phase, before=phase, condition=ProblemStatus.FALSE)
        for name, phase in (("a", HealthPhase.HEALTHY), ("b", HealthPhase.HEALTHY), ("c", HealthPhase.QUARANTINED))
    }
    state = FleetState(breaker=BreakerState(tripped="5 %", frozen={"xid": "3 nodes"}))
    evaluation = FleetEvaluation(state=state, decisions=decisions)
    facts = {name: FleetNode(name=name, pool="h200") for name in "abc"}
    reports = {name: NodeReport(node=name, measured_at=NOW - 30) for name in ("a", "gone")}
    seen = fleet_samples(evaluation, facts, reports)
    assert samples_at([seen], NOW) == {
        "gpuhealth_nodes": {("healthy", "h200"): 2, ("quarantined", "h200"): 1},
        "gpuhealth_breaker_state": {("fleet",): 1.0, ("xid",): 1.0},
        "gpuhealth_report_age_seconds": {("a",): 30.0},
        "gpuhealth_job_hang_suspected": {},
    }
    quiet = fleet_samples(replace(evaluation, state=FleetState()), facts, {})
    assert samples_at([quiet], NOW)["gpuhealth_breaker_state"] == {("fleet",): 0.0}
    older = replace(quiet, measured_at=(("a", NOW - 90),))
    far = replace(older, nodes=(("uid-of-another", "healthy", "h200"),))
    assert samples_at([seen, older, quiet, far], NOW) == {
        "gpuhealth_nodes": {("healthy", "h200"): 3, ("quarantined", "h200"): 1},
        "gpuhealth_breaker_state": {("fleet",): 1.0, ("xid",): 1.0},
        "gpuhealth_report_age_seconds": {("a",): 90.0},
        "gpuhealth_job_hang_suspected": {},
    }
