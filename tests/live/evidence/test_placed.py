"""Running jobs with GPUs, from their pods."""

from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.live.observe.placed import placed_jobs, pod_gpus, succeeded_owners

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}


def pod(node: str, gpus: Any = 8, *, owner: dict[str, Any] | None = None, phase: str = "Running") -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    return {
        "metadata": {"name": "p", "namespace": "vision", "uid": f"pod-{node}", "ownerReferences": [owner or JOB]},
        "spec": {"nodeName": node, "containers": [{"name": "a", "resources": resources}]},
        "status": {"phase": phase},
    }


def test_the_gpus_of_a_job_by_node() -> None:
    (job,) = placed_jobs(BUILT_IN, [pod("a", 4), pod("a", 4), pod("b"), pod("c", 0), pod("d", phase="Pending")])
    assert (job.namespace, job.name, job.kind) == ("vision", "train", "Job")
    assert (dict(job.gpus), job.shared) == ({"a": 8, "b": 8}, ())


def test_a_node_with_pods_of_others_is_shared() -> None:
    other = {**JOB, "name": "other", "uid": "2"}
    first, second = placed_jobs(BUILT_IN, [pod("a", 4), pod("b"), pod("a", 4, owner=other)])
    assert (first.shared, second.shared) == (("a",), ("a",))


@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "3", "controller": True},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "3", "controller": True},
        {**JOB, "controller": False},
    ],
    ids=["ReplicaSet", "StatefulSet", "no controller"],
)
def test_services_and_plain_pods_are_no_jobs(owner: dict[str, Any]) -> None:
    """A service that idles at night does not hang. It shares its node all the same."""
    (job,) = placed_jobs(BUILT_IN, [pod("a", 4, owner=owner), pod("a", 4)])
    assert (job.name, job.shared) == ("train", ("a",))


def test_a_job_on_slices_is_not_watched() -> None:
    sliced = pod("a")
    sliced["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.10gb": 1}}
    assert placed_jobs(BUILT_IN, [sliced]) == ()


def test_the_owners_of_pods_that_succeeded() -> None:
    """All pods of the owner on the node succeeded, and were placed there after a time."""

    def ended(owner: str, phase: str = "Succeeded", started: str = "2026-11-01T06:00:00Z", **more: Any) -> Any:
        one = pod("a", owner={**JOB, "uid": owner}, phase=phase)
        one["metadata"] |= more
        one["status"]["startTime"] = started
        return one

    web = pod("a", owner={**JOB, "apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "web"}, phase="Succeeded")
    pods = [
        ended("good"),
        ended("good"),
        ended("fails"),
        ended("fails", "Failed"),
        ended("runs"),
        ended("runs", "Running"),
        ended("old", started="2026-11-01T05:59:59Z"),
        ended("no time", started=""),
        ended("ours", labels={"app.kubernetes.io/component": "deep-run"}),
        pod("a", 0, owner={**JOB, "uid": "no GPUs"}, phase="Succeeded"),
        web,
    ]
    found = succeeded_owners(BUILT_IN, pods, 1_793_512_800.0)
    assert [one["uid"] for one in found] == ["good"]


def test_an_init_container_shares_the_gpus_of_its_pod() -> None:
    def container(count: int) -> dict[str, Any]:
        return {"resources": {"limits": {"nvidia.com/gpu": count}}}

    assert pod_gpus({"containers": [container(4), container(4)], "initContainers": [container(8)]}) == {
        "nvidia.com/gpu": 8
    }
    assert pod_gpus({"containers": [{}]}) == {}
