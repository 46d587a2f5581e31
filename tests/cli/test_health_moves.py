"""Jobs that name bad nodes get others: `reconciler propose` edits their files."""

import yaml

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


def test_without_a_healthy_node_the_job_stays(fleet: Fleet) -> None:
    """F-099: nothing is guessed: the proposal says that no such node is free."""
    _prepare(fleet, "UNKNOWN")
    ran = fleet.run("propose", "--write")
    assert (fleet.root / "jobs/vision/pinned.yaml").read_text() == JOB
    assert "Job/pinned names gpu-2, WARN hbm.bandwidth; no healthy node of its kind is free" in ran.out + ran.err
