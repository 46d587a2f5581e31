"""`reconciler preempt`: evidence and policies of a repository become edits of sources, and nothing else."""

import datetime as dt
import json
from typing import Any

import pytest

from tests.cli.fleet import Fleet

JOB = """apiVersion: batch/v1
kind: Job
metadata:
  name: NAME
  namespace: team-a
  labels: {team: a}
  annotations:
    example.com/note: kept  # a comment
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "train:1", resources: {limits: {amd.com/gpu: 8}}}
"""
POLICY = """apiVersion: gpureconciler.io/v1alpha1
kind: PreemptionPolicy
metadata: {name: idle}
spec:
  mode: propose
  selector: {kinds: [Job]}
  budgets: {shareOfRunning: 1.0}
"""


def instant(minutes: int) -> str:
    return (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(name: str, node: str, busy: float = 0.0, samples: int = 60) -> dict[str, Any]:
    windows = [
        {"gpu": str(gpu), "metric": "gpu_gfx_activity", "max": busy, "mean": busy, "samples": samples, "expected": 60}
        for gpu in range(8)
    ]
    pods = [{"name": f"{name}-0", "node": node, "gpus": 8, "windows": windows}]
    job = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team-a", "name": name}
    return {**job, "resource": "amd.com/gpu", "startedAt": instant(600), "pods": pods}


def observe(fleet: Fleet, *workloads: dict[str, Any], minutes: int = 1, count: int = 1) -> None:
    """Write what a cluster would have shown: these workloads, and one that waits for nodes of eight GPUs."""
    new = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team-b", "name": "new", "resource": "amd.com/gpu"}
    waiting = {**new, "since": instant(60), "pods": [{"count": count, "gpus": 8}]}
    spec = {"takenAt": instant(minutes), "windowSeconds": 1800, "workloads": workloads, "waiting": [waiting]}
    body = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "GpuUtilisation", "spec": spec}
    fleet.write("evidence/main/utilisation.yaml", json.dumps(body))


@pytest.fixture
def idle(fleet: Fleet) -> Fleet:
    """Make a repository with two jobs on two nodes of AMD, and a policy that proposes."""
    labels = {"amd.com/gpu.product-name": "AMD-Instinct-MI300X"}
    nodes = [
        {
            "name": name,
            "labels": labels,
            "gpu": {"product": "AMD-Instinct-MI300X", "count": 8},
            "allocatable": {"gpus": 8},
        }
        for name in ("n1", "n2")
    ]
    for path in (fleet.root / "evidence/main").glob("*.yaml"):
        path.unlink()
    body = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "NodeInventory"}
    spec = {"cluster": "main", "takenAt": instant(1), "nodes": nodes}
    fleet.write("evidence/main/nodes.yaml", json.dumps({**body, "spec": spec}))
    for name in ("sleepy", "busy"):
        fleet.write(f"jobs/{name}.yaml", JOB.replace("NAME", name))
    fleet.write("queues/preemption.yaml", POLICY)
    return fleet


def test_an_idle_job_is_suspended_in_git(idle: Fleet) -> None:
    """F-112, D-21: the source gets the annotation and the reason; no object and no claim is deleted."""
    observe(idle, running("sleepy", "n1"), running("busy", "n2", busy=95.0))
    ran = idle.run("preempt")
    assert (ran.code, ran.err) == (0, "")
    assert "suspend Job/team-a/sleepy (8 GPUs, Idle)" in ran.out
    assert "keep Job/team-a/busy (8 GPUs, Active)" in ran.out
    assert "waiting Job/team-b/new (8 GPUs): it starts without 1 workload" in ran.out
    assert '+    gpureconciler.io/suspend: "true"' in ran.out
    ran = idle.run("preempt", "--write", "--exit-code")
    assert ran.code == 1
    text = (idle.root / "jobs/sleepy.yaml").read_text()
    assert "example.com/note: kept  # a comment" in text
    assert "gpureconciler.io/preemption: 'idle 20" in text or 'gpureconciler.io/preemption: "idle 20' in text
    assert (idle.root / "jobs/busy.yaml").read_text() == JOB.replace("NAME", "busy")
    assert idle.run("render", "--to", str(idle.root.parent / "out")).code == 0
    rendered = [path.read_text() for path in (idle.root.parent / "out").rglob("*sleepy*.yaml")]
    assert len(rendered) == 1
    assert "suspend: true" in rendered[0]


def test_a_branch_leaves_the_working_tree(idle: Fleet) -> None:
    """The edit is a commit on a branch, for a review."""
    observe(idle, running("sleepy", "n1"), running("busy", "n2", busy=95.0))
    idle.commit()
    head = idle.git("rev-parse", "HEAD")
    ran = idle.run("preempt", "--branch", "preempt/idle")
    assert (ran.code, ran.err) == (0, "")
    assert idle.git("rev-parse", "HEAD") == head
    assert idle.git("status", "--porcelain") == ""
    assert idle.git("diff", "--name-only", "HEAD", "preempt/idle") == "jobs/sleepy.yaml"
    assert idle.git("log", "-1", "--format=%s", "preempt/idle") == "Suspend idle workloads in 1 file"


def test_report_edits_nothing(idle: Fleet) -> None:
    """A policy that reports says what it would do."""
    idle.edit("queues/preemption.yaml", "mode: propose", "mode: report")
    observe(idle, running("sleepy", "n1"), running("busy", "n2", busy=95.0))
    ran = idle.run("preempt", "--write")
    assert ran.code == 0
    assert "would suspend Job/team-a/sleepy" in ran.out
    assert "suspended for Job/team-b/new" in ran.out
    assert "wrote" not in ran.out


def test_what_is_reported_holds_back_what_is_proposed(idle: Fleet) -> None:
    """D-25: a demand that needs a workload of each policy gets none of them, where one policy only reports."""
    namespaced = POLICY.replace("name: idle", "name: early").replace("kinds: [Job]", "namespaces: [team-c]")
    idle.write("queues/early.yaml", namespaced.replace("mode: propose", "mode: report"))
    idle.write("jobs/busy.yaml", JOB.replace("NAME", "busy").replace("team-a", "team-c"))
    observe(idle, running("sleepy", "n1"), running("busy", "n2") | {"namespace": "team-c"}, count=2)
    ran = idle.run("preempt", "--write")
    assert ran.code == 0
    assert "would suspend Job/team-c/busy" in ran.out
    assert "another workload that Job/team-b/new needs is only reported" in ran.out
    assert "wrote" not in ran.out


RAY = """apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: sleepy
  namespace: team-a
  labels: {team: a, kueue.x-k8s.io/queue-name: main}
spec:
  entrypoint: python train.py
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers: [{name: head, image: "ray:1", resources: {limits: {amd.com/gpu: 8}}}]
"""


def test_what_would_be_deleted_stays(idle: Fleet) -> None:
    """D-21: Kueue resumes a suspended RayJob, so that stopping it in Git means to delete it: it stays."""
    idle.write("jobs/sleepy.yaml", RAY)
    idle.edit("queues/preemption.yaml", "kinds: [Job]", "kinds: [Job, RayJob]")
    ray = running("sleepy", "n1") | {"apiVersion": "ray.io/v1", "kind": "RayJob"}
    observe(idle, ray, running("busy", "n2", busy=95.0))
    ran = idle.run("preempt", "--write")
    assert ran.code == 0
    assert "keep RayJob/team-a/sleepy" in ran.out
    assert "it cannot be suspended without being deleted" in ran.out
    assert (idle.root / "jobs/sleepy.yaml").read_text() == RAY


@pytest.mark.parametrize(("samples", "minutes", "reason"), [(24, 1, "40% of the samples"), (60, 60, "60 minutes old")])
def test_unknown_is_not_idle(idle: Fleet, samples: int, minutes: int, reason: str) -> None:
    """KA-19, D-23: thin or stale measurements change nothing, and the reason is printed."""
    observe(idle, running("sleepy", "n1", samples=samples), running("busy", "n2"), minutes=minutes)
    idle.edit("jobs/busy.yaml", "example.com/note: kept", 'kaiwo.silogen.ai/gpu-preemption.enabled: "false"')
    ran = idle.run("preempt")
    assert "keep Job/team-a/sleepy (8 GPUs, Unknown)" in ran.out
    assert reason in ran.out
    assert "  suspend " not in ran.out


def test_wrong_annotations_are_errors(idle: Fleet) -> None:
    """D-26: a wrong value stops the evaluation with its place; a disabled workload stays."""
    observe(idle, running("sleepy", "n1"), running("busy", "n2", busy=95.0))
    key = "kaiwo.silogen.ai/gpu-preemption."
    idle.edit("jobs/sleepy.yaml", "example.com/note: kept", f"{key}policy: always")
    ran = idle.run("preempt")
    assert ran.code == 3
    assert ran.err.startswith("jobs/sleepy.yaml:8:")
    assert "allowed values: OnPressure, Always" in ran.err
    idle.edit("jobs/sleepy.yaml", f"{key}policy: always", f'{key}enabled: "false"')
    ran = idle.run("preempt")
    assert ran.code == 0
    assert "  suspend " not in ran.out


def test_defaults_come_from_kaiwo_and_the_namespace(idle: Fleet) -> None:
    """F-114: KaiwoConfig, then the policy, then the namespace, then the workload; each key by itself."""
    config = "apiVersion: config.kaiwo.silogen.ai/v1alpha1\nkind: KaiwoConfig\nmetadata: {name: kaiwo}\n"
    idle.write("queues/kaiwo.yaml", f"{config}spec: {{gpuPreemption: {{defaultThreshold: 50}}}}\n")
    observe(idle, running("sleepy", "n1", busy=30.0), running("busy", "n2", busy=95.0))
    assert "suspend Job/team-a/sleepy" in idle.run("preempt").out
    annotation = '{kaiwo.silogen.ai/gpu-preemption.threshold: "20"}'
    namespace = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-a, annotations: {annotation}}}\n"
    idle.write("queues/team-a.yaml", namespace)
    assert "keep Job/team-a/sleepy (8 GPUs, Active)" in idle.run("preempt").out


KAIWO = """apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
metadata: {name: sleepy, namespace: team-a}
spec: {gpus: 8, gpuVendor: amd, image: "train:1", entrypoint: train, duration: 2h}
"""


def test_a_kaiwo_job_gives_way_after_its_duration(idle: Fleet) -> None:
    """F-110: the busy job has run for ten hours of two; a policy without selector suspends it in its own source."""
    idle.write("jobs/sleepy.yaml", KAIWO)
    idle.edit("queues/preemption.yaml", "selector: {kinds: [Job]}", "pendingFor: 30m")
    observe(idle, running("sleepy", "n1", busy=97.0), running("busy", "n2"))
    ran = idle.run("preempt", "--write")
    assert (ran.code, ran.err) == (0, "")
    assert "suspend Job/team-a/sleepy (8 GPUs, Expired): it runs for 600 minutes, and its duration is 120" in ran.out
    text = (idle.root / "jobs/sleepy.yaml").read_text()
    assert 'gpureconciler.io/suspend: "true"' in text
    assert "duration: 2h" in text
    assert (idle.root / "jobs/busy.yaml").read_text() == JOB.replace("NAME", "busy")
    idle.write("jobs/sleepy.yaml", KAIWO)
    idle.edit("queues/preemption.yaml", "pendingFor: 30m", "pendingFor: 2h")
    assert "  suspend " not in idle.run("preempt").out


def test_without_a_policy_or_evidence(idle: Fleet) -> None:
    """Nothing happens, and what is missing is said."""
    assert "main: there is no utilisation evidence" in idle.run("preempt").out
    observe(idle, running("sleepy", "n1"))
    (idle.root / "queues/preemption.yaml").unlink()
    assert "main: there is no PreemptionPolicy" in idle.run("preempt").out
