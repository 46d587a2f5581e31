"""The phases and conditions of GPUWorkloads from the objects of a cluster."""

from typing import Any

import pytest

from reconciler.kinds.progress import Phase, Workers
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import ObjectKey
from reconciler.live.pages.status import render_status, status_json
from reconciler.live.status.gpu_workload import gpu_workload_status
from reconciler.live.status.job_status import JobStatus, live_status
from reconciler.live.status.live import ClusterObjects
from reconciler.live.status.summary import ClusterSummary, WorkloadCounts, counts_of_phases, summarize_nodes, total

KEY = ObjectKey(group="batch", kind="Job", namespace="agentaflow", name="train")
Body = dict[str, Any]


def job(**status: Any) -> Body:
    annotations = {"agentaflow.gpu/gpu-memory": "8192", "agentaflow.gpu/priority": "7"}
    metadata = {"name": "train", "namespace": "agentaflow", "uid": "u", "annotations": annotations}
    spec = {"template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": status}


def pod(phase: str, node: str = "", **status: Any) -> Body:
    owner = {"uid": "u", "controller": True}
    spec = {"nodeName": node} if node else {}
    metadata = {"name": "train-x", "namespace": "agentaflow", "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, **status}}


def seen(body: Body, *pods: Body) -> JobStatus:
    return live_status(BUILT_IN, "main", body, ClusterObjects(jobs=[body], pods=pods, nodes=None))


UNSCHEDULABLE: Body = {
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]
}
DONE = {
    "conditions": [{"type": "Complete", "status": "True"}],
    "succeeded": 1,
    "completionTime": "2026-01-01T02:00:00Z",
}


@pytest.mark.parametrize(
    ("body", "pods", "phase", "node", "conditions"),
    [
        (job(), (), "Pending", None, ("Unknown", "False", "False")),
        (job(active=1), (pod("Pending", **UNSCHEDULABLE),), "Pending", None, ("False", "False", "False")),
        (job(active=1), (pod("Pending", "gpu-a"),), "Scheduled", "gpu-a", ("True", "True", "False")),
        (job(active=1, ready=1), (pod("Running", "gpu-a"),), "Running", "gpu-a", ("True", "True", "True")),
        (job(**DONE), (pod("Succeeded", "gpu-a"),), "Succeeded", "gpu-a", ("True", "True", "False")),
    ],
)
def test_phases(body: Body, pods: tuple[Body, ...], phase: str, node: str | None, conditions: tuple[str, ...]) -> None:
    """F-028, agentaflow defect 11, agentaflow defect 24: each phase by its pods; no GPU is promised that nobody chose."""
    found = gpu_workload_status(seen(body, *pods))
    assert (found["phase"], found["assignedNode"], found["assignedGPU"]) == (phase, node, None)
    assert tuple(one["status"] for one in found["conditions"]) == conditions
    assert [one["type"] for one in found["conditions"]] == ["Schedulable", "Assigned", "Ready"]


def test_what_keeps_a_workload() -> None:
    """F-028, agentaflow defect 24: a pod that no node takes leaves the workload Pending, with the reason."""
    status = seen(job(active=1), pod("Pending", **UNSCHEDULABLE))
    assert gpu_workload_status(status)["conditions"][0] == {"type": "Schedulable", "status": "False", "reason": "Node"}
    assert "0/3 nodes are available" in render_status("main", [status], ())


def test_failed_and_unknown() -> None:
    """F-028: what ended badly is Failed; what cannot be read is Unknown, and its conditions, too."""
    for phase, expected in ((Phase.FAILED, "Failed"), (Phase.TIMED_OUT, "Failed"), (Phase.UNKNOWN, "Unknown")):
        found = gpu_workload_status(JobStatus(cluster="main", key=KEY, phase=phase))
        assert found["phase"] == expected
    found = gpu_workload_status(JobStatus(cluster="main", key=KEY, phase=Phase.UNKNOWN))
    assert [one["status"] for one in found["conditions"]] == ["Unknown", "Unknown", "Unknown"]


def test_priority_memory_and_nodes() -> None:
    """F-123, F-028: `workloads` shows them; other jobs have no such columns."""
    status = seen(job(active=1, ready=1), pod("Running", "gpu-a"))
    text = render_status("main", [status], (), width=200)
    assert text.splitlines()[1].split()[5:8] == ["priority", "GPU", "memory"]
    assert text.splitlines()[2].split()[5:9] == ["7", "8192", "MiB", "gpu-a"]
    (row,) = status_json("main", [status], ())["jobs"]
    assert (row["priority"], row["gpuMemoryMiB"], row["gpuWorkload"]["phase"]) == (7, 8192, "Running")
    plain = JobStatus(cluster="main", key=KEY, phase=Phase.RUNNING, workers=Workers(wanted=1))
    assert "priority" not in render_status("main", [plain], ())
    assert "gpuWorkload" not in status_json("main", [plain], ())["jobs"][0]


def test_sums_of_clusters() -> None:
    """F-123: what is not known of one cluster is not known of all; a mean is over the GPUs that were measured."""
    counts = counts_of_phases([Phase.RUNNING, Phase.QUEUED, Phase.SUCCEEDED, Phase.FAILED])
    assert counts == WorkloadCounts(pending=1, running=1, completed=1)
    one = ClusterSummary(total_nodes=1, total_gpus=8, measured_gpus=8, average_utilization=50.0, running_workloads=2)
    two = ClusterSummary(total_nodes=2, total_gpus=8, measured_gpus=4, average_utilization=20.0)
    both = total([one, two])
    assert (both.total_nodes, both.total_gpus, both.running_workloads) == (3, 16, None)
    assert both.average_utilization == 40.0
    assert total([one]) is one
    assert summarize_nodes(None, WorkloadCounts(), None) == ClusterSummary()
