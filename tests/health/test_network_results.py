"""Results of network tests: which pods are believed, about which nodes, and what an unreadable end is."""

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.health.fleet_reading import FleetReading
from reconciler.health.network_tests import ended_tests, with_network_tests
from reconciler.kinds.health.jobs import NETWORK_TEST
from reconciler.kube.client.port import ClusterError
from reconciler.nodehealth.active.fabric import declared_tests
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.state import FleetNode
from reconciler.nodehealth.policy import PolicyBook, PolicyDocument
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.test_fabric import H200, NCCL, NOW, PERFTEST

BOTH = {"nodes": ["a", "b"], "image": "i@sha256:0", "namespace": "tests"}
SPEC = {
    "networkTests": {
        "one": {**BOTH, "test": "allReduce", "nodes": ["a"]},
        "all": {**BOTH, "test": "allReduce"},
        "pair": {**BOTH, "test": "ibWrite", "rate": 400},
    }
}
POLICIES = PolicyBook([PolicyDocument(name="p", spec=SPEC)])
ENDED = "2027-01-15T07:59:00Z"  # a minute before NOW


def pod(test: str, node: str, message: str | None, *, index: str = "", namespace: str = "tests", code: int = 0) -> Any:
    labels = {NETWORK_TEST: f"net-p-{test}-1"}
    labels |= {"batch.kubernetes.io/job-completion-index": index} if index else {}
    end = {"exitCode": code, "finishedAt": ENDED, **({} if message is None else {"message": message})}
    return {
        "metadata": {"name": "pod", "namespace": namespace, "labels": labels},
        "spec": {"nodeName": node},
        "status": {"containerStatuses": [{"name": "network-test", "state": {"terminated": end}}]},
    }


def nodes_of(*pods: Any) -> list[tuple[str, ...]]:
    return [one.nodes for one in ended_tests(pods, declared_tests(POLICIES))]


def test_pods_that_are_believed() -> None:
    """Those of declared tests on the nodes of the test; a launcher runs anywhere and tells about all of them."""
    assert nodes_of(pod("one", "a", NCCL)) == [("a",)]
    assert nodes_of(pod("all", "elsewhere", NCCL)) == [("a", "b")]
    assert nodes_of(pod("pair", "a", PERFTEST, index="0"), pod("pair", "b", PERFTEST, index="1")) == [("a",), ("b",)]
    assert nodes_of(pod("one", "c", NCCL), pod("one", "a", NCCL, namespace="theirs"), pod("other", "a", NCCL)) == []
    running = pod("one", "a", NCCL)
    running["status"]["containerStatuses"][0]["state"] = {"running": {}}
    assert nodes_of(running, {"metadata": None, "status": [], "spec": "x"}) == []


def round_of(*pods: Any, error: ClusterError | None = None) -> tuple[FleetReading, tuple[str, ...]]:
    def listed(*_: Any, **__: Any) -> Any:
        if error is not None:
            raise error
        return SimpleNamespace(objects=iter(pods))

    cluster: Any = SimpleNamespace(list=listed, resource=lambda *_: None)
    reports = {name: NodeReport(node=name, measured_at=NOW) for name in ("a", "b")}
    facts = {name: FleetNode(name=name, product=H200, gpus=8) for name in reports}
    reading = FleetReading(nodes={}, facts=facts, owners={}, reports=reports)
    return with_network_tests(cluster, reading, POLICIES, NOW)


@pytest.mark.parametrize("message", [None, "", "Terminated", NCCL[:900]])
def test_no_result_is_unknown(message: str | None) -> None:
    """A pod that was killed, or printed something else, is neither good nor bad."""
    reading, problems = round_of(pod("one", "a", message, code=137))
    (found,) = reading.reports["a"].findings
    assert (found.check, found.status, problems) == ("net.allreduce", CheckStatus.UNKNOWN, ())
    assert reading.reports["a"].passed == ()


def test_a_slow_pair_is_a_finding_of_both_nodes() -> None:
    slow = NCCL.replace("235.26", "100.00").replace("235.20", "100.00")
    reading, _ = round_of(pod("all", "elsewhere", slow))
    said = [reading.reports[name].findings[0].message for name in ("a", "b")]
    floor = "cluster-health-scanner, a3ultra: BANDWIDTH_THRESHOLD of two nodes with 8 x 400 Gb/s"
    assert said == [f"100 GB/s between a and b, below the floor of 250 ({floor})"] * 2


def test_pods_that_cannot_be_listed_stop_no_round() -> None:
    reading, problems = round_of(error=ClusterError("no access", status=403))
    assert reading.reports["a"].findings == ()
    assert problems == ("results of network tests cannot be read: no access",)


def test_without_declared_tests_nothing_is_listed() -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("pods were listed")

    reading = FleetReading(nodes={}, facts={}, owners={}, reports={})
    cluster: Any = SimpleNamespace(list=refused, resource=refused)
    assert with_network_tests(cluster, reading, PolicyBook(), NOW)[0].reports == {}
