"""`reconciler report` from the evidence of a repository."""

import json
import re
from typing import Any

import pytest

from reconciler.repo.evidence.usage import (
    RUNNING,
    WAITING,
    QueueWaits,
    Usage,
    UsedPodSet,
    UsedWorkload,
    WaitReason,
    write_usage,
)
from reconciler.repo.evidence.utilisation import GpuPod, GpuUtilisation, GpuWindow, GpuWorkload, write_utilisation
from tests.cli.fleet import Fleet

PRICES = """\
  prices:
    currency: EUR
    source: contract 7
    date: "2026-01-31"
    gpuHours: {NVIDIA-H100-80GB-HBM3: 2.0}
"""
JOB: dict[str, Any] = {"api_version": "batch/v1", "kind": "Job", "namespace": "team-x", "name": "train"}
SOURCE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team-x}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "registry.example.com/a:1", resources: {limits: {nvidia.com/gpu: 2}}}]
"""


def node_with_gpus(fleet: Fleet) -> str:
    text = (fleet.root / "evidence/main/nodes.yaml").read_text()
    return next(
        line.split("name: ")[1].split(",")[0].strip()
        for line in text.splitlines()
        if "name: " in line and "main" not in line
    )


def prepare(fleet: Fleet) -> None:
    path = fleet.root / "reconciler.yaml"
    path.write_text(path.read_text() + PRICES)
    node = node_with_gpus(fleet)
    windows = tuple(
        GpuWindow(gpu=gpu, metric="DCGM_FI_DEV_GPU_UTIL", max=90.0, mean=25.0, samples=60, expected=60, idle=idle)
        for gpu, idle in (("0", 1.0), ("1", 0.5))
    )
    pods = (GpuPod(name="train-a", node=node, gpus=2, windows=windows),)
    held = GpuWorkload(**JOB, resource="nvidia.com/gpu", queue="h100", pods=pods, started_at="2026-11-01T00:00:00Z")
    use = GpuUtilisation(cluster="main", taken_at="2026-11-02T09:00:00Z", window_seconds=3600, workloads=(held,))
    sets = (UsedPodSet(name="main", count=1, requests={"nvidia.com/gpu": "2"}, nodes=((node, 1),)),)
    given: dict[str, Any] = {"queue": "lq", "cluster_queue": "h100", "owner": "vision", "pod_sets": sets}
    running = UsedWorkload(**JOB, **given, state=RUNNING, started_at="2026-11-02T08:00:00Z")
    why = (WaitReason(reason="Pending", message="insufficient unused quota"),)
    waiting = UsedWorkload(
        **{**JOB, "name": "next"}, **given, state=WAITING, created_at="2026-11-02T03:00:00Z", conditions=why
    )
    waits = (QueueWaits(queue="h100", samples=40, p50_seconds=1800.0, p90_seconds=7200.0, window="7d", source="m"),)
    usage = Usage(cluster="main", observed_at="2026-11-02T09:00:00Z", workloads=(running, waiting), waits=waits)
    (fleet.root / "evidence/main/utilisation.yaml").write_bytes(write_utilisation(use))
    (fleet.root / "evidence/main/usage.yaml").write_bytes(write_usage(usage))
    fleet.write("jobs/train.yaml", SOURCE)


def test_reports_from_evidence(fleet: Fleet) -> None:
    """F-130, F-129: by team with the label's owner, with the place of the edit that frees an idle job."""
    prepare(fleet)
    ran = fleet.run("report", "efficiency", "--evidence", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    (row,) = found["rows"]
    assert (row["name"], row["gpuHours"], row["idle"], row["idleShare"]) == ("vision", 2.0, 1.5, 0.75)
    assert (row["cost"], row["wasted"], row["currency"], row["trend"]) == (4.0, 3.0, "EUR", "not enough data")
    assert (found["window"], found["notes"][0]) == (
        "60 minutes of evidence",
        "main: from evidence of 2026-11-02T09:00:00Z",
    )
    (idle,) = found["idleJobs"]
    assert idle["job"] == "Job/team-x/train"
    assert idle["freeing"] == {"place": "jobs/train.yaml:1", "edit": "spec.suspend: true"}
    shown = fleet.run("report", "cost", "--evidence", "--by", "queue", "--width", "150").out
    assert "h100" in shown
    assert "4.00 EUR" in shown
    assert fleet.run("report", "efficiency", "--evidence", "-o", "csv").out.startswith("cluster,name,gpuHours,")


def test_queues(fleet: Fleet) -> None:
    """F-130: who holds and who waits, for how long and why, and how long workloads waited, with the samples."""
    prepare(fleet)
    found = json.loads(fleet.run("report", "queues", "--evidence", "-o", "json").out)
    (row,) = found["rows"]
    assert (row["name"], row["gpus"], row["waiting"], row["waitingGpus"], row["longest"]) == ("h100", 2, 1, 2, 6.0)
    assert (row["p50Hours"], row["p90Hours"], row["samples"], row["window"]) == (0.5, 2.0, 40, "7d")
    text = fleet.run("report", "queues", "--evidence", "--width", "160").out
    assert "Job/team-x/next: insufficient unused quota" in text
    assert re.search(r"usage\.yaml of 2026-11-02T09:00:00Z \(\d+ d ago\)", text)
    assert fleet.run("report", "queues", "--window", "soon").code == 2


def test_a_workload_without_a_team_is_of_its_namespace(fleet: Fleet) -> None:
    """As in the costs of a plan: the label of `spec.prices.owners`, else the namespace."""
    prepare(fleet)
    path = fleet.root / "evidence/main/usage.yaml"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "owner: " not in line))
    (row,) = json.loads(fleet.run("report", "cost", "--evidence", "-o", "json").out)["rows"]
    assert row["name"] == "team-x"
    (fleet.root / "evidence/main/utilisation.yaml").unlink()
    (row,) = json.loads(fleet.run("report", "cost", "--evidence", "-o", "json").out)["rows"]
    assert row["name"] == "team-x"
    (row,) = json.loads(fleet.run("report", "queues", "--by", "team", "-o", "json").out)["rows"]
    assert row["name"] == "team-x"


def test_the_longest_wait_has_its_unit(fleet: Fleet) -> None:
    prepare(fleet)
    text = fleet.run("report", "queues", "--evidence", "--width", "160").out
    assert re.search(r"GPUs wanted +longest +waited p50", text)
    assert re.search(r" 2 +6\.0 h +0\.5 h +2\.0 h of 40 in 7d", text)


def test_the_status_of_queues_has_what_was_observed(fleet: Fleet) -> None:
    """KA-22, F-122: beside quota and requests of the repository, what ran and waited; without evidence that is unknown."""
    words = ("status", "queues", "--evidence", "-o", "json")
    (cluster,) = json.loads(fleet.run(*words).out)["clusters"]
    assert {(one["admitted"], one["pending"], one["workloads"]) for one in cluster["queues"]} == {(None, None, None)}
    prepare(fleet)
    (cluster,) = json.loads(fleet.run(*words).out)["clusters"]
    (queue,) = cluster["queues"]
    assert (queue["name"], queue["admitted"], queue["pending"], queue["workloads"]) == ("h100", 2, 2, 2)
    assert cluster["source"] == "repository, and use of 2026-11-02T09:00:00Z"


def test_pods_on_nodes_hold_gpus_whenever_they_started(fleet: Fleet) -> None:
    """F-130: without `utilisation.yaml`, what `usage.yaml` has on nodes counts for an hour, also without its start."""
    prepare(fleet)
    (fleet.root / "evidence/main/utilisation.yaml").unlink()
    path = fleet.root / "evidence/main/usage.yaml"
    fleet.write("evidence/main/usage.yaml", path.read_text().replace("2026-11-02T08:00:00Z", "-"))
    (row,) = json.loads(fleet.run("report", "cost", "--evidence", "-o", "json").out)["rows"]
    assert (row["name"], row["gpuHours"], row["cost"]) == ("vision", 2.0, 4.0)


@pytest.mark.parametrize(
    "command",
    [
        "report queues",
        "report cost",
        "status --evidence",
        "status nodes --evidence",
        "status --summary --evidence",
        "placement plan",
    ],
)
def test_broken_evidence_is_an_error_and_not_missing(fleet: Fleet, command: str) -> None:
    """Exit code 3 with the place, instead of a report in which nothing runs."""
    prepare(fleet)
    path = fleet.root / "evidence/main/usage.yaml"
    path.write_text(path.read_text().replace("observedAt: ", "observedAt: 'yesterday' #"))
    ran = fleet.run(*command.split())
    assert (ran.code, "evidence/main/usage.yaml:" in ran.err, "spec.observedAt" in ran.err) == (3, True, True), ran.err


def test_a_repository_without_evidence_of_use(fleet: Fleet) -> None:
    """F-130: nothing is known, and the report says so instead of zeros."""
    ran = fleet.run("report", "efficiency", "--evidence")
    assert ran.code == 0
    assert "Nothing held GPUs, or nothing is known." in ran.out
    assert "there is no evidence of use" in ran.out
    assert "Window: no evidence\n" in ran.out


def test_a_prometheus_that_does_not_answer(fleet: Fleet) -> None:
    """D-23, F-130: a failure, and evidence does not stand in for it silently."""
    prepare(fleet)
    path = fleet.root / "reconciler.yaml"
    path.write_text(
        path.read_text().replace(
            "    - name: main\n", '    - name: main\n      prometheus: {url: "http://127.0.0.1:9"}\n'
        )
    )
    ran = fleet.run("report", "efficiency")
    assert ran.code == 6
    assert "Warning: main: " in ran.out
