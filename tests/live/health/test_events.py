"""Events for those who use a node: on their pods and jobs, because tenants cannot read nodes."""

from typing import Any

from reconciler.health.events import EventTarget, notify_job
from reconciler.health.fast_lane import write_mark
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.inflight.detect import JobProblem, ProblemKind
from tests.live.health.conftest import MakeNode, SetClock, read
from tests.live.health.test_marking import bad


def pod(
    live: KubernetesCluster, namespace: str, name: str, *, node: str, job: dict[str, Any], gpus: int
) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["name"], "uid": job["uid"], "controller": True}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "a", "image": "a", "resources": {"limits": limits}}]},
    }
    return live.create(body).body


def make_job(live: KubernetesCluster, namespace: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
    metadata = {"name": "train", "namespace": namespace}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    live.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}})
    metadata = live.create(body).body["metadata"]
    return {"name": metadata["name"], "uid": metadata["uid"]}


def told(live: KubernetesCluster, namespace: str) -> list[tuple[str, str, str]]:
    listing = live.list(live.resource("", "Event"), namespace=namespace).objects
    return sorted((one["involvedObject"]["kind"], one["involvedObject"]["name"], one["reason"]) for one in listing)


def test_owners_of_pods_with_gpus_are_told_when_their_node_is_fenced(
    live: KubernetesCluster, namespace: str, make_node: MakeNode, clock: SetClock
) -> None:
    """F-097: on the pod and on its job, once."""
    node = make_node()
    job = make_job(live, namespace)
    pod(live, namespace, "rank-0", node=node["metadata"]["name"], job=job, gpus=8)
    pod(live, namespace, "logger", node=node["metadata"]["name"], job=job, gpus=0)
    write_mark(live, bad(node), node, clock=clock)
    expected = [("Job", "train", "GPUNodeDegraded"), ("Pod", "rank-0", "GPUNodeDegraded")]
    assert told(live, namespace) == expected
    write_mark(live, bad(node), read(live, node["metadata"]["name"]), clock=clock)
    assert told(live, namespace) == expected


def test_the_owner_of_a_slow_job_is_told_on_the_job_and_its_pods(
    live: KubernetesCluster, namespace: str, make_node: MakeNode, clock: SetClock
) -> None:
    """F-097: on the job and on each of its pods, once."""
    nodes = [make_node()["metadata"]["name"] for _ in range(2)]
    job = make_job(live, namespace)
    pods = [pod(live, namespace, f"rank-{rank}", node=node, job=job, gpus=8) for rank, node in enumerate(nodes)]
    problem = JobProblem(kind=ProblemKind.SLOW, message="slow", slowdown=1.3)
    about = EventTarget(api_version="batch/v1", kind="Job", name=job["name"], uid=job["uid"], namespace=namespace)
    notify_job(live, about, pods, problem, text="slow; a restart costs 8.0 GPU hours", clock=clock)
    assert told(live, namespace) == [
        ("Job", "train", "JobSlow"),
        ("Pod", "rank-0", "JobSlow"),
        ("Pod", "rank-1", "JobSlow"),
    ]
