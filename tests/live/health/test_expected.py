"""What Git expects of nodes: the controller tells the agents, and they compare it with what they measure."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.health.agent import Agent, AgentOptions
from reconciler.health.reports import ClusterReports, report_key
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.published import EXPECTED
from tests.health.test_agent import Told
from tests.live.health.conftest import SetClock
from tests.live.health.fleet import LiveFleet
from tests.nodehealth.readers.fakes.library import sound

SPEC: dict[str, Any] = {"checks": {"gpu.count": {"mode": "propose"}}, "expected": {"gpus": 8}}


@pytest.fixture
def fleet(lane_cluster: KubernetesCluster, clock: SetClock) -> LiveFleet:
    made = LiveFleet(lane_cluster, clock, "expected")
    made.add(4)
    return made


def an_agent(fleet: LiveFleet, node: str) -> Agent:
    """Return the agent of a node on which the kernel and NVML see six of eight GPUs."""

    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        sweep = replace(sound(6), node=node, taken_at=fleet.clock.at)
        return SweepResult(sweep=sweep, findings=judge(sweep, expected=expected, only=["gpu.count"]), profile=profile)

    options = AgentOptions(node=node, identity={"node_uid": fleet.node(node)["metadata"]["uid"]})
    return Agent(probe, ClusterReports(fleet.cluster), fleet.clock, options, Told())


def told(fleet: LiveFleet, node: str) -> str | None:
    body = fleet.cluster.get(report_key(node))
    assert body is not None
    found: str | None = body["metadata"].get("annotations", {}).get(EXPECTED)
    return found


def test_a_gpu_that_is_on_no_bus_any_more_is_missed(fleet: LiveFleet) -> None:
    """The PCI bus agrees with NVML that there are six GPUs: only Git knows that there should be eight."""
    node = fleet.names[0]
    agent = an_agent(fleet, node)
    agent.step()
    assert fleet.round(SPEC, dry_run=True).evaluation.decisions[node].check == ""
    assert told(fleet, node) is None, "who only observes tells nobody anything"
    fleet.round(SPEC)
    assert told(fleet, node) == '{"gpus":8,"origin":"HealthPolicy base"}'
    fleet.clock.at += 120
    agent.step()
    agent.step()
    decision = fleet.round(SPEC).evaluation.decisions[node]
    assert decision.check == "gpu.count"
    assert "6 GPUs, 8 expected (HealthPolicy base)" in decision.reason
    again = an_agent(fleet, node)  # a restart forgets nothing
    fleet.clock.at += 120
    again.step()
    again.step()
    assert fleet.round(SPEC).evaluation.decisions[node].check == "gpu.count"
    fleet.round({"checks": SPEC["checks"]})
    assert told(fleet, node) is None
    fleet.clock.at += 120
    again.step()
    again.step()
    report = ClusterReports(fleet.cluster).read(node).report
    assert report is not None
    assert report.findings == ()
