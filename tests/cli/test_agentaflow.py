"""AgentaFlow's workloads as a user submits and reviews them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.agentaflow_fleet import make_agentaflow
from tests.cli.fleet import Fleet
from tests.seeds import AGENTAFLOW, PYTORCH_JOB

TRAINING = """\
  name: tune
  namespace: agentaflow
  labels: {kueue.x-k8s.io/queue-name: gpus, team: vision}
spec:
  runPolicy: {suspend: true, activeDeadlineSeconds: 3600}
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers: [{name: pytorch, image: "train:1.0", resources: {limits: {nvidia.com/gpu: 1}}}]
"""


@pytest.fixture
def repository(fleet: Fleet, kept: Path) -> Fleet:
    fleet.make_once(kept, lambda: make_agentaflow(fleet))
    return fleet


def body(fleet: Fleet, name: str) -> dict[str, Any]:
    fleet.commit()
    ran = fleet.run("commit")
    assert ran.code == 0, ran.err
    (path,) = (fleet.root / "rendered").rglob(f"*{name}.yaml")
    found: dict[str, Any] = yaml.safe_load(path.read_bytes())
    return found


def test_the_workload_of_the_readme(repository: Fleet) -> None:
    """AF-01, F-025: the seed's file in jobs/ is one more GPU in the plan, and nothing about it is wrong."""
    repository.write("jobs/my-workload.yaml", AGENTAFLOW["my-workload.yaml"])
    linted = repository.run("lint")
    assert linted.code == 0
    assert "agentaflow." not in linted.out
    planned = repository.run("plan")
    assert planned.code == 0, planned.err
    assert "+1 GPU requested on main" in planned.out
    rendered = body(repository, "my-training-job")
    assert rendered["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    assert rendered["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "normal"


def test_an_unknown_strategy(repository: Fleet) -> None:
    """AF-15: exit code 3, the place, and the strategy that was perhaps meant."""
    text = AGENTAFLOW["my-workload.yaml"].replace("least_utilized", "spread")
    repository.write("jobs/my-workload.yaml", text)
    found = repository.run("lint")
    assert found.code == 3
    assert "my-workload.yaml:9:23" in found.out + found.err
    assert "did you mean" in found.out + found.err


def test_annotations_of_other_jobs(repository: Fleet) -> None:
    """AF-16, F-029, agentaflow defect 7: the annotations are kept, and the class of the priority is rendered."""
    repository.write("jobs/tune.yaml", PYTORCH_JOB + TRAINING)
    metadata = body(repository, "tune")["metadata"]
    assert metadata["annotations"]["agentaflow.gpu/scheduling-strategy"] == "priority"
    assert metadata["annotations"]["agentaflow.gpu/priority"] == "10"
    assert metadata["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    explained = repository.run("explain", "PyTorchJob/agentaflow/tune")
    assert "the class of priority 10" in explained.out
    repository.edit("jobs/tune.yaml", '"10"', '"11"')
    wrong = repository.run("lint")
    assert wrong.code == 3
    assert "'11' is not a priority" in wrong.out + wrong.err
