"""Jobs that name bad nodes get others: `reconciler propose` edits their files."""

import json
from typing import Any

import yaml

from reconciler.cli.main import run
from tests.cli.fleet import Fleet
from tests.live.observe.test_propose import EVIDENCE, H100, inventory, node

HEALTH = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeHealth
metadata: {name: main}
spec:
  takenAt: "2026-11-01T06:00:00Z"
  nodes:
  - {name: gpu-1, status: PASS}
  - {name: gpu-2, status: WARN, issues: [{check: hbm.bandwidth, status: WARN}]}
  - {name: gpu-3, status: UNKNOWN}
  - {name: gpu-4, status: %s}
"""
JOB = """\
# The nodes of one rack.
apiVersion: batch/v1
kind: Job
metadata: {name: pinned, namespace: vision}
spec:
  template:
    spec:
      restartPolicy: Never
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: kubernetes.io/hostname, operator: In, values: [gpu-1, gpu-2]}
      containers:
      - name: main
        image: busybox@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
        resources: {limits: {nvidia.com/gpu: 8}}
"""


def _limit_age(fleet: Fleet, age: str) -> None:
    fleet.edit("reconciler.yaml", "spec:\n", f"spec:\n  evidence: {{maxAge: {age}}}\n")


def _prepare(fleet: Fleet, status: str) -> None:
    fleet.write(EVIDENCE, inventory(*(node(f"gpu-{number}", H100, "NVIDIA-H100-80GB-HBM3") for number in range(1, 5))))
    fleet.write("evidence/main/health.yaml", HEALTH % status)
    fleet.write("jobs/vision/pinned.yaml", JOB)


def test_a_job_leaves_a_node_with_a_warning(fleet: Fleet) -> None:
    """F-099: for a healthy node that no job names; an unknown one is none; comments stay."""
    _prepare(fleet, "PASS")
    ran = fleet.run("propose", "--write")
    assert ran.code == 0
    text = (fleet.root / "jobs/vision/pinned.yaml").read_text()
    assert text.startswith("# The nodes of one rack.\n")
    spec = yaml.safe_load(text)["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["gpu-1", "gpu-4"]
    assert "Job/pinned moves: gpu-2 (WARN hbm.bandwidth) → gpu-4" in ran.out + ran.err


TORCHRUN = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: pinned, namespace: vision}
spec:
  queue: h100
  numNodes: 1
  command: torchrun train.py
  scheduling:
    nodeSelector: {kubernetes.io/hostname: gpu-2}
"""


def test_a_torchrun_job_leaves_a_node_with_a_warning(fleet: Fleet) -> None:
    """F-099: what it says for all of its pods names the node, too."""
    _prepare(fleet, "PASS")
    fleet.write("jobs/vision/pinned.yaml", TORCHRUN)
    ran = fleet.run("propose", "--write")
    moved = yaml.safe_load((fleet.root / "jobs/vision/pinned.yaml").read_text())
    assert moved["spec"]["scheduling"]["nodeSelector"]["kubernetes.io/hostname"] == "gpu-1", ran.out + ran.err
    assert "TorchrunJob/pinned moves: gpu-2 (WARN hbm.bandwidth) → gpu-1" in ran.out + ran.err


def test_without_a_healthy_node_the_job_stays(fleet: Fleet) -> None:
    """F-099: nothing is guessed: the proposal says that no such node is free."""
    _prepare(fleet, "UNKNOWN")
    ran = fleet.run("propose", "--write")
    assert (fleet.root / "jobs/vision/pinned.yaml").read_text() == JOB
    assert "Job/pinned names gpu-2, WARN hbm.bandwidth; no healthy node of its kind is free" in ran.out + ran.err


def test_an_old_pass_is_unknown(fleet: Fleet) -> None:
    """F-099: a node that passed too long ago takes no job; a failure of that time still counts."""
    _prepare(fleet, "PASS")
    fleet.write("evidence/main/health.yaml", (HEALTH % "PASS").replace("2026-11-01", "2020-11-01"))
    _limit_age(fleet, "30d")
    ran = fleet.run("propose", "--write")
    assert (fleet.root / "jobs/vision/pinned.yaml").read_text() == JOB
    said = ran.out + ran.err
    assert "Job/pinned names gpu-2, WARN hbm.bandwidth; no healthy node of its kind is free (2 nodes unknown: " in said
    assert "spec.evidence.maxAge allows 30 days" in said


def test_a_plan_judges_the_age(fleet: Fleet) -> None:
    _prepare(fleet, "PASS")
    _limit_age(fleet, "30d")
    fleet.commit("evidence")
    assert "health.yaml" not in fleet.run("lint", "--date", "2026-12-01").out
    ran = fleet.run("lint", "--date", "2026-12-02")
    assert "evidence/main/health.yaml" in ran.out
    assert "is dated 2026-11-01; spec.evidence.maxAge allows an age of 30 days" in " ".join(ran.out.split())


def test_offline_health_reads_the_evidence(fleet: Fleet) -> None:
    """F-098: offline, the recorded health is shown with its age; what passed too long ago is unknown."""
    _prepare(fleet, "FAIL, issues: [{check: ecc.dram, slot: '0000:9b:00.0', status: FAIL}]")
    rows = _offline(fleet)
    assert [(row["node"], row["phase"], row["reason"]) for row in rows] == [
        ("gpu-1", "healthy", ""),
        ("gpu-2", "healthy", "hbm.bandwidth: WARN"),
        ("gpu-3", "unknown", "recorded as unknown"),
        ("gpu-4", "suspect", "ecc.dram on 0000:9b:00.0: FAIL"),
    ]
    assert all(row["age"] is not None for row in rows)
    for row in rows:
        fleet.capture.readouterr()
        assert run(["health", "--repo", str(fleet.root), "--offline", "-o", "json", "explain", row["node"]]) == 0
        chain = json.loads(fleet.capture.readouterr().out)
        assert chain["phase"] == row["phase"]
        assert chain["chain"]["findings"] == [row["reason"] or "no check reports a problem"]
        assert "in the evidence" in chain["chain"]["readings"][0]
    fleet.write(
        "evidence/main/health.yaml", (fleet.root / "evidence/main/health.yaml").read_text().replace("2026", "2020")
    )
    _limit_age(fleet, "30d")
    old = _offline(fleet)
    assert [row["phase"] for row in old] == ["unknown", "healthy", "unknown", "suspect"]
    assert "spec.evidence.maxAge allows 30 days" in old[0]["reason"]


def _offline(fleet: Fleet) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(fleet.run("health", "--offline", "-o", "json").out)["clusters"][0]["nodes"]
    return rows
