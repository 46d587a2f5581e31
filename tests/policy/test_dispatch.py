"""Queues whose workloads run on worker clusters: checks that exist, kinds that are copied, nodes that are elsewhere."""

import pytest

from reconciler.kinds.registry import BUILT_IN
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
    local_queue,
    plain,
    rows,
)

API = {"apiVersion": "kueue.x-k8s.io/v1beta2"}


def check(controller: str = "kueue.x-k8s.io/multikueue", parameters: str = "MultiKueueConfig") -> Body:
    spec = {"controllerName": controller, "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": parameters, "name": "w"}}
    return {**API, "kind": "AdmissionCheck", "metadata": {"name": "send"}, "spec": spec}


CONFIG: Body = {**API, "kind": "MultiKueueConfig", "metadata": {"name": "w"}, "spec": {"clusters": ["east"]}}
EAST: Body = {**API, "kind": "MultiKueueCluster", "metadata": {"name": "east"}, "spec": {}}
QUEUES = [flavor("h100", "H100"), local_queue("team-a", "q")]


def queue(**spec: object) -> Body:
    body = cluster_queue("q", {"h100": 64})
    body["spec"] |= spec
    return body


SENDING = queue(admissionChecksStrategy={"admissionChecks": [{"name": "send"}]})
WORKERS = [SENDING, check(), CONFIG, EAST, *QUEUES]


def found(*bodies: Body, nodes: int = 1) -> list[Verdict]:
    return list(evaluate(BUILT_IN, rows(bodies), Cluster(name="main"), inventory(nodes), {}))


def rules(*bodies: Body, nodes: int = 1) -> list[str]:
    return [verdict.rule for verdict in found(*bodies, nodes=nodes) if verdict.rule != "capacity.overcommit"]


@pytest.mark.parametrize(
    ("bodies", "words"),
    [
        ([SENDING, *QUEUES], "AdmissionCheck send"),
        ([queue(admissionChecks=["send"]), *QUEUES], "AdmissionCheck send"),
        ([SENDING, check(), *QUEUES], "MultiKueueConfig w"),
        ([SENDING, check(), CONFIG, *QUEUES], "MultiKueueCluster east"),
        ([SENDING, check("kueue.x-k8s.io/provisioning-request", "ProvisioningRequestConfig"), *QUEUES], "Config w"),
    ],
)
def test_checks_exist_with_their_parameters(bodies: list[Body], words: str) -> None:
    """F-047: Kueue deactivates a ClusterQueue without them."""
    (verdict,) = [one for one in found(*bodies) if one.rule != "capacity.overcommit"]
    assert verdict.rule == "reference.admission-check"
    assert words in verdict.message


def test_what_runs_on_workers_is_not_held_to_the_nodes_here() -> None:
    """16 GPUs on the one node here are an error, on worker clusters a warning that nobody checked."""
    workload = job(label=KUEUE_QUEUE)
    assert rules(*WORKERS, workload) == ["quota.workers"]
    (verdict,) = [one for one in found(*WORKERS, workload) if one.rule == "quota.workers"]
    assert "MultiKueueConfig w" in verdict.message
    local = check("kueue.x-k8s.io/provisioning-request", "ProvisioningRequestConfig")
    config = {**API, "kind": "ProvisioningRequestConfig", "metadata": {"name": "w"}, "spec": {}}
    assert rules(SENDING, local, config, *QUEUES, workload) == []
    other = check("example.com/budget", "ProvisioningRequestConfig")
    assert rules(SENDING, other, config, *QUEUES, workload) == ["quota.capacity"]


def test_kinds_that_are_not_copied_never_run() -> None:
    """The real Kueue says "No multikueue adapter found for owner kind", and rejects the workload."""
    labels = {KUEUE_QUEUE: "team-a"}
    executor = {"instances": 1, "gpu": {"name": "nvidia.com/gpu", "quantity": 8}}
    body = plain("SparkApplication", "etl", spec={"mode": "cluster", "driver": {}, "executor": executor})
    body["apiVersion"], body["metadata"]["labels"] = "sparkoperator.k8s.io/v1beta2", labels
    assert sorted(rules(*WORKERS, body)) == ["quota.multikueue", "quota.workers"]
