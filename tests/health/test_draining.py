"""Drains: which workloads of Kueue move, when they queue again, and what is left to people."""

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.health.draining import DRAINED, DrainedNode, drain_node, resume_drained
from reconciler.kube.client.port import ClusterError, UnknownKind
from reconciler.kube.objects import ObjectKey


def owned(kind: str, name: str, *owners: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an object; its first owner is its controller."""
    rows = [
        {"apiVersion": "batch/v1", "kind": one["kind"], "name": one["metadata"]["name"]}
        | {"uid": one["metadata"]["uid"], "controller": index == 0}
        for index, one in enumerate(owners)
    ]
    metadata = {"name": name, "namespace": "ai", "uid": f"{kind}-{name}", "ownerReferences": rows}
    return {"kind": kind, "metadata": metadata, **more}


def pod(name: str, *owners: dict[str, Any], gpus: int = 8) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {"nodeName": "n1", "containers": [{"name": "a", "resources": {"limits": limits}}]}
    return owned("Pod", name, *owners, spec=spec, status={"phase": "Running"})


def workload(name: str, *owners: dict[str, Any], quota: str = "True", label: bool = False) -> dict[str, Any]:
    conditions = [{"type": "QuotaReserved", "status": quota}]
    made = owned("Workload", name, *owners, spec={"active": not label}, status={"conditions": conditions})
    made["metadata"]["labels"] = {DRAINED: "true"} if label else {}
    return made


class Queues:
    """A cluster with objects by kind."""

    def __init__(self, *objects: dict[str, Any], refuses: str = "", has_kueue: bool = True) -> None:
        self.objects, self.refuses, self.has_kueue = objects, refuses, has_kueue
        self.patched: list[tuple[str, Any]] = []

    def resource(self, _: str, kind: str) -> str:
        if kind == "Workload" and not self.has_kueue:
            raise UnknownKind("no such kind")
        return kind

    def list(self, kind: str, *, fields: str = "", labels: str = "", **_: Any) -> Any:
        name = fields.removeprefix("metadata.name=") if fields.startswith("metadata.name=") else ""
        found = [one for one in self.objects if one["kind"] == kind and name in ("", one["metadata"]["name"])]
        return SimpleNamespace(objects=[one for one in found if not labels or labels in one["metadata"]["labels"]])

    def patch(self, key: ObjectKey, changes: Any, **_: Any) -> None:
        if key.name == self.refuses:
            raise ClusterError("no", status=403)
        self.patched.append((key.name, changes))


def drained(queues: Any, *, is_shadow: bool = False) -> DrainedNode:
    return drain_node(queues, "n1", is_shadow=is_shadow)


JOB_SET = owned("JobSet", "set")
JOB = owned("Job", "job", JOB_SET)
STOP = {"metadata": {"labels": {DRAINED: "true"}}, "spec": {"active": False}}
RESUME = {"metadata": {"labels": {DRAINED: None}}, "spec": {"active": True}}


@pytest.mark.parametrize("owner", [JOB_SET, JOB, pod("a", JOB)], ids=["JobSet", "Job", "Pod"])
def test_the_workload_of_a_pod_is_that_of_what_made_it(owner: dict[str, Any]) -> None:
    """F-096: a JobSet of Jobs, a Job, or pods by themselves; two pods of one workload stop it once."""
    other = owned("Job", "other")
    queues = Queues(JOB_SET, JOB, pod("a", JOB), pod("b", JOB), workload("w", owner), workload("x", other))
    if owner["kind"] == "Pod":
        queues.objects = tuple(one for one in queues.objects if one["metadata"]["name"] != "b")
    assert drained(queues) == DrainedNode(workloads=("ai/w",))
    assert queues.patched == [("w", STOP)]


def test_what_is_left_to_people() -> None:
    """Pods of no queue, and everything where there is no Kueue; pods without GPUs may stay."""
    queues = Queues(pod("a"), pod("cpu", gpus=0), workload("w", JOB))
    assert str(drained(queues)) == "no queue started ai/a"
    assert drained(Queues(pod("a"), has_kueue=False)).left == ("ai/a",)
    assert str(drained(Queues())) == "no pod with GPUs is left"
    assert queues.patched == []


def test_shadow_stops_nothing() -> None:
    queues = Queues(JOB, pod("a", JOB), workload("w", JOB))
    assert drained(queues, is_shadow=True).workloads == ("ai/w",)
    assert queues.patched == []


def test_a_workload_queues_again_once_its_quota_is_free() -> None:
    """Before that Kueue still stops its pods; others that people stopped are not ours."""
    queues: Any = Queues(
        workload("stopping", label=True), workload("stopped", quota="False", label=True), workload("theirs")
    )
    assert resume_drained(queues) == ()
    assert queues.patched == [("stopped", RESUME)]
    refused: Any = Queues(workload("a", quota="False", label=True), refuses="a")
    assert resume_drained(refused) == ("workload ai/a does not queue again: no",)
    without: Any = Queues(has_kueue=False)
    assert resume_drained(without) == ()
