"""Running jobs on a real API server: one that hangs, and what one left on its GPUs."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.cli.main import run as run_command
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.process import FleetGauges
from reconciler.health.fast_lane import LaneRound
from reconciler.health.rounds import watch_jobs
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.inflight.notes import JobNoteKind
from reconciler.nodehealth.report import GpuUse
from reconciler.web.metrics import Metrics
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.test_pass import push
from tests.live.health.conftest import SetClock
from tests.live.health.fleet import FAST, SLOT, LiveFleet
from tests.live.health.test_events import make_job, pod, told
from tests.live.health.test_rounds import Round, fleet, policy, run

__all__ = ["fleet", "run"]
BUSY: dict[str, Any] = {"watts": 600.0, "utilization": 99.0, "traffic": 1e9, "occupied": True}
SPINS: dict[str, Any] = {**BUSY, "watts": 200.0, "traffic": 0.0, "utilization": 100.0}
MINUTE = 60.0


class LiveJob:
    """A job with one pod on each of two nodes, whose agents report how its GPUs are used."""

    def __init__(self, fleet: LiveFleet, namespace: str) -> None:
        self.fleet, self.namespace, self.nodes = fleet, namespace, fleet.names[:2]
        fleet.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.job = make_job(fleet.cluster, namespace)
        for rank, node in enumerate(self.nodes):
            pod(fleet.cluster, namespace, f"rank-{rank}", node=node, job=self.job, gpus=8)
            self.phase(f"rank-{rank}", "Running")

    def phase(self, name: str, phase: str) -> None:
        key = ObjectKey(group="", kind="Pod", namespace=self.namespace, name=name)
        self.fleet.cluster.patch(key, {"status": {"phase": phase}}, subresource="status", manager="kubelet")

    def end(self) -> None:
        for rank in range(2):
            self.phase(f"rank-{rank}", "Succeeded")

    def report(self, errors: dict[str, float] | None = None, **use: Any) -> None:
        """Report of all nodes of the job, a minute later."""
        self.fleet.clock.pause(MINUTE)
        rows = [GpuUse(slot=f"0000:{index:02x}:00.0", **{**BUSY, **use}) for index in range(7)]
        first = GpuUse(slot=SLOT, **{**BUSY, **use, "errors": errors or {}})
        for node in self.nodes:
            self.fleet.report(
                node, activity=(first, *rows) if node == self.nodes[0] else (replace(first, errors={}), *rows)
            )


def look(fleet: LiveFleet, file: Path, clock: SetClock, spec: dict[str, Any] | None = None) -> LaneRound:
    """Make one round as a new process would, and look at the jobs."""
    done = fleet.round(spec)
    return watch_jobs(file, fleet.cluster, fleet.store, done, kinds=BUILT_IN, clock=clock)


def test_a_hanging_job_is_seen_told_and_measured(
    fleet: LiveFleet, person: Sandbox, run: Round, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F-097: from reports to the event of the job, the metric that the alert names, and a series to replay."""
    push(person, policy(FAST))
    job = LiveJob(fleet, "hanging")
    for _ in range(25):
        job.report()
        made = run()
        assert made.failure is None, made.failure
    assert told(fleet.cluster, job.namespace) == []
    made = PassOutcome()
    for _ in range(12):
        job.report(**SPINS)
        made = run()
    expected = [("Job", "train", "JobHung"), ("Pod", "rank-0", "JobHung"), ("Pod", "rank-1", "JobHung")]
    assert told(fleet.cluster, job.namespace) == expected, "once"
    metrics = Metrics()
    gauges = FleetGauges(metrics, fleet.clock)
    gauges.take("a", made)
    gauges.update()
    shown = metrics.exposition("text/plain")[1].decode()
    line = f'gpuhealth_job_hang_suspected{{job_name="train",job_namespace="{job.namespace}"}} 1.0'
    assert line in shown
    listing = fleet.cluster.list(fleet.cluster.resource("", "Event"), namespace=job.namespace).objects
    assert all("16 GPUs waiting" in event["message"] for event in listing)
    (kept,) = (tmp_path / "state").glob("jobs-*.json")
    assert run_command(["health", "replay-jobs", str(kept)]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"train: 37 samples of 36 min, 1 problem\n  hung since minute 2\d, found in minute 3\d: no pro", out
    )
    job.report()
    gauges.take("a", run())
    gauges.update()
    assert "gpuhealth_job_hang_suspected{" not in metrics.exposition("text/plain")[1].decode()
    job.end()


def test_what_a_job_left_on_its_gpus_is_a_finding_and_an_event(
    fleet: LiveFleet, clock: SetClock, tmp_path: Path
) -> None:
    """F-098: counters at the end less those at the start, against the node and for the owner; another job ends it."""
    spec = {
        **FAST,
        "checks": {**FAST["checks"], "job.errors": {"mode": "propose"}},
        "lifecycle": {"healthyDelay": "1m"},
    }
    job = LiveJob(fleet, "errors")
    file = tmp_path / "jobs.json"
    for _ in range(3):
        job.report({"ecc.uncorrected": 4.0})
        look(fleet, file, clock, spec)
    job.report({"ecc.uncorrected": 6.0})
    job.end()
    look(fleet, file, clock, spec)
    job.report({"ecc.uncorrected": 6.0}, occupied=False)
    done = look(fleet, file, clock, spec)
    (note,) = done.state.jobs
    assert note.kind is JobNoteKind.ERRORS
    assert "2 uncorrected memory errors" in note.text
    assert told(fleet.cluster, job.namespace) == [("Job", "train", "GPUErrors")]
    for _ in range(2):
        job.report({"ecc.uncorrected": 6.0}, occupied=False)
        done = look(fleet, file, clock, spec)
    decision = done.evaluation.decisions[job.nodes[0]]
    assert (decision.phase.value, decision.check, decision.slots) == ("suspect", "job.errors", (SLOT,))
    assert "while" in decision.reason
    assert done.evaluation.decisions[job.nodes[1]].phase.value == "healthy"
