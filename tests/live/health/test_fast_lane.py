"""The fast lane on the real API server: reports become marks on nodes within what merged policies allow."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.health.fast_lane import node_key
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.fleet.decisions import HealthProposal
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.nodes import STATE_LABEL, TAINT
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage
from tests.live.health.conftest import SetClock, conditions, events, taints
from tests.live.health.fleet import FAST, LiveFleet, lost
from tests.live.speed.conftest import Requests

_numbers = itertools.count(1)


@pytest.fixture
def fleet(lane_cluster: KubernetesCluster, clock: SetClock) -> LiveFleet:
    return LiveFleet(lane_cluster, clock, f"fleet-{next(_numbers)}")


def tainted(fleet: LiveFleet) -> set[str]:
    return {name for name in fleet.names if TAINT in taints(fleet.node(name))}


def test_a_lost_gpu_is_fenced_at_once_and_all_other_nodes_stay(fleet: LiveFleet) -> None:
    """F-096: one fatal report: condition, taint, label and event within one round."""
    names = fleet.add(10)
    for name in names:
        fleet.report(name)
    fleet.round()
    bad = names[3]
    fleet.report(bad, lost())
    made = fleet.round()
    assert [one.node for one in made.written] == [bad]
    node = fleet.node(bad)
    assert (conditions(node)["GPUProblem"], taints(node)) == ("True", [TAINT])
    assert node["metadata"]["labels"][STATE_LABEL] == "quarantined"
    assert "GpuRecoveryAction" in events(fleet.cluster, node)
    assert tainted(fleet) == {bad}
    assert conditions(fleet.node(names[0]))["GPUProblem"] == "False"


def test_a_round_in_which_nothing_changed_writes_nothing(fleet: LiveFleet, requests: Requests) -> None:
    for name in fleet.add(5):
        fleet.report(name)
    fleet.report(fleet.names[0], lost())
    fleet.round()
    requests.take()
    fleet.round()
    assert requests.take().keys() <= {"list", "read"}


def test_a_dry_run_of_the_lane_writes_nothing(fleet: LiveFleet, requests: Requests) -> None:
    """F-101: nor does it use up the breaker."""
    for name in fleet.add(3):
        fleet.report(name)
    fleet.report(fleet.names[0], lost())
    requests.take()
    made = fleet.round(dry_run=True)
    assert [one.result for one in made.marked if "taint" in str(one.changes)] == ["planned"]
    assert requests.take().keys() <= {"list", "read", "discover"}
    assert tainted(fleet) == set()


def test_a_rule_that_is_not_fast_writes_no_taint(fleet: LiveFleet) -> None:
    for name in fleet.add(3):
        fleet.report(name)
    fleet.report(fleet.names[0], lost())
    reviewed = {"checks": {"gpu.recovery_action": {"mode": "enforce", "lane": "reviewed"}}}
    fleet.round(reviewed)
    assert tainted(fleet) == set()
    assert conditions(fleet.node(fleet.names[0]))["GPUProblem"] == "True"


def test_the_breaker_stops_a_spike_until_a_commit_resets_it(fleet: LiveFleet) -> None:
    """F-100: at most a tenth of the pool, which counts for as long as it is out; others keep condition and label."""
    names = fleet.add(20)
    for name in names:
        fleet.report(name)
    fleet.round()
    for name in names[:12]:
        fleet.report(name, lost())
    made = fleet.round({**FAST, "breaker": {**FAST["breaker"], "spike": {"nodes": 50}}})
    spec = {**FAST, "breaker": {**FAST["breaker"], "spike": {"nodes": 50}}}
    assert len(tainted(fleet)) == 2, "a tenth of the pool"
    assert made.evaluation.state.breaker.frozen.keys() == {"gpu.recovery_action in pool h100"}
    for name in names[:12]:
        assert conditions(fleet.node(name))["GPUProblem"] == "True", "what is not fenced is still told"
    fleet.clock.pause(2 * 86400.0)
    for name in names:
        fleet.report(name, lost())
    fleet.round(spec)
    assert len(tainted(fleet)) == 2, "time alone resets nothing"
    reset = {**spec, "breaker": {**spec["breaker"], "resetGeneration": 1}}
    fleet.round(reset)
    assert len(tainted(fleet)) == 4


def test_the_same_check_on_three_nodes_freezes_the_rule(fleet: LiveFleet) -> None:
    names = fleet.add(50)
    for name in names:
        fleet.report(name)
    fleet.round()
    for name in names[:3]:
        fleet.report(name, lost())
    made = fleet.round()
    assert tainted(fleet) == set()
    assert "gpu.recovery_action" in made.evaluation.state.breaker.frozen
    assert {TAINT} & set(taints(fleet.node(names[0]))) == set()


def test_the_last_schedulable_node_stays(fleet: LiveFleet) -> None:
    (name,) = fleet.add(1)
    fleet.report(name, lost())
    fleet.round({**FAST, "breaker": {"unavailable": "100%", "perPool": "100%", "perModel": "100%"}})
    assert tainted(fleet) == set()


def test_a_taint_that_a_person_removes_stays_removed(fleet: LiveFleet) -> None:
    """F-101: a manual release cancels the case."""
    for name in fleet.add(10):
        fleet.report(name)
    bad = fleet.names[0]
    fleet.report(bad, lost())
    fleet.round()
    assert tainted(fleet) == {bad}
    fleet.cluster.patch(node_key(bad), {"spec": {"taints": None}}, manager="kubectl")
    fleet.clock.pause(60.0)
    fleet.report(bad, lost())
    for _ in range(2):
        fleet.round()
        assert tainted(fleet) == set()


def test_an_expired_taint_is_removed_only_if_the_check_passes(fleet: LiveFleet) -> None:
    """F-100: renewed and escalated while it fails."""
    for name in fleet.add(10):
        fleet.report(name)
    bad = fleet.names[0]
    fleet.report(bad, lost())
    fleet.round()
    fleet.clock.pause(86400.0 + 60.0)
    fleet.report(bad, lost())
    made = fleet.round()
    assert tainted(fleet) == {bad}
    assert made.evaluation.decisions[bad].escalate
    for _ in range(3):
        fleet.clock.pause(700.0)
        fleet.deep_pass(bad)
        fleet.round()
    fleet.clock.pause(86400.0)
    fleet.deep_pass(bad)
    fleet.round()
    assert tainted(fleet) == set()


def test_a_node_is_drained_once_no_pod_with_gpus_is_left(fleet: LiveFleet) -> None:
    """F-096: pods without GPUs and pods that ended do not count; nothing else is listed for it."""
    name, *_ = fleet.add(3)
    for one in fleet.names:
        fleet.report(one)
    fleet.cluster.create(pod(name, "user", "1"))
    fleet.cluster.create(pod(name, "plain"))
    uid = fleet.node(name)["metadata"]["uid"]
    drain = (NodeQuarantine(name=name, node=name, uid=uid, reason="slow", stage=Stage.DRAIN),)
    for _ in range(2):
        decision = fleet.round(reviewed=drain).evaluation.decisions[name]
        assert (decision.phase, decision.proposal) == (HealthPhase.DRAINING, None)
    key = ObjectKey(group="", kind="Pod", namespace="default", name=f"user-{name}")
    fleet.cluster.patch(key, {"status": {"phase": "Succeeded"}}, subresource="status")
    decision = fleet.round(reviewed=drain).evaluation.decisions[name]
    assert (decision.phase, decision.proposal) == (HealthPhase.REMEDIATING, HealthProposal.REMEDIATE)
    assert fleet.node(name)["metadata"]["labels"][STATE_LABEL] == "remediating"


def test_texts_and_events_name_the_job_of_an_xid(fleet: LiveFleet, requests: Requests) -> None:
    """F-081: agents know UIDs of pods; the name stays when the pod is gone, and its pods are listed once."""
    name, *_ = fleet.add(3)
    for one in fleet.names:
        fleet.report(one)
    fleet.round()
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    body = pod(name, "train")
    body["metadata"]["ownerReferences"] = [owner]
    uid = fleet.cluster.create(body).body["metadata"]["uid"]
    gone = "11111111-2222-3333-4444-555555555555"
    text = f"the driver asks for a reset; Xid 48; python3 of pod/{uid} container/0123456789ab, a of pod/{gone}"
    fleet.report(name, replace(lost(), message=text))
    named = f"job default/train (pod train-{name}), a of pod/{gone}"
    assert named in fleet.round().evaluation.decisions[name].reason
    found = fleet.cluster.list(fleet.cluster.resource("", "Event"), fields=f"involvedObject.name={name}").objects
    assert any(named in event["message"] for event in found if event["reason"] == "GpuRecoveryAction")
    fleet.cluster.delete(ObjectKey(group="", kind="Pod", namespace="default", name=f"train-{name}"), uid=uid)
    requests.take()
    assert named in fleet.round().evaluation.decisions[name].reason
    assert requests.take().get("list", 0) == 2, "nodes and reports"


def pod(node: str, name: str, gpus: str = "") -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "a"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    metadata = {"name": f"{name}-{node}", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container]},
    }
