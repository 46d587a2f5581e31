"""AgentaFlow's workloads as a user submits and reviews them."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli import gpu_scheduler
from tests.cli.agentaflow_fleet import make_agentaflow
from tests.cli.fleet import Fleet
from tests.kinds.test_gateway import POOL, ROUTE
from tests.seeds import AGENTAFLOW, AGENTAFLOW_LINES, PYTORCH_JOB

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


KAIWO = """\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
metadata:
  name: tune
  namespace: agentaflow
  labels: {team: vision}
  annotations: {agentaflow.gpu/scheduling-strategy: best_fit, agentaflow.gpu/priority: "2"}
spec: {gpus: 1, gpuVendor: nvidia, image: "train:1.0", entrypoint: python train.py, clusterQueue: gpus}
"""


def test_annotations_of_jobs_that_are_rendered(repository: Fleet) -> None:
    """F-029, AF-16: a KaiwoJob's annotations reach its Job; those of a value that is none are an error in any kind."""
    repository.write("jobs/tune.yaml", KAIWO)
    metadata = body(repository, "tune")["metadata"]
    assert metadata["annotations"]["agentaflow.gpu/scheduling-strategy"] == "best_fit"
    assert metadata["annotations"]["agentaflow.gpu/priority"] == "2"
    assert metadata["labels"]["kueue.x-k8s.io/priority-class"] == "low"
    repository.edit("jobs/tune.yaml", "best_fit", "spread")
    assert repository.run("lint").code == 3


def test_a_template_is_ready(repository: Fleet) -> None:
    """AF-14: what `new gpu-workload` writes loads, renders and has no warning."""
    made = repository.run("new", "gpu-workload", "x", "--team", "vision")
    assert (made.code, made.out.splitlines()[0]) == (0, "wrote jobs/x.yaml"), made.err
    linted = repository.run("lint")
    assert (linted.code, linted.out) == (0, "No problems found\n")
    planned = repository.run("plan")
    assert "+1 GPU requested on main" in planned.out
    assert "Warnings" not in planned.out
    assert repository.run("new", "gpu-workload", "y", "--strategy", "spread").code == 2


USAGE = """\
apiVersion: gpureconciler.io/v1alpha1
kind: GpuUsage
metadata: {name: main}
spec:
  cluster: main
  observedAt: "2026-11-01T06:00:00Z"
  shapes:
    abcd: {requests: {nvidia.com/gpu: "1"}}
  groups:
    - apiVersion: batch/v1
      kind: Job
      namespace: agentaflow
      queue: gpus
      state: running
      workloads: ["my-training-job 2026-11-01T05:00:00Z +3 +21 main:1:abcd@gpu-a"]
"""
GPU_NODE = """\
apiVersion: agentaflow.io/v1
kind: GPUNode
metadata: {name: gpu-a}
spec:
  nodeName: gpu-a
  gpuDevices: [{id: gpu-0, name: NVIDIA A100-SXM4-80GB, memoryTotal: 81920}, {id: gpu-1, memoryTotal: 81920}]
status:
  phase: Active
  lastUpdated: "2026-11-01T06:00:00Z"
  gpuStatus: [{id: gpu-0, available: false, memoryUsed: 8192, utilization: 50}, {id: gpu-1, available: true}]
"""


@pytest.fixture
def observed(repository: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Return a repository with evidence of use, as the current folder, and no cluster to ask."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", *gpu_scheduler.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(repository.root))
    monkeypatch.chdir(repository.root)
    repository.write("evidence/main/usage.yaml", USAGE)
    repository.write("evidence/main/gpu-nodes.yaml", GPU_NODE)
    repository.write("jobs/my-workload.yaml", AGENTAFLOW["my-workload.yaml"])
    repository.commit()
    return repository


def test_sums_of_what_is_recorded(observed: Fleet) -> None:
    """F-123, F-027, agentaflow defect 22: the keys of the seed; what is not known is null and counts for nothing."""
    found = json.loads(observed.run("status", "--summary", "--evidence", "-o", "json").out)
    clusters = found.pop("clusters")
    assert found == {
        "totalNodes": 3,
        "activeNodes": 3,
        "totalGPUs": 24,
        "availableGPUs": 23,
        "utilizedGPUs": 1,
        "measuredGPUs": 1,
        "averageUtilization": 50.0,
        "pendingWorkloads": 0,
        "runningWorkloads": 1,
        "completedWorkloads": None,
        "memoryUtilization": 5.0,
        "lastUpdateTime": "2026-11-01T06:00:00Z",
    }
    assert [one["cluster"] for one in clusters] == ["main"]
    (observed.root / "evidence/main/usage.yaml").unlink()
    (observed.root / "evidence/main/gpu-nodes.yaml").unlink()
    bare = json.loads(observed.run("status", "--summary", "--evidence", "-o", "json").out)
    assert (bare["totalGPUs"], bare["availableGPUs"], bare["averageUtilization"]) == (24, None, None)
    assert (bare["runningWorkloads"], bare["completedWorkloads"]) == (None, None)


def test_nodes_by_utilisation(observed: Fleet) -> None:
    """F-123, agentaflow defect 2: the utilisation of nodes; unknown ones come last, and show no 0."""
    shown = observed.run("status", "nodes", "--evidence", "--sort", "util")
    assert shown.code == 0
    rows = [line.split() for line in shown.out.splitlines() if line.startswith("  gpu-")]
    assert [row[0] for row in rows] == ["gpu-a", "gpu-b", "gpu-c"]
    assert rows[0][-4:] == ["50.0", "%", "of", "1"]
    assert rows[1][-1] == "N/A"
    assert observed.run("status", "--sort", "util").code == 2
    assert observed.run("status", "x", "--summary").code == 2


def test_jobs_of_what_is_recorded(observed: Fleet) -> None:
    """F-123: `status --evidence` shows what ran when somebody last looked."""
    shown = observed.run("status", "--evidence")
    assert "Job/agentaflow/my-training-job  Running" in shown.out
    assert "as of 2026-11-01T06:00:00Z" in shown.out


def written(observed: Fleet, line: str) -> int:
    """Run a line of the README as it is printed."""
    program, *words = shlex.split(line)
    assert program == "./k8s-gpu-scheduler"
    observed.capture.readouterr()
    return gpu_scheduler.run(words, dict(os.environ))


HERE = {"status": "24 total", "nodes": "gpu-a", "workloads": "my-training-job", "watch": "my-training-job"}
HERE |= {
    "strategy": "reconciler.yaml",
    "health": "3 nodes",
    "generate-template": "wrote my-workload.yaml",
    "submit": "GPU",
}
LINES = [line for line in AGENTAFLOW_LINES.splitlines() if "--mode=cli" in line]


@pytest.mark.parametrize("line", LINES)
def test_lines_of_the_readme(observed: Fleet, line: str) -> None:
    """AF-13, F-123, agentaflow defect 17: each line runs, prints the command that does it, and its table."""
    example = "examples/k8s/pytorch-training-workload.yaml"
    observed.write(example, AGENTAFLOW[example])
    if "submit my-workload.yaml" in line:
        assert written(observed, "./k8s-gpu-scheduler --mode=cli generate-template my-workload.yaml") == 0
    assert written(observed, line) == 0
    out, err = observed.capture.readouterr()
    assert err.startswith("reconciler ")
    assert err.count("reconciler ") == 1
    assert HERE[line.split()[2]] in out


def test_lines_that_run_for_long(observed: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """AF-13, F-124: the scheduler is the controller, the monitor is the agent, a strategy is that of the repository."""
    run: list[list[str]] = []

    def keep(words: list[str]) -> int:
        run.append(words)
        return 0

    monkeypatch.setattr(gpu_scheduler, "run_reconciler", keep)
    for line in AGENTAFLOW_LINES.splitlines():
        if "--mode=scheduler" in line or " strategy " in line:
            assert written(observed, line) == 0
    assert written(observed, "./k8s-gpu-scheduler --mode=monitor --node gpu-a") == 0
    assert written(observed, "./k8s-gpu-scheduler strategy") == 0
    assert run == [
        ["placement", "strategy", "best_fit"],
        ["placement", "strategy", "priority"],
        ["controller", "--log-level", "debug"],
        ["agent", "--interval", "15", "--log-level", "info"],
        ["placement", "strategy"],
    ]
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("SCHEDULING_INTERVAL", "1m")
    assert written(observed, "./k8s-gpu-scheduler --mode=cli watch") == 0
    assert run[-1] == ["status", "--watch", "--nodes", "--interval", "60"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SCHEDULING_STRATEGY", "foo", "is not a strategy"),
        ("SCHEDULING_STRATEGY", "best-fit", "did you mean best_fit?"),
        ("GPU_UTILIZATION_GOAL", "0", "is not a percentage"),
        ("GPU_UTILIZATION_GOAL", "eighty", "is not a percentage"),
        ("GPU_UTILIZATION_GOAL", "101", "is not a percentage"),
        ("MONITOR_INTERVAL", "15", "is not a duration"),
        ("SCHEDULING_INTERVAL", "0s", "is too short"),
        ("KUBERNETES_NAMESPACE", "Not A Name", "is not the name of a namespace"),
    ],
)
def test_variables(observed: Fleet, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    """AF-23, F-124, agentaflow defect 9: the variables are read, and an unknown value ends with exit code 2."""
    monkeypatch.setenv(name, value)
    assert written(observed, "./k8s-gpu-scheduler --mode=cli status") == 2
    error = observed.capture.readouterr().err
    assert error.startswith(f"error: {name}: ")
    assert words in error


def test_variables_have_the_defaults_of_the_seed() -> None:
    """F-124: each variable has its documented default; an empty one counts as unset, and a flag wins."""
    assert gpu_scheduler.read_environment({}) == gpu_scheduler.ENVIRONMENT
    assert gpu_scheduler.read_environment({"SCHEDULING_STRATEGY": ""}) == gpu_scheduler.ENVIRONMENT
    found = gpu_scheduler.read_environment({"KUBERNETES_NAMESPACE": "a"}, namespace="b", strategy="priority")
    assert (found["KUBERNETES_NAMESPACE"], found["SCHEDULING_STRATEGY"]) == ("b", "priority")


def test_several_workloads_are_submitted(observed: Fleet) -> None:
    """F-123: the documents of a folder are files of one branch; two of one name are refused."""
    for name in ("one", "two"):
        observed.write(f"../new/{name}.yaml", AGENTAFLOW["my-workload.yaml"].replace("my-training-job", name))
    folder = observed.root.parent / "new"
    ran = observed.run("submit", "--file", str(folder))
    assert ran.code == 0, ran.out + ran.err
    changed = observed.git("diff", "--name-only", "HEAD", "submit/one-and-1-more").split()
    assert changed == ["jobs/agentaflow/one.yaml", "jobs/agentaflow/two.yaml"]
    observed.write("../new/three.yaml", AGENTAFLOW["my-workload.yaml"].replace("my-training-job", "one"))
    assert "holds two workloads for jobs/agentaflow/one.yaml" in observed.run("submit", "--file", str(folder)).err
    observed.write("../none.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    assert "holds no workload" in observed.run("submit", "-f", str(observed.root.parent / "none.yaml")).err


def test_the_namespace_of_a_submitted_file(observed: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-124, agentaflow defect 16: a file keeps its namespace; one without any is for KUBERNETES_NAMESPACE."""
    values = gpu_scheduler.read_environment({"KUBERNETES_NAMESPACE": "team-a"})
    text = AGENTAFLOW["my-workload.yaml"]
    for name, content, namespace in (
        ("own.yaml", text, []),
        ("none.yaml", text.replace("  namespace: agentaflow\n", ""), ["--namespace", "team-a"]),
    ):
        observed.write(name, content)
        words = gpu_scheduler.native(["submit", name], values, is_live=False)
        assert words == ["submit", "--file", name, *namespace]


@pytest.mark.parametrize("line", ["", "help", "submit", "status now", "bogus"])
def test_wrong_lines(observed: Fleet, line: str) -> None:
    """F-123: what is no line of AgentaFlow is a usage error; no line at all shows the verbs."""
    assert written(observed, f"./k8s-gpu-scheduler --mode=cli {line}") == (0 if line in ("", "help") else 2)


def test_a_job_is_completed(observed: Fleet) -> None:
    """F-123, agentaflow defect 7: `complete` proposes the end of a job and says what runs; the tree stays."""
    observed.write("jobs/other.yaml", AGENTAFLOW["my-workload.yaml"].replace("my-training-job", "other"))
    observed.commit()
    done = observed.run("complete", "my-training-job")
    assert done.code == 0, done.err
    assert "It runs and is stopped: 1 GPU on gpu-a since 2026-11-01T05:00:21Z" in done.out
    changed = observed.git("diff", "--name-status", "HEAD", "complete/my-training-job").split()
    assert changed[:2] == ["D", "jobs/my-workload.yaml"]
    observed.git("branch", "-D", "complete/my-training-job")
    paused = observed.run("complete", "my-training-job", "--suspend")
    assert paused.code == 0, paused.err
    edit = observed.git("diff", "-U0", "HEAD", "complete/my-training-job", "--", "jobs/my-workload.yaml")
    assert [line for line in edit.splitlines() if line.startswith("+ ")] == [
        "+  annotations:",
        '+    gpureconciler.io/suspend: "true"',
    ]
    assert observed.run("complete", "absent").code == 2


def test_a_route_to_a_pool_that_does_not_exist(repository: Fleet) -> None:
    """F-136: a plan reviews how requests reach models: the name of the pool is wrong."""
    route = ROUTE.replace("serving", "agentaflow").replace("InferencePool, name: llama", "InferencePool, name: lama")
    repository.write("jobs/serving.yaml", f"{route}---\n{POOL.replace('serving', 'agentaflow')}")
    found = repository.run("lint")
    assert found.code == 0
    assert "refers to InferencePool agentaflow/lama" in found.out.replace("\n      ", " ")
    assert "did you mean 'llama'?" in found.out.replace("\n      ", " ")
    assert "reference.route" in found.out
