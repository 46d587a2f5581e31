"""All or nothing on the real KAI scheduler: which rendered kind is a gang, and which is not."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.bed.bed import GPU, Bed
from tests.cluster.bed.kai import pod_groups, queue, refused
from tests.cluster.judges import assert_all_accepted

CASES = Path(__file__).parents[1] / "cases"
pytestmark = pytest.mark.usefixtures("kai", "training_operator", "kwok")
QUEUE = {"kai.scheduler/queue": "default-queue"}


def pod_spec(pool: str, container: str, gpus: int = 8) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus), "cpu": "1"}}
    return {
        "schedulerName": "kai-scheduler",
        "nodeSelector": {"pool": pool},
        "containers": [{"name": container, "image": "train:1", "resources": resources}],
    }


def pytorch_job(pool: str, *, nodes: int = 2, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": QUEUE}, "spec": pod_spec(pool, "pytorch")}
    worker = {"replicas": nodes, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": pool, "labels": QUEUE},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": {"Worker": worker}, **spec},
    }


def indexed_job(pool: str) -> dict[str, Any]:
    template = {"metadata": {"labels": QUEUE}, "spec": {**pod_spec(pool, "main"), "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": pool, "labels": QUEUE},
        "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template},
    }


@pytest.fixture
def pool(bed: Bed, request: pytest.FixtureRequest) -> str:
    """Make two nodes of 8 GPUs of this test's own, of which one is taken: 8 of 16 are free."""
    name = str(request.node.name).split("[")[0].removeprefix("test_").replace("_", "-")[:50]
    for node in ("a", "b"):
        bed.node(f"{name}-{node}", name)
    bed.wait(lambda: bed.ready_nodes(name) == 2, "both nodes ready, so that a refusal speaks of GPUs only")
    taken = {**pod_spec(name, "main"), "nodeName": f"{name}-a", "schedulerName": "default-scheduler"}
    metadata = {"name": "filler", "namespace": f"{name}-filler"}
    bed.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": taken})
    bed.wait(lambda: bed.pods(f"{name}-filler")[0]["status"]["phase"] == "Running", "the filler runs")
    return name


def test_a_pytorchjob_starts_all_or_nothing(bed: Bed, pool: str) -> None:
    """F-039: 2 x 8 GPUs with 8 free: nothing is placed; with 16 free: both pods are."""
    bed.apply(pytorch_job(pool))
    bed.wait(lambda: len(bed.pods(pool)) == 2, "the operator made both pods")
    bed.wait(lambda: refused(bed, pool), "the scheduler refused both")
    (group,) = pod_groups(bed, pool)
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["queue"] == "default-queue"
    assert bed.bound(pool) == []

    bed.delete_pod(f"{pool}-filler", "filler")
    bed.wait(lambda: bed.bound(pool) == ["train-worker-0", "train-worker-1"], "both pods placed")


def test_an_indexed_job_is_no_gang(bed: Bed, pool: str) -> None:
    """The same request as a batch Job: one PodGroup for each pod, and the first is placed where both do not fit."""
    bed.apply(indexed_job(pool))
    bed.wait(lambda: len(pod_groups(bed, pool)) == 2, "two PodGroups")
    assert [group["spec"]["minMember"] for group in pod_groups(bed, pool)] == [1, 1]
    bed.wait(lambda: bed.bound(pool), "one pod placed")
    assert bed.bound(f"{pool}-filler") == ["filler"], "there were never 16 GPUs free"


def test_an_elastic_pytorchjob_starts_with_its_minimum(bed: Bed, pool: str) -> None:
    """`elasticPolicy.minReplicas` is the gang: one of at most two nodes starts with 8 GPUs free, the second follows."""
    elastic = {"minReplicas": 1, "maxReplicas": 2, "rdzvBackend": "c10d"}
    bed.apply(pytorch_job(pool, elasticPolicy=elastic))
    bed.wait(lambda: len(bed.bound(pool)) == 1, "the minimum placed")
    (group,) = pod_groups(bed, pool)
    assert group["spec"]["minMember"] == 1
    bed.delete_pod(f"{pool}-filler", "filler")
    bed.wait(lambda: len(bed.bound(pool)) == 2, "the rest placed")


def test_suspending_frees_the_gpus(bed: Bed, pool: str) -> None:
    """Suspend is an edit of the job: the operator removes its pods and Services, and makes them again on resume."""
    bed.delete_pod(f"{pool}-filler", "filler")
    services = f"/api/v1/namespaces/{pool}/services"
    for _ in range(2):
        bed.apply(pytorch_job(pool))
        bed.wait(lambda: len(bed.bound(pool)) == 2, "running")
        bed.wait(lambda: len(bed.get(services)["items"]) == 2, "a Service for each pod")
        suspended = pytorch_job(pool)
        suspended["spec"]["runPolicy"]["suspend"] = True
        bed.apply(suspended)
        bed.wait(lambda: not bed.pods(pool), "suspended")


def test_workers_find_each_other_and_know_their_rank(bed: Bed, pool: str) -> None:
    """The operator gives what c10d needs: hostname = name of a headless Service, and the index as a label."""
    bed.apply(pytorch_job(pool))
    bed.wait(lambda: len(bed.pods(pool)) == 2, "pods")
    index = "training.kubeflow.org/replica-index"
    assert [(pod["metadata"]["name"], pod["metadata"]["labels"][index]) for pod in bed.pods(pool)] == [
        ("train-worker-0", "0"),
        ("train-worker-1", "1"),
    ]
    bed.wait(lambda: len(bed.get(f"/api/v1/namespaces/{pool}/services")["items"]) == 2, "Services")
    for service in bed.get(f"/api/v1/namespaces/{pool}/services")["items"]:
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["selector"][index] in service["metadata"]["name"]
    assert not any(pod["spec"].get("initContainers") for pod in bed.pods(pool)), "no foreign init container"


def test_a_rendered_job_starts_all_or_nothing(bed: Bed) -> None:
    """F-039: the golden job of three nodes: nothing on two free nodes, all of it on three."""
    tree = CASES / "evidence" / "rendered" / "kai"
    job = yaml.safe_load((tree / "default" / "pytorchjob-fits.yaml").read_text())
    own = yaml.safe_load((tree / "_cluster" / "queue.scheduling.run.ai-h100.yaml").read_text())
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]
    product = worker["template"]["spec"]["nodeSelector"]
    assert worker["replicas"] == 3
    # Other tests have nodes of this product, too.
    worker["template"]["spec"]["nodeSelector"] = {**product, "pool": "rendered"}
    for name in ("a", "b"):
        bed.node(f"rendered-{name}", "rendered", **product)
    bed.wait(lambda: bed.ready_nodes("rendered") == 2, "two nodes ready")

    bed.apply(queue(own["spec"]["parentQueue"], ""), own, job)
    namespace = job["metadata"]["namespace"]
    bed.wait(lambda: len(bed.pods(namespace)) == 3, "the operator made three pods")
    bed.wait(lambda: refused(bed, namespace), "the scheduler refused all")
    assert bed.bound(namespace) == []
    assert [group["spec"]["minMember"] for group in pod_groups(bed, namespace)] == [3]

    bed.node("rendered-c", "rendered", **product)
    bed.wait(lambda: len(bed.bound(namespace)) == 3, "all three pods placed")


def test_every_rendered_pytorchjob_passes_the_operators_webhook(bed: Bed) -> None:
    """F-039: what the operator would refuse at admission, no golden holds."""
    found = sorted(CASES.rglob("rendered/**/pytorchjob-*.yaml"))
    assert found
    assert_all_accepted(bed.server.client.apply_files_dry_run(found))


@pytest.mark.parametrize(
    ("name", "container", "words"),
    [("1train", "pytorch", "metadata.name"), ("train", "main", "at least one container with name pytorch")],
)
def test_the_operators_webhook_judges(bed: Bed, name: str, container: str, words: str) -> None:
    """Rules that no schema holds: a PyTorchJob's name begins with a letter, its container is called pytorch."""
    job = pytorch_job("webhook")
    job["metadata"]["name"] = name
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"] = container
    (result,) = bed.judge(job)
    assert words in result.message
