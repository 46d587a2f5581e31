"""Jobs that end well on a node in probation end the probation, on a real API server."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from reconciler.health.rounds import watch_jobs
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.quarantine import NodeQuarantine
from tests.live.health.conftest import SetClock
from tests.live.health.fleet import LiveFleet
from tests.live.health.test_events import pod

Status = dict[str, Any]


@pytest.fixture
def fleet(lane_cluster: KubernetesCluster, clock: SetClock) -> LiveFleet:
    made = LiveFleet(lane_cluster, clock, "probation")
    made.add(10)
    return made


class Probation:
    """A node that returned from a quarantine, and jobs that ran there."""

    def __init__(self, fleet: LiveFleet, namespace: str, folder: Path) -> None:
        self.fleet, self.node, self.namespace, self.folder = fleet, fleet.names[0], namespace, folder
        for kind, fields in (("Namespace", {}), ("ServiceAccount", {"namespace": namespace})):
            name = namespace if kind == "Namespace" else "default"
            fleet.cluster.create({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **fields}})
        for name in fleet.names:
            fleet.report(name)
        fleet.round(reviewed=(NodeQuarantine(name="q", node=self.node, reason="slow"),))
        assert self.look() is HealthPhase.PROBATION

    def look(self) -> HealthPhase:
        """Make two rounds with looks at the jobs, as processes that begin anew: the second decides by the first."""
        phase = HealthPhase.HEALTHY
        for _ in range(2):
            self.fleet.clock.at += 60
            self.fleet.report(self.node)
            file = self.folder / f"{self.fleet.clock.at}"  # that of another replica
            cluster, store, clock, done = self.fleet.cluster, self.fleet.store, self.fleet.clock, self.fleet.round()
            done = watch_jobs(file, cluster, store, done, kinds=BUILT_IN, clock=clock)
            assert not done.failures
            phase = done.evaluation.decisions[self.node].phase
        return phase

    def job(self, name: str, *, gpus: int = 8, start: float = 0.0, owner: Status | None = None) -> Status:
        """Make a job whose pod has run on the node and succeeded, and that goes on."""
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
        owners = [{**owner, "controller": True}] if owner else []
        metadata = {"name": name, "namespace": self.namespace, "ownerReferences": owners}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
        made = self.fleet.cluster.create(body).body["metadata"]
        job = {"name": made["name"], "uid": made["uid"]}
        pod(self.fleet.cluster, self.namespace, name, node=self.node, job=job, gpus=gpus)
        self.pod_is(name, "Succeeded", start)
        return job

    def pod_is(self, name: str, phase: str, start: float = 0.0) -> None:
        self._patch("", "Pod", name, {"phase": phase, "startTime": _time(start or self.fleet.clock.at)})

    def ends(self, name: str) -> None:
        now = _time(self.fleet.clock.at)
        self._job_is(name, {"startTime": now, "succeeded": 1, "completionTime": now}, "SuccessCriteriaMet", "Complete")

    def fails(self, name: str) -> None:
        self._job_is(name, {"startTime": _time(self.fleet.clock.at), "failed": 1}, "FailureTarget", "Failed")

    def _job_is(self, name: str, status: Status, *conditions: str) -> None:
        rows = [{"type": one, "status": "True", "lastTransitionTime": status["startTime"]} for one in conditions]
        self._patch("batch", "Job", name, {**status, "conditions": rows})

    def _patch(self, group: str, kind: str, name: str, status: Status) -> None:
        key = ObjectKey(group=group, kind=kind, namespace=self.namespace, name=name)
        self.fleet.cluster.patch(key, {"status": status}, subresource="status", manager="kubelet")


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat().replace("+00:00", "Z")


def test_three_jobs_that_end_well_end_the_probation(fleet: LiveFleet, tmp_path: Path) -> None:
    """F-096: 24 hours or three jobs; each counts once, also for a controller that was restarted."""
    node = Probation(fleet, "probation-three", tmp_path)
    for name in ("one", "two"):
        node.job(name)
        node.ends(name)
    for _ in range(3):
        assert node.look() is HealthPhase.PROBATION
    node.job("three")
    assert node.look() is HealthPhase.PROBATION, "its pod has ended here, and the job goes on elsewhere"
    node.ends("three")
    assert node.look() is HealthPhase.HEALTHY
    assert fleet.store.read().state.proven == {}


def test_jobs_that_say_nothing_about_the_node_do_not_count(fleet: LiveFleet, tmp_path: Path) -> None:
    node = Probation(fleet, "probation-none", tmp_path)
    earlier = fleet.clock.at - 3600
    node.job("before", start=earlier)
    node.job("without-gpus", gpus=0)
    node.job("failed")
    node.job("failed-pod")
    node.pod_is("failed-pod", "Failed")
    for name in ("before", "without-gpus", "failed-pod"):
        node.ends(name)
    node.fails("failed")
    assert node.look() is HealthPhase.PROBATION
    assert fleet.store.read().state.proven == {}


def test_the_jobs_of_one_workload_are_one(fleet: LiveFleet, tmp_path: Path) -> None:
    """A workload of several Jobs counts once, when all of it has ended."""
    node = Probation(fleet, "probation-whole", tmp_path)
    whole = {"apiVersion": "batch/v1", "kind": "Job", **node.job("whole", gpus=0)}
    for name in ("a", "b", "c"):
        node.job(name, owner=whole)
        node.ends(name)
    assert node.look() is HealthPhase.PROBATION
    assert fleet.store.read().state.proven == {}, "the whole has not ended"
    node.ends("whole")
    assert node.look() is HealthPhase.PROBATION
    assert fleet.store.read().state.proven == {node.node: (whole["uid"],)}
