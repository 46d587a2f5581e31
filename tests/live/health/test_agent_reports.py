"""The agent on a real API server: what it writes, as whom, and how often."""

import pytest

from reconciler.health.agent import Agent, AgentOptions, run_once
from reconciler.health.reports import MANAGER, ClusterReports, report_key
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.policy import NodeExpectation
from tests.health.test_agent import StoppedClock, Told
from tests.nodehealth.reports import FAIL, PASS, finding, result

DEEP = ProbeProfile.DEEP


@pytest.fixture
def stopped() -> StoppedClock:
    return StoppedClock()


def version(cluster: KubernetesCluster, node: str) -> str:
    body = cluster.get(report_key(node))
    assert body is not None
    found: str = body["metadata"]["resourceVersion"]
    return found


def test_the_agent_creates_its_report_and_writes_it_only_with_news(
    health_cluster: KubernetesCluster, stopped: StoppedClock
) -> None:
    """F-095: one object per node; two failures of the same node are one report."""
    findings = [finding("a", PASS)]

    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        return result(*findings, profile=profile, at=stopped.at, node="agent-1")

    store = ClusterReports(health_cluster)
    agent = Agent(probe, store, stopped, AgentOptions(node="agent-1"), Told())
    agent.step()
    first = version(health_cluster, "agent-1")
    stopped.at += 60
    agent.step()
    assert version(health_cluster, "agent-1") == first
    findings[:] = [finding("pcie", FAIL), finding("hbm", FAIL)]
    stopped.at += 1
    agent.step()
    assert version(health_cluster, "agent-1") != first
    body = health_cluster.get(report_key("agent-1"))
    assert body is not None
    assert body["status"]["summary"] == "FAIL: hbm, pcie"
    assert {entry["manager"] for entry in body["metadata"]["managedFields"]} == {MANAGER}
    assert agent.state.problem == ""


def test_two_writers_of_one_report_lose_nothing(health_cluster: KubernetesCluster, stopped: StoppedClock) -> None:
    """F-089: the daemon and the Job of a deep run write the same object; the version of the object orders them."""
    store = ClusterReports(health_cluster)
    other = ClusterReports(health_cluster)
    interrupted: list[str] = []

    def light(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        return result(finding("a", FAIL), profile=profile, at=stopped.at, node="agent-2")

    def deep(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        return result(finding("hbm", FAIL, profile=DEEP), profile=profile, at=stopped.at, node="agent-2")

    class Slow(ClusterReports):
        """Another writer comes between read and write."""

        def read(self, node: str):  # type: ignore[no-untyped-def]
            found = super().read(node)
            if not interrupted:
                interrupted.append(node)
                run_once(deep, other, stopped, AgentOptions(node=node), DEEP)
            return found

    Agent(light, store, stopped, AgentOptions(node="agent-2"), Told()).step()
    stopped.at += 60
    Agent(light, Slow(health_cluster), stopped, AgentOptions(node="agent-2"), Told()).step()
    report = store.read("agent-2").report
    assert report is not None
    assert {one.check for one in report.findings} == {"a", "hbm"}
    run = report.run(DEEP)
    assert run is not None
    assert run.failed == ("hbm",)


def test_a_report_that_somebody_broke_is_replaced(health_cluster: KubernetesCluster, stopped: StoppedClock) -> None:
    store, told = ClusterReports(health_cluster), Told()

    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        return result(finding("a", PASS), profile=profile, at=stopped.at, node="agent-3")

    def agent() -> Agent:
        return Agent(probe, store, stopped, AgentOptions(node="agent-3"), told)

    agent().step()
    health_cluster.patch(report_key("agent-3"), {"status": {"node": "other"}}, subresource="status")
    assert "other" in store.read("agent-3").problem
    agent().step()
    found = store.read("agent-3").report
    assert found is not None
    assert found.passed == ("a", "agent.sweep")
    assert told == ["the stored report cannot be read and is replaced"]
