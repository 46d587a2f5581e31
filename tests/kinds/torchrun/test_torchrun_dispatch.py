"""Jobs of a queue that runs them on worker clusters by MultiKueue."""

from typing import Any

import pytest

from tests.kinds.torchrun.torchrun_cases import rendered
from tests.kinds.walking import Result

TEXT = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  image: train:1
  nodeResources: {gpus: 8}
  queue: {multiKueue: workers, resources: {gpu: {quota: 32}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: train}
spec:
  jobQueue: q
  command: python train.py
  JOB
"""
CODE = "workspaceStorage: {source: git, url: https://git.example.com/a.git, ref: v1, hotReload: HOT}"


def sent(job: str = "numGPUs: 16", backend: str = "kueue") -> Result:
    return rendered(TEXT.replace("JOB", job), backend)


def test_the_queue_has_the_check() -> None:
    """F-047: the ClusterQueue names the AdmissionCheck."""
    spec = sent().one("ClusterQueue")["spec"]
    assert spec["admissionChecksStrategy"] == {"admissionChecks": [{"name": "workers"}]}


@pytest.mark.parametrize(("gpus", "kind"), [(8, "Job"), (16, "JobSet")])
def test_the_controllers_of_this_cluster_leave_the_job_alone(gpus: int, kind: str) -> None:
    """Several nodes are a JobSet: its controller makes the Service by which pods meet, in the cluster where they run."""
    result = sent(f"numGPUs: {gpus}")
    assert result.problems == ()
    body: dict[str, Any] = result.one(kind)
    assert body["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert "Service/train" not in result.kinds()


def test_what_the_job_mounts_must_be_on_the_workers() -> None:
    result = sent(f"numGPUs: 16\n  storage: {{checkpoints: {{claimName: shared}}}}\n  {CODE.replace('HOT', 'restart')}")
    assert result.rules == ["torchrun.multikueue"]
    assert "must have the claims shared, train-workspace" in str(result.problems[0])


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("numGPUs: 16\n  workload: TrainJob", "copies no TrainingRuntime"),
        (f"numGPUs: 8\n  {CODE.replace('HOT', 'inplace')}", "by a Job of its own"),
    ],
)
def test_what_no_worker_can_run(job: str, words: str) -> None:
    result = sent(job)
    assert result.errors == ["torchrun.multikueue"]
    assert words in str(result.problems[0])


@pytest.mark.parametrize("gpus", [8, 16])
def test_a_suspended_job_is_deleted(gpus: int) -> None:
    """F-055: and with it what Kueue has made of it on a worker cluster."""
    result = sent(f"numGPUs: {gpus}\n  suspend: true")
    assert result.rules == ["torchrun.suspend"]
    assert not [each for each in result.kinds() if each.startswith("Job")]


@pytest.mark.parametrize("backend", ["kai", "none"])
def test_elsewhere_it_has_no_effect(backend: str) -> None:
    result = sent("numGPUs: 8", backend)
    assert "torchrun.unsupported" in result.rules
    assert "managedBy" not in result.one("Job")["spec"]
