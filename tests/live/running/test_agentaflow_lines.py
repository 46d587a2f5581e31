"""The lines of AgentaFlow's README, as printed there, on a real cluster: Kueue, kube-scheduler, and nodes of kwok."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reconciler.cli import gpu_scheduler
from tests.cli.agentaflow_fleet import PRODUCTS, make_agentaflow
from tests.cli.fleet import Fleet
from tests.cluster.bed.bed import PLAYED, Bed, node
from tests.cluster.kubeconfig import with_contexts
from tests.seeds import AGENTAFLOW, AGENTAFLOW_LINES
from tools.crds import manifest
from tools.health_crd import REPORT

pytestmark = [pytest.mark.usefixtures("kwok", "scheduler", "kueue"), pytest.mark.timeout(900)]
NAMESPACE = "agentaflow"
REPORTS = "/apis/gpureconciler.io/v1alpha1/nodehealthreports"
EXAMPLE = "examples/k8s/pytorch-training-workload.yaml"
SHOWN = {
    "status": "1 running",
    "nodes": "gpu-a",
    "workloads": "Job/agentaflow/my-training-job  Running",
    "metrics": '"runningWorkloads": 1',
    "health": "nodes",
    "strategy": "reconciler.yaml",
    "submit": "GPU",
    "generate-template": "wrote my-workload.yaml",
}


@pytest.fixture
def repository(bed: Bed, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Yield a repository whose GPUWorkload runs on the cluster, as the current folder."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(with_contexts(bed.kubeconfig, ("main",)))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    for name in gpu_scheduler.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    bed.server.client.ensure_namespaces([NAMESPACE])
    for name, product, memory in PRODUCTS:
        if bed.find(f"/api/v1/nodes/{name}") is None:
            labels = {"pool": NAMESPACE, "nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": str(memory)}
            bed.create("/api/v1/nodes", node(name, labels=labels))
    bed.wait(lambda: bed.ready_nodes(NAMESPACE) == len(PRODUCTS), "the nodes are ready")
    bed.apply(yaml.safe_load(manifest(REPORT)))
    bed.wait(lambda: bed.server.client.request("GET", REPORTS).ok, "NodeHealthReport")
    make_agentaflow(fleet)
    monkeypatch.chdir(fleet.root)
    played = f"podTemplate:\n    metadata: {{annotations: {{{PLAYED[0]}: {PLAYED[1]}}}}}\n"
    fleet.write(EXAMPLE, AGENTAFLOW[EXAMPLE])
    fleet.write("jobs/my-workload.yaml", AGENTAFLOW["my-workload.yaml"].replace("podTemplate:\n", played))
    fleet.commit()
    saved = str(tmp_path / "plan.json")
    for words in (("plan", "--live", "--revision", "HEAD", "--out", saved), ("apply", saved, "--no-wait")):
        ran = fleet.run(*words)
        assert ran.code == 0, ran.out + ran.err
    bed.wait(lambda: bed.bound(NAMESPACE), "Kueue admits the Job, and kube-scheduler places its pod")
    for pod in bed.pods(NAMESPACE):
        bed.set_phase(pod, "Running")
    yield fleet
    for name, _, _ in PRODUCTS:
        bed.delete(f"/api/v1/nodes/{name}")


def test_each_line_of_the_readme_works_on_a_cluster(repository: Fleet, tmp_path: Path) -> None:
    """AF-13, F-123, F-124: each line shows what the cluster does and ends with code 0; `watch` ends by Ctrl-C."""
    lines = [line for line in AGENTAFLOW_LINES.splitlines() if "--mode=cli" in line and "watch" not in line]
    for line in (*lines, "./k8s-gpu-scheduler --mode=cli metrics"):
        program, *words = shlex.split(line)
        assert program == "./k8s-gpu-scheduler"
        repository.capture.readouterr()
        code = gpu_scheduler.run(words, dict(os.environ))
        out, err = repository.capture.readouterr()
        assert (code, SHOWN[words[1]] in out) == (0, True), (line, out, err)
    watch_until_interrupted(repository, tmp_path / "shown")


def watch_until_interrupted(repository: Fleet, shown: Path) -> None:
    """Run `watch` until it shows the job and the nodes of the cluster."""
    call = [
        sys.executable,
        "-c",
        "from reconciler.__main__ import gpu_scheduler; gpu_scheduler()",
        "--mode=cli",
        "watch",
    ]
    with shown.open("w") as out, subprocess.Popen(call, stdout=out, cwd=repository.root) as watching:
        deadline = time.monotonic() + 60
        while not ("my-training-job" in shown.read_text() and "gpu-c" in shown.read_text()):
            assert time.monotonic() < deadline, shown.read_text()
            assert watching.poll() is None, shown.read_text()
            time.sleep(0.2)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 130
