"""Faults of AgentaFlow that are none here, and lines that need a cluster."""

import re
from pathlib import Path

import pytest
import yaml

from reconciler.kinds.progress import Phase
from reconciler.kube.objects import ObjectKey
from reconciler.live.commands import status as command
from reconciler.live.observe.status import ClusterStatus
from reconciler.live.pages.capacity import ClusterCapacity
from reconciler.live.status.capacity import NodeCapacity
from reconciler.live.status.job_status import JobStatus
from tests.cli.agentaflow_fleet import make_agentaflow
from tests.cli.fleet import Fleet
from tests.seeds import AGENTAFLOW

ROOT = Path(__file__).parents[2]
JOB = JobStatus(
    cluster="main",
    key=ObjectKey(group="batch", kind="Job", namespace="agentaflow", name="train"),
    phase=Phase.RUNNING,
    priority=5,
)
NODES = ClusterCapacity(
    cluster="main",
    source="live",
    shows_load=True,
    nodes=(NodeCapacity(name="gpu-a", model="A100", gpus=8, used_gpus=1),),
)


@pytest.fixture
def repository(fleet: Fleet, kept: Path) -> Fleet:
    fleet.make_once(kept, lambda: make_agentaflow(fleet))
    return fleet


def test_the_agent_needs_no_label_that_only_it_sets() -> None:
    """The agent runs where NVIDIA's feature discovery finds a GPU: agentaflow defect 10."""
    values = yaml.safe_load((ROOT / "charts/reconciler/values.yaml").read_text())
    assert values["agent"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}


def test_files_that_the_page_names_exist() -> None:
    """F-123: the page links to files that are there: agentaflow defect 18."""
    page = ROOT / "docs/agentaflow.md"
    links = [one.partition("#")[0] for one in re.findall(r"\]\(([^)]+)\)", page.read_text())]
    files = [one for one in links if one and "://" not in one]
    assert files
    assert [one for one in files if not (page.parent / one).exists()] == []


def test_jobs_and_nodes_are_watched(repository: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-123, AF-13: `status --watch --nodes` shows jobs and, below them, nodes; a node of unknown load shows N/A."""
    monkeypatch.setattr(command, "watch_statuses", lambda *_: iter([[ClusterStatus(cluster="main", jobs=(JOB,))]]))
    monkeypatch.setattr(command, "live", lambda *_: iter([NODES]))
    monkeypatch.setattr(command, "cluster_opener", lambda *_: None)
    shown = repository.run("status", "--watch", "--nodes")
    assert shown.code == 0, shown.err
    assert shown.out.index("Job/agentaflow/train") < shown.out.index("gpu-a")
    assert re.search(r"gpu-a +A100 +1/8 .* N/A", shown.out)
    assert repository.run("status", "--nodes").code == 2
    assert repository.run("status", "nodes", "--watch").code == 2


def test_sums_of_live_clusters(repository: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-123, AF-13: the sums of what runs now; what could not be read is unknown, and the exit code says so."""
    monkeypatch.setattr(command, "statuses", lambda *_: iter([ClusterStatus(cluster="main", jobs=(JOB,))]))
    monkeypatch.setattr(command, "live", lambda *_: iter([NODES]))
    monkeypatch.setattr(command, "cluster_opener", lambda *_: None)
    shown = repository.run("status", "--summary")
    assert (shown.code, "8 total, 7 available, 1 in use" in shown.out) == (0, True)
    assert "0 pending, 1 running, 0 completed" in shown.out
    failed = ClusterCapacity(cluster="main", source="live", failures=("nodes cannot be listed",))
    monkeypatch.setattr(command, "live", lambda *_: iter([failed]))
    broken = repository.run("status", "--summary")
    assert broken.code == 6
    assert "unknown total, unknown available, unknown in use" in broken.out
    assert "nodes cannot be listed" in broken.out


def test_no_gpu_is_promised_by_number(repository: Fleet) -> None:
    """Nothing rendered names a GPU of a node, which nothing would enforce: agentaflow defect 11."""
    repository.edit("reconciler.yaml", "  placement:\n", "  placement:\n    annotate: true\n")
    repository.write("jobs/my-workload.yaml", AGENTAFLOW["my-workload.yaml"])
    shown = repository.run("render")
    assert "agentaflow.gpu/managed" in shown.out
    assert "assigned-gpu" not in shown.out
