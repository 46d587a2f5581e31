"""What a workload needs to start: an elastic one its minimum, one that KAI never preempts guaranteed GPUs."""

from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import summarize
from reconciler.policy.verdict import Verdict
from reconciler.repo.config import Cluster
from tests.plan.plan_cases import (
    KUEUE_QUEUE,
    Body,
    cluster_queue,
    evaluate,
    flavor,
    inventory,
    job,
    kai_queue,
    local_queue,
    plain,
    pod_spec,
    rows,
)

OWN = plain("PriorityClass", "own", namespace="", api="scheduling.k8s.io/v1", value=100)
TOP = kai_queue("top", -1)


def verdicts(*bodies: Body, gpus: int = 64) -> dict[str, Verdict]:
    found = evaluate(BUILT_IN, rows(bodies), Cluster(name="main"), inventory(gpus // 8), {})
    return {verdict.rule: verdict for verdict in found}


@pytest.mark.parametrize(
    ("labels", "leaf", "top", "reported"),
    [
        ({"priorityClassName": "build"}, 8, -1, "(priority 100), but the quota of queue leaf is 8"),
        ({"priorityClassName": "build"}, 16, 8, "(priority 100), but the quota of queue top is 8"),
        ({"priorityClassName": "build"}, 16, 16, ""),
        ({"priorityClassName": "train"}, 0, 0, ""),
        ({"priorityClassName": "own"}, 8, 8, "(priority 100), but the quota of queue leaf is 8"),
        ({"priorityClassName": "elsewhere"}, 8, 8, ""),
        ({"priorityClassName": "own", "kai.scheduler/preemptibility": "preemptible"}, 8, 8, ""),
        ({"kai.scheduler/preemptibility": "non-preemptible"}, 8, 8, ", but the quota of queue leaf is 8"),
        (
            {"kai.scheduler/preemptibility": "non-preemptible", "priorityClassName": "no-such-class"},
            8,
            8,
            ", but the quota of queue leaf is 8",
        ),
        ({}, 0, 0, ""),
    ],
)
def test_what_kai_never_preempts_fits_the_guarantees(
    labels: dict[str, str], leaf: int, top: int, reported: str
) -> None:
    """F-047: of its queue and of those above it; `tests/differential` asks the real scheduler."""
    body = job(queue="leaf")
    body["metadata"]["labels"] |= labels
    found = verdicts(body, OWN, kai_queue("leaf", leaf, parent="top"), kai_queue("top", top))
    message = f"requests 16 GPUs and is not preemptible {reported}".replace(" ,", ",")
    assert [found["quota.non-preemptible"].message] == [message] if reported else "quota.non-preemptible" not in found


def test_pods_that_serve_are_not_preempted_by_default() -> None:
    """F-047: KAI takes the priority `inference` for a Deployment that names none, and `train` for a job."""
    template = {"metadata": {"labels": {"kai.scheduler/queue": "leaf"}}, "spec": pod_spec(8)}
    serving = plain("Deployment", "x", api="apps/v1", spec={"replicas": 2, "template": template})
    found = verdicts(serving, job(queue="leaf"), kai_queue("leaf", 8, parent="top"), TOP)
    assert found["quota.non-preemptible"].key.kind == "Deployment"


def test_the_priority_of_pods_counts() -> None:
    body = job(queue="leaf", priorityClassName="own")
    found = verdicts(body, OWN, kai_queue("leaf", 8, parent="top"), TOP)
    assert "quota.non-preemptible" in found


def test_a_limit_below_the_quota_is_reported() -> None:
    """F-039: the limit wins, so part of the quota is kept for nobody."""
    found = verdicts(kai_queue("a", 16, limit=8, parent="top"), kai_queue("b", 8, limit=8, parent="top"), TOP)
    assert found["quota.limit-below-quota"].message == "has a quota of 16 GPUs, but its limit is 8"
    assert not verdicts(kai_queue("a", -1, limit=8, parent="top"), TOP), "all that the limit allows"


def elastic(kind: str, least: int) -> Body:
    """Return a job of four pods with eight GPUs each that starts with fewer."""
    if kind == "Job":
        body = job(pods=4, label=KUEUE_QUEUE, queue="l")
        body["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": str(least)}
        return body
    worker = {"replicas": 4, "template": {"metadata": {"labels": {"kai.scheduler/queue": "leaf"}}, "spec": pod_spec(8)}}
    spec: dict[str, Any] = {"elasticPolicy": {"minReplicas": least}, "pytorchReplicaSpecs": {"Worker": worker}}
    return plain("PyTorchJob", "x", api="kubeflow.org/v1", spec=spec)


QUEUES = {
    "Job": [cluster_queue("c", {"h100": 16}), local_queue("l", "c"), flavor("h100", "H100")],
    "PyTorchJob": [kai_queue("leaf", 16, limit=16, parent="top"), TOP],
}


@pytest.mark.parametrize("kind", QUEUES)
def test_an_elastic_job_fits_where_its_minimum_does(kind: str) -> None:
    """F-053: 2 to 4 nodes of 8 GPUs in a queue and a cluster of 16; with 3 at least it never starts."""
    row = summarize(BUILT_IN, cluster="main", body=elastic(kind, 2), path="main/ml/x.yaml", digest="d")
    assert (row.gpus, row.least_gpus, row.pods) == (32, 16, 4)
    assert not {"quota.queue-limit", "quota.capacity"} & verdicts(*QUEUES[kind], elastic(kind, 2), gpus=16).keys()
    assert {"quota.queue-limit", "quota.capacity"} <= verdicts(*QUEUES[kind], elastic(kind, 3), gpus=16).keys()
