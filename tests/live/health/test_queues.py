"""Nodes, drains and tests of the network on the real Kueue: it moves workloads, and starts the Jobs of tests."""

import os
from collections.abc import Iterator

import pytest

from reconciler.health.draining import DRAINED, drain_node, resume_drained
from reconciler.health.fast_lane import node_key
from reconciler.kinds.health.network import objects_of_test
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.nodehealth.nodes import TAINT
from reconciler.nodehealth.policy import FabricTest, NetworkTest
from reconciler.repo.config import Backend, Cluster
from tests.cluster.bed.bed import PLAYED, Bed, Body
from tests.cluster.bed.kueue import cluster_queue, flavor, local_queue
from tests.live.chart.permissions import account, granted
from tools.chart.access import access

pytestmark = pytest.mark.usefixtures("kwok", "scheduler", "kueue", "mpi_operator")
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"


@pytest.fixture
def pool(bed: Bed) -> str:
    """Make three nodes of eight GPUs in a queue of their own, whose name is that of its namespace."""
    name = f"health-{os.urandom(3).hex()}"
    for number in range(3):
        bed.node(f"{name}-{number}", name)
    bed.apply(flavor(name, pool=name), cluster_queue(name, 64, flavor=name), local_queue("team", name, name))
    return name


@pytest.fixture
def cluster(bed: Bed) -> Iterator[KubernetesCluster]:
    """Open the cluster with the rights that the chart grants for drains, and no others."""
    rights = access(BUILT_IN)
    rules = rights["health"] + rights["drain"] + rights["observed"] + rights["objects"]["commit"]
    user = account("default", "drains")
    with (
        granted(bed.server.client, {"drains": rules}, "default"),
        KubernetesCluster(load_access({}, kubeconfig=str(bed.kubeconfig), user=user)) as made,
    ):
        yield made


def job(namespace: str, name: str) -> Body:
    container = {"name": "a", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": "team"}},
        "spec": {
            "template": {
                "metadata": {"annotations": dict([PLAYED])},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }
        },
    }


def workloads(bed: Bed, namespace: str) -> list[Body]:
    items: list[Body] = bed.get(WORKLOADS.format(namespace))["items"]
    return items


def where(bed: Bed, namespace: str) -> dict[str, str]:
    """Return the nodes of running pods by their jobs; plays the kubelet, which starts and ends pods."""
    found = {}
    for pod in bed.pods(namespace):
        if "deletionTimestamp" in pod["metadata"]:
            bed.delete_pod(namespace, pod["metadata"]["name"])
        elif pod["spec"].get("nodeName"):
            bed.set_phase(pod, "Running")
            found[pod["metadata"]["labels"]["job-name"]] = str(pod["spec"]["nodeName"])
    return found


def test_kueue_moves_the_workloads_of_a_drained_node(bed: Bed, pool: str, cluster: KubernetesCluster) -> None:
    """F-096: stopped, back in its queue, and started elsewhere; shadow changes nothing; other nodes keep theirs."""
    bed.apply(job(pool, "one"), job(pool, "two"))
    bed.wait(lambda: len(where(bed, pool)) == 2, "two running jobs")
    before = where(bed, pool)
    taint = {"key": TAINT, "value": "gpu.reachable", "effect": "NoSchedule"}
    cluster.patch(node_key(before["one"]), {"spec": {"taints": [taint]}}, manager="test")
    told = drain_node(cluster, before["one"], is_shadow=True)
    assert (len(told.workloads), told.left) == (1, ())
    assert all(one["spec"].get("active", True) for one in workloads(bed, pool))
    assert drain_node(cluster, before["one"], is_shadow=False) == told

    def has_moved() -> bool:
        assert resume_drained(cluster) == ()
        now = where(bed, pool)
        return now.keys() == before.keys() and now["one"] != before["one"] and now["two"] == before["two"]

    bed.wait(has_moved, "the job on another node")
    found = workloads(bed, pool)
    assert [one["spec"]["active"] for one in found] == [True, True]
    assert not any(DRAINED in (one["metadata"].get("labels") or {}) for one in found)
    assert drain_node(cluster, before["one"], is_shadow=False).workloads == ()


def test_pods_without_a_queue_are_left(bed: Bed, pool: str, cluster: KubernetesCluster) -> None:
    plain = job(pool, "plain")
    del plain["metadata"]["labels"]
    bed.apply(plain)
    bed.wait(lambda: where(bed, pool), "a running job")
    (pod,) = bed.pods(pool)
    drained = drain_node(cluster, pod["spec"]["nodeName"], is_shadow=False)
    assert (drained.workloads, drained.left) == ((), (f"{pool}/{pod['metadata']['name']}",))


@pytest.mark.parametrize(
    ("kind", "count", "pods"),
    [(FabricTest.ALL_REDUCE, 1, 1), (FabricTest.IB_WRITE, 2, 2), (FabricTest.ALL_REDUCE, 2, 2)],
    ids=["inside", "pair", "mpi"],
)
def test_kueue_starts_the_tests_of_the_network(bed: Bed, pool: str, kind: FabricTest, count: int, pods: int) -> None:
    """F-089: the API server takes the objects, Kueue admits them, and their pods are on the named nodes, one on each.

    The launcher of an MPIJob comes when its workers are ready.
    """
    nodes = tuple(f"{pool}-{number}" for number in range(count))
    test = NetworkTest(test=kind, nodes=nodes, image="a:1", namespace=pool, queue="team", rate=400.0)
    tree = objects_of_test("net-base-t-1", test, {}, Cluster(name="main", backend=Backend.KUEUE))
    bed.apply(*tree)
    bed.wait(lambda: workloads(bed, pool), "a Workload")

    def placed() -> list[str]:
        users = [pod for pod in bed.pods(pool) if "nvidia.com/gpu" in str(pod["spec"]["containers"])]
        return sorted(pod["spec"].get("nodeName", "") for pod in users)

    bed.wait(lambda: placed() == list(nodes), f"{pods} pods on {', '.join(nodes)}")
