"""Failed preflight checks on a real API server: acknowledged after the node is marked, counted, and told."""

from typing import Any

import pytest

from reconciler.health.agent import Agent, AgentOptions
from reconciler.health.fast_lane import HealthRules, LaneRound
from reconciler.health.reports import ClusterReports
from reconciler.health.rounds import acknowledge_preflights
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.inflight.preflight import PreflightResult
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.nodes import TAINT
from reconciler.nodehealth.policy import NodeExpectation, PolicyBook, PolicyDocument
from reconciler.nodehealth.readings import GpuIdentity, Sweep
from tests.health.test_agent import Told as Log
from tests.live.health.conftest import Node, SetClock
from tests.live.health.fleet import SLOT, LiveFleet
from tests.live.health.test_events import make_job, told

SPEC: dict[str, Any] = {
    "checks": {"hbm.bandwidth": {"mode": "enforce", "lane": "fast"}},
    "jobs": {"preflight": {"retries": 3}},
}
GPU = GpuIdentity(slot=SLOT, uuid="GPU-1")


class CheckedJob:
    """A job whose pods check the GPUs of the node that they are on, before it starts."""

    def __init__(self, fleet: LiveFleet, namespace: str) -> None:
        self.fleet, self.namespace = fleet, namespace
        fleet.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.job = make_job(fleet.cluster, namespace)
        self.agents = {node: _agent(fleet, node) for node in fleet.names}
        for agent in self.agents.values():
            agent.step()

    def pod(self, node: str, name: str, container: str = "gpu-preflight") -> Node:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, **self.job}
        metadata = {"name": name, "namespace": self.namespace, "ownerReferences": [owner]}
        gpus = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
        spec = {
            "nodeName": node,
            "initContainers": [{"name": container, "image": "a", **gpus}],
            "containers": [{"name": "a", "image": "a", **gpus}],
        }
        return self.fleet.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).body

    def fail(self, node: str, name: str, uid: str = "") -> str:
        """Let the check of a pod fail, tell the agent of its node, and return the UID of the pod."""
        uid = uid or self.pod(node, name)["metadata"]["uid"]
        self.fleet.clock.pause(30.0)
        bad = HealthFinding(
            check="hbm.bandwidth",
            status=CheckStatus.FAIL,
            message="1,900 GB/s",
            slot=SLOT,
            uuid=GPU.uuid,
            profile=ProbeProfile.PREFLIGHT,
        )
        agent, now = self.agents[node], self.fleet.clock.at
        agent.take(
            PreflightResult(
                namespace=self.namespace, pod=name, uid=uid, measured_at=now, findings=(bad,), has_failed=True
            )
        )
        assert agent.verdict(uid) == "", "nobody has seen it yet"
        agent.step()
        return uid

    def round(self) -> LaneRound:
        """Make one round of the controller."""
        rules = HealthRules(policies=PolicyBook([PolicyDocument(name="base", spec=SPEC)]))
        done = self.fleet.round(SPEC)
        return acknowledge_preflights(self.fleet.cluster, self.fleet.store, done, rules, self.fleet.clock)

    def told(self) -> list[tuple[str, str, str]]:
        """Return what its events say about preflight checks."""
        return [one for one in told(self.fleet.cluster, self.namespace) if one[2] == "PreflightFailed"]


def _agent(fleet: LiveFleet, node: str) -> Agent:
    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        sweep = Sweep(node=node, taken_at=fleet.clock.at, boot_id="b", gpus=(GPU,))
        return SweepResult(sweep=sweep, findings=(), profile=profile)

    options = AgentOptions(node=node, identity={"node_uid": fleet.node(node)["metadata"]["uid"]})
    return Agent(probe, ClusterReports(fleet.cluster), fleet.clock, options, Log())


@pytest.fixture
def fleet(lane_cluster: KubernetesCluster, clock: SetClock) -> LiveFleet:
    made = LiveFleet(lane_cluster, clock, "preflights")
    made.add(10)
    return made


def test_a_failed_check_is_acknowledged_when_its_node_is_marked(fleet: LiveFleet) -> None:
    """F-094: by then the scheduler prefers other nodes, so the replacement is not placed on the same one."""
    job = CheckedJob(fleet, "acknowledged")
    node = fleet.names[0]
    job.round()
    uid = job.fail(node, "rank-0")
    made = job.round()
    assert not made.failures
    assert job.agents[node].verdict(uid) == "retry"
    taint = next(one for one in fleet.node(node)["spec"]["taints"] if one["key"] == TAINT)
    assert (taint["effect"], taint["value"]) == ("PreferNoSchedule", "hbm.bandwidth")
    assert fleet.node(node)["metadata"]["labels"]["gpureconciler.io/health"] == "suspect"
    expected = [("Job", "train", "PreflightFailed"), ("Pod", "rank-0", "PreflightFailed")]
    assert job.told() == expected
    job.round()
    assert job.told() == expected, "once"


def test_the_third_node_is_the_last_that_a_job_tries(fleet: LiveFleet) -> None:
    """F-094: three attempts, also over restarts of the controller; the event names the nodes."""
    job = CheckedJob(fleet, "capped")
    verdicts = []
    for rank, node in enumerate(fleet.names[:3]):
        uid = job.fail(node, f"rank-{rank}")
        job.round()
        verdicts.append(job.agents[node].verdict(uid))
    assert verdicts == ["retry", "retry", "stop"]
    listing = fleet.cluster.list(fleet.cluster.resource("", "Event"), namespace=job.namespace).objects
    texts = [one["message"] for one in listing if one["involvedObject"]["kind"] == "Job"]
    last = next(text for text in texts if "not started again" in text)
    assert f"It failed 3 times ({', '.join(fleet.names[:3])})" in last


@pytest.mark.parametrize("lie", ["no such pod", "another node", "no check"])
def test_a_claim_about_a_pod_that_is_not_there_is_not_believed(fleet: LiveFleet, lie: str) -> None:
    """F-094: whoever reaches the agent can name any pod; no owner is told, no attempt is counted."""
    job = CheckedJob(fleet, f"claimed-{lie.replace(' ', '-')}")
    node, other = fleet.names[:2]
    uid = "0f5a6c7e-7a53-4c0e-8f5e-6a0e3f6f2b11"
    if lie == "another node":
        uid = job.pod(other, "rank-0")["metadata"]["uid"]
    if lie == "no check":
        uid = job.pod(node, "rank-0", container="other")["metadata"]["uid"]
    job.fail(node, "rank-0", uid)
    made = job.round()
    assert made.state.preflights == ()
    assert job.agents[node].verdict(uid) == ""
    assert job.told() == []
