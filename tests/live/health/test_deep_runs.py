"""Deep runs on a real API server: only on idle GPUs, with all of them, and never stuck."""

from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.health.deep_runs import start_deep_run
from reconciler.health.fast_lane import node_key
from reconciler.kinds.health.pods import DeepRunSettings
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.active.due import is_requested
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.report import NodeReport, ProfileRun
from tests.cluster.server import ApiServer
from tests.live.health.conftest import MakeNode
from tests.nodehealth.reports import NOW

DEEP = ProbeProfile.DEEP
SETTINGS = DeepRunSettings(
    image="reconciler:1", namespace="deep-runs", service_account="default", runtime_class="nvidia"
)


@pytest.fixture(scope="module")
def namespace(api_server: ApiServer) -> Iterator[str]:
    """Make the namespace, and a RuntimeClass for as long as these tests run: others look at all kinds of the server."""
    api_server.client.ensure_namespaces([SETTINGS.namespace])
    nvidia = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    api_server.client.apply([nvidia])
    yield SETTINGS.namespace
    api_server.client.request("DELETE", "/apis/node.k8s.io/v1/runtimeclasses/nvidia")


def offer(cluster: KubernetesCluster, node: str, gpus: str) -> None:
    amounts = {"nvidia.com/gpu": gpus}
    cluster.patch(node_key(node), {"status": {"capacity": amounts, "allocatable": amounts}}, subresource="status")


def pod(node: str, name: str, gpus: str = "", where: str = "containers") -> dict[str, Any]:
    plain = {"name": "plain", "image": "a"}
    user = {"name": "user", "image": "a", "resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else plain
    spec: dict[str, Any] = {"nodeName": node, "containers": [plain]}
    spec[where] = [user]
    metadata = {"name": f"{name}-{node}", "namespace": SETTINGS.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_an_idle_node_gets_a_job_with_its_real_number_of_gpus(
    health_cluster: KubernetesCluster, namespace: str, make_node: MakeNode
) -> None:
    """F-089: pods without GPUs do not count; the Job asks for as many GPUs as the node has, once."""
    node = make_node()["metadata"]["name"]
    offer(health_cluster, node, "4")
    health_cluster.create(pod(node, "plain"))
    started = start_deep_run(health_cluster, node, None, SETTINGS, NOW)
    key = ObjectKey(group="batch", kind="Job", namespace=namespace, name=started.job)
    job = health_cluster.get(key)
    assert job is not None
    spec = job["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (0, SETTINGS.seconds)
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchFields"][0]["values"] == [node]
    again = start_deep_run(health_cluster, node, None, SETTINGS, NOW)
    assert again.refused == "its Job exists"


@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_a_pod_with_gpus_stops_it_until_it_has_ended(
    health_cluster: KubernetesCluster, namespace: str, make_node: MakeNode, where: str
) -> None:
    """F-089: a failed pod does not hold GPUs, a pending one does."""
    node = make_node()["metadata"]["name"]
    body = pod(node, "user", "1", where)
    health_cluster.create(body)
    refused = start_deep_run(health_cluster, node, None, SETTINGS, NOW).refused
    assert refused == f"GPUs are in use by {namespace}/user-{node}"
    key = ObjectKey(group="", kind="Pod", namespace=namespace, name=body["metadata"]["name"])
    health_cluster.patch(key, {"status": {"phase": "Failed"}}, subresource="status")
    assert start_deep_run(health_cluster, node, None, SETTINGS, NOW).job


def test_nodes_without_gpus_and_absent_nodes_are_refused(
    health_cluster: KubernetesCluster, namespace: str, make_node: MakeNode
) -> None:
    node = make_node()["metadata"]["name"]
    offer(health_cluster, node, "0")
    assert start_deep_run(health_cluster, node, None, SETTINGS, NOW).refused == "the node has no GPU"
    assert start_deep_run(health_cluster, "absent", None, SETTINGS, NOW).refused == "the node does not exist"


def test_a_run_that_goes_on_is_not_doubled_and_one_that_died_is_no_obstacle(
    health_cluster: KubernetesCluster, namespace: str, make_node: MakeNode
) -> None:
    """F-089: TESTING never sticks, whatever became of the Job."""
    node = make_node()["metadata"]["name"]
    run = ProfileRun(profile=DEEP, started_at=NOW - 60, deadline=NOW + 60)
    report = NodeReport(node=node, measured_at=NOW, runs=(run,))
    assert start_deep_run(health_cluster, node, report, SETTINGS, NOW).refused == "a run is in progress"
    assert start_deep_run(health_cluster, node, report, SETTINGS, NOW + 61).job


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (None, False),
        (ProfileRun(profile=DEEP, requested_at=NOW), True),
        (ProfileRun(profile=DEEP, requested_at=NOW, started_at=NOW + 1, deadline=NOW + 100), False),
        (ProfileRun(profile=DEEP, requested_at=NOW, started_at=NOW - 50, finished_at=NOW - 20, deadline=NOW), True),
        (ProfileRun(profile=DEEP, requested_at=NOW - 60, started_at=NOW - 50, finished_at=NOW - 20), False),
        (ProfileRun(profile=DEEP, requested_at=NOW, started_at=NOW - 50, deadline=NOW + 50), False),
    ],
)
def test_what_an_agent_asks_for(run: ProfileRun | None, *, expected: bool) -> None:
    """F-088."""
    report = NodeReport(node="n", measured_at=NOW, runs=(run,) if run else ())
    assert is_requested(report, NOW + 10) is expected
