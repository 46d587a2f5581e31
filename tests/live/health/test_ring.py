"""Turns of iperf between agents: by reports and a policy on a real API server, with a program in place of iperf3."""

import datetime as dt
import os
import threading
import time
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.clock import SystemClock
from reconciler.health.agent.process import BadQuery, read_query
from reconciler.health.agent.ring import CHECK, IperfRing, base_policy
from reconciler.health.reports import ClusterReports, StoredReport
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.readings import GpuIdentity, NodeReading, ReadError, ReadingId, Sweep
from reconciler.nodehealth.report import NodeReport
from tests.cluster.server import wait_until

_IPERF = """#!/bin/sh
echo "$@" > "$IPERFS/$$"
case " $* " in
  *" -s "*) exec sleep 60;;
  *" -R "*) rate=5e9;;
  *) rate=9e9;;
esac
echo '{"end": {"sum_sent": {"bits_per_second": '$rate', "seconds": 1}, "sum_received": {"bits_per_second": '$rate'}}}'
"""
SPEC = {"iperf": {"every": "40s", "slot": "20s", "seconds": 1, "streams": 2}}
KIND = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "HealthPolicy"}
IDLE = Sweep(
    node="ring-a",
    taken_at=1.0,
    gpus=(GpuIdentity(slot="0000:10:00.0"),),
    readings=(NodeReading(name=ReadingId("nvml.processes"), slot="0000:10:00.0", value=[]),),
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `iperf3` notes how it was called."""
    (tmp_path / "iperf3").write_text(_IPERF)
    (tmp_path / "iperf3").chmod(0o755)
    (tmp_path / "calls").mkdir()
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "IPERFS": str(tmp_path / "calls")}


class BeforeTurns(SystemClock):
    """A clock that runs as all do; when it is first asked, the turns of every policy are about to begin."""

    def now(self) -> dt.datetime:
        return super().now() + self._ahead

    @cached_property
    def _ahead(self) -> dt.timedelta:
        slot = 120  # the longest one of these tests
        return dt.timedelta(seconds=-super().now().timestamp() % slot - 1)


@pytest.fixture
def turns() -> BeforeTurns:
    return BeforeTurns()


@pytest.fixture
def cluster(lane_cluster: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """Return a cluster in which two agents report."""
    for node in ("ring-a", "ring-b"):
        own = NodeReport(node=node, measured_at=time.time(), networks={"eth0": f"10.0.0.{node[-1]}"})
        ClusterReports(lane_cluster).update(node, partial(_same, own))
    yield lane_cluster
    for body in lane_cluster.list(lane_cluster.resource("gpureconciler.io", "HealthPolicy")).objects:
        metadata = body["metadata"]
        key = ObjectKey(group="gpureconciler.io", kind="HealthPolicy", namespace="", name=metadata["name"])
        lane_cluster.delete(key, uid=metadata["uid"], propagation="Background")


def _same(report: NodeReport, before: StoredReport) -> NodeReport:
    del before
    return report


def ring(cluster: KubernetesCluster, node: str, environ: dict[str, str], turns: BeforeTurns) -> IperfRing:
    return IperfRing(cluster, node, {"eth0": f"10.0.0.{node[-1]}"}, environ, turns)


def busy(sweep: Sweep) -> Sweep:
    return replace(
        sweep, readings=(NodeReading(name=ReadingId("nvml.processes"), slot="0000:10:00.0", value=[{"pid": 7}]),)
    )


def test_two_nodes_meet_in_their_turn(
    cluster: KubernetesCluster, environ: dict[str, str], turns: BeforeTurns, tmp_path: Path
) -> None:
    """F-086: one serves and one sends, both ways; nobody told them who."""
    cluster.create({**KIND, "metadata": {"name": "base"}, "spec": SPEC})
    found: dict[str, NodeReading] = {}
    rings = {node: ring(cluster, node, environ, turns) for node in ("ring-a", "ring-b")}
    has_met = threading.Event()

    def follow(node: str) -> None:
        def begin() -> None:
            found[node] = rings[node].measure(SweepResult(sweep=replace(IDLE, node=node), findings=()))
            if found[node].error is None:
                has_met.set()

        rings[node].follow(begin)

    threads = [threading.Thread(target=follow, args=(node,), daemon=True) for node in rings]
    for thread in threads:
        thread.start()
    has_met.wait(200)
    for one in rings.values():
        one.stop()
    for thread in threads:
        thread.join(30)
    measured = [one for one in found.values() if one.error is None]
    assert measured, found
    (finding,) = judge(replace(IDLE, readings=(measured[0],)), only=(CHECK,))
    assert (finding.status.value, finding.observed) == ("PASS", 5.0)
    calls = [path.read_text() for path in (tmp_path / "calls").iterdir()]
    assert sum("-s -p 5200" in call for call in calls) >= 1
    assert sum("-P 2" in call and "-R" in call for call in calls) >= 1


def test_without_a_policy_and_on_busy_gpus_nothing_runs(
    cluster: KubernetesCluster, environ: dict[str, str], turns: BeforeTurns, tmp_path: Path
) -> None:
    """F-086: Git asks for it, and no job is disturbed."""
    one = ring(cluster, "ring-a", environ, turns)
    reading = one.measure(SweepResult(sweep=IDLE, findings=()))
    assert (reading.error, "spec.iperf" in reading.detail) == (ReadError.NOT_SUPPORTED, True)
    cluster.create({**KIND, "metadata": {"name": "base"}, "spec": {"iperf": {"every": "20s", "slot": "20s"}}})
    wait_until(lambda: turns.now().timestamp() % 20 < 5, "the turn")
    assert one.measure(SweepResult(sweep=busy(IDLE), findings=())).error is ReadError.BUSY
    assert list((tmp_path / "calls").iterdir()) == []


def test_only_policies_for_all_nodes_count() -> None:
    """An agent does not know the labels of its node."""
    pool = {"metadata": {"name": "a"}, "spec": {"selector": {"nodeLabels": {"a": "b"}}, "iperf": {"every": "1h"}}}
    assert base_policy([pool]).every == 0
    assert base_policy([pool, {"metadata": {"name": "b"}, "spec": {"iperf": {"every": "2h"}}}]).every == 7200


@pytest.mark.parametrize("query", ["workload=star", "pclients=8", "startport=5200"])
def test_parameters_that_the_policy_sets_are_refused(query: str) -> None:
    """F-092: nothing is ignored in silence."""
    with pytest.raises(BadQuery):
        read_query(query)
    assert read_query("workload=ring", ("net.iperf",)).checks == ("net.iperf",)
