"""Labels of other projects on real nodes: what reports say, switched by policies, and never read back."""

import itertools
from typing import Any

import pytest

from reconciler.health.fast_lane import node_key
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding, ProbeProfile
from reconciler.nodehealth.nodes import MANAGER
from reconciler.nodehealth.report import ProfileRun
from reconciler.plan.live.managers import managers_of
from tests.live.health.conftest import START, SetClock, events
from tests.live.health.fleet import SLOT, LiveFleet, lost
from tests.live.speed.conftest import Requests

HEALTH, LEVEL, TIER = (
    "autopilot.ibm.com/gpuhealth",
    "autopilot.ibm.com/dcgm.level.3",
    "agentaflow.gpu/utilization-tier",
)
_numbers = itertools.count(1)


@pytest.fixture
def fleet(lane_cluster: KubernetesCluster, clock: SetClock) -> LiveFleet:
    return LiveFleet(lane_cluster, clock, f"exports-{next(_numbers)}")


def exported(fleet: LiveFleet, name: str, field: str = "labels") -> dict[str, str]:
    known = fleet.node(name)["metadata"].get(field, {})
    return {key: value for key, value in known.items() if key.startswith(("autopilot.ibm.com/", "agentaflow.gpu/"))}


def unknown() -> HealthFinding:
    return HealthFinding(check="ecc", status=CheckStatus.UNKNOWN, message="no answer", severity=FindingSeverity.FATAL)


def test_labels_follow_the_reports(fleet: LiveFleet) -> None:
    """F-090, F-101: PASS, EVICT, TESTING and no label while something is unknown, with our manager and no event."""
    good, bad, tested, silent = fleet.add(4)
    running = ProfileRun(profile=ProbeProfile.DEEP, started_at=START, deadline=START + 60)
    fleet.report(good, utilization={SLOT: 20.0})
    fleet.report(bad, lost())
    fleet.report(tested, runs=(running,))
    fleet.report(silent, unknown())
    fleet.round()
    free = {"enabled": "true", "count": "1", "schedulable": "true", "utilization-tier": "low"}
    expected = {HEALTH: "PASS", **{f"agentaflow.gpu/{key}": value for key, value in free.items()}}
    assert exported(fleet, good) == expected
    assert [exported(fleet, name).get(HEALTH) for name in (bad, tested, silent)] == ["EVICT", "TESTING", None]
    assert exported(fleet, bad)["agentaflow.gpu/schedulable"] == "false"
    writers = managers_of(fleet.node(good), ("metadata", "labels", HEALTH))
    assert [one.name for one in writers] == [MANAGER]
    before = events(fleet.cluster, fleet.node(good))
    fleet.clock.pause(61.0)
    fleet.report(good, utilization={SLOT: 28.0})
    fleet.report(tested, runs=(running,))
    fleet.round()
    assert exported(fleet, good)[TIER] == "low", "near the edge it stays"
    assert exported(fleet, tested)[HEALTH] == "PASS", "a run that died is over at its deadline"
    fleet.report(good, utilization={SLOT: 50.0}, measured_at=fleet.clock.at + 1)
    fleet.round()
    assert exported(fleet, good)[TIER] == "medium"
    assert events(fleet.cluster, fleet.node(good)) == before


def test_the_last_result_of_a_level_of_dcgm_stays(fleet: LiveFleet) -> None:
    """F-091: the label in UTC, and the failed tests in the annotation."""
    (name,) = fleet.add(1)
    failed = HealthFinding(check="dcgm.level3", status=CheckStatus.FAIL, message="pcie.0", slot=SLOT)
    run = ProfileRun(profile=ProbeProfile.DEEP, level=3, started_at=START, finished_at=START, failed=("dcgm.level3",))
    fleet.report(name, failed, runs=(run,))
    fleet.round()
    assert exported(fleet, name)[LEVEL] == "ERR_2026-09-21_14.13.20UTC"
    assert exported(fleet, name, "annotations")[f"{LEVEL}.output"] == "dcgm.level3.0"
    fleet.clock.pause(10.0)
    fleet.report(name)
    fleet.round()
    assert exported(fleet, name)[LEVEL] == "ERR_2026-09-21_14.13.20UTC"


def test_a_report_that_is_too_old_says_nothing_but_evict(fleet: LiveFleet) -> None:
    """F-090: without an agent nothing passes, and nothing that was fatal is forgotten."""
    good, bad = fleet.add(2)
    fleet.report(good, utilization={SLOT: 0.0})
    fleet.report(bad, lost())
    fleet.round()
    fleet.clock.pause(3600.0)
    fleet.round()
    assert exported(fleet, good) == {}
    assert exported(fleet, bad) == {HEALTH: "EVICT"}


@pytest.mark.parametrize(
    ("exports", "kept"),
    [
        ({"autopilotLabels": False}, "agentaflow.gpu/"),
        ({"agentaflowLabels": False}, "autopilot.ibm.com/"),
    ],
)
def test_an_export_that_is_switched_off_takes_its_labels_along(
    fleet: LiveFleet, exports: dict[str, Any], kept: str
) -> None:
    """F-090, F-101: labels that another program wrote stay."""
    ours, theirs = fleet.add(2)
    fleet.report(ours)
    fleet.round()
    assert {key.partition("/")[0] for key in exported(fleet, ours)} == {"autopilot.ibm.com", "agentaflow.gpu"}
    foreign = {HEALTH: "EVICT", "agentaflow.gpu/count": "3"}
    fleet.cluster.patch(node_key(theirs), {"metadata": {"labels": foreign}}, manager="somebody")
    fleet.report(theirs)
    fleet.round({"exports": exports})
    assert {key[: len(kept)] for key in exported(fleet, ours)} == {kept}
    switched_off = {key: value for key, value in exported(fleet, theirs).items() if not key.startswith(kept)}
    assert switched_off == {key: value for key, value in foreign.items() if not key.startswith(kept)}


def test_exports_are_written_on_change_only_and_never_in_a_dry_run(fleet: LiveFleet, requests: Requests) -> None:
    """F-090, agentaflow defect 15: nodes are patched, not updated, and no annotation holds facts of devices.

    A label that somebody changed by hand is set right again, because nothing is read from it.
    """
    (name,) = fleet.add(1)
    fleet.report(name)
    requests.take()
    fleet.round(dry_run=True)
    assert requests.take().keys() <= {"list", "read", "discover"}
    assert exported(fleet, name) == {}
    fleet.round()
    assert requests.take().keys() == {"list", "read", "create", "patch", "apply"}
    assert exported(fleet, name, "annotations").keys() == {"agentaflow.gpu/available-count"}
    fleet.round()
    assert requests.take().keys() <= {"list", "read"}
    fleet.cluster.patch(node_key(name), {"metadata": {"labels": {HEALTH: "EVICT"}}}, manager="kubectl")
    fleet.round()
    assert exported(fleet, name)[HEALTH] == "PASS"
