"""Every kind that Kueue starts, on its real controller: nothing runs while its queue is on hold, and all of it after."""

import os
from pathlib import Path

import pytest
import yaml

from tests.cluster.bed.bed import PLAYED, Bed, Body
from tests.cluster.bed.kueue import cluster_queue, flavor, local_queue
from tests.cluster.shared import StartError

BODIES: list[Body] = [*yaml.safe_load_all(Path(__file__).with_name("queued.yaml").read_text(encoding="utf-8"))]
PODS = "test-bed/pods"
QUEUED = [body for body in BODIES if PODS in body["metadata"].get("annotations", {})]
pytestmark = pytest.mark.usefixtures(
    *("kwok", "scheduler", "kueue", "training_operator", "mpi_operator", "jobset", "trainer", "lws", "kuberay"),
    "appwrapper",
)


@pytest.fixture(scope="module")
def pool(bed: Bed) -> str:
    """Make nodes and a ClusterQueue with enough GPUs for all; each process of a test run has its own."""
    name = f"queued-{os.urandom(3).hex()}"
    for number in range(8):
        bed.node(f"{name}-{number}", name)
    bed.apply(flavor(name, pool=name), cluster_queue(name, 64, flavor=name))
    return name


def workloads(bed: Bed, namespace: str) -> list[dict[str, str]]:
    """Return the conditions of the Workloads of a namespace, by type."""
    items = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads")["items"]
    return [{one["type"]: one["status"] for one in item.get("status", {}).get("conditions", ())} for item in items]


def is_held(bed: Bed, namespace: str) -> bool:
    """Whether Kueue has seen that the queue of a namespace is on hold."""
    status = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/localqueues/team").get("status", {})
    return any(one["type"] == "Active" and one["status"] == "False" for one in status.get("conditions", ()))


def are_running(bed: Bed, namespace: str, count: int) -> bool:
    """Whether all these pods run; plays the kubelet of those that kwok leaves alone."""
    pods = bed.pods(namespace)
    for pod in pods:
        played = pod["metadata"].get("annotations", {}).get(PLAYED[0]) == PLAYED[1]
        if played and pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            bed.set_phase(pod, "Running")
    return [pod["status"]["phase"] for pod in pods] == ["Running"] * count


def within(namespace: str, body: Body) -> Body:
    """Return an object in a namespace."""
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


@pytest.mark.parametrize("body", QUEUED, ids=lambda body: str(body["kind"]))
def test_an_object_runs_when_its_queue_lets_it(bed: Bed, pool: str, body: Body) -> None:
    namespace, pods = f"{pool}-{body['kind'].lower()}", int(body["metadata"]["annotations"][PODS])
    queue = local_queue("team", namespace, pool)
    # KubeRay 1.6 writes the suspend of a RayService's RayCluster back all the time: no queue holds it for long, and
    # where Kueue's write comes in between, KubeRay takes it for suspended until its next resync.
    is_fought = body["kind"] == "RayService"
    bed.apply({**queue, "spec": {**queue["spec"], **({} if is_fought else {"stopPolicy": "Hold"})}})
    if not is_fought:
        bed.wait(lambda: is_held(bed, namespace), "a queue on hold")
    bed.apply(*(within(namespace, one) for one in BODIES if one not in QUEUED), within(namespace, body))
    bed.wait(lambda: workloads(bed, namespace), "a Workload")
    if is_fought:
        bed.wait(lambda: all("Admitted" in one for one in workloads(bed, namespace)), "an admitted Workload")
        return
    assert not bed.bound(namespace)
    bed.apply(queue)
    try:
        bed.wait(lambda: are_running(bed, namespace, pods), f"{pods} running pods")
    except StartError as error:
        seen = [(pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["status"]) for pod in bed.pods(namespace)]
        pytest.fail(f"{error}; {workloads(bed, namespace)}; {seen}")
    assert all(one["Admitted"] == "True" for one in workloads(bed, namespace))
