"""F-039: what we render for several nodes is all or nothing on the real KAI scheduler."""

from typing import Any

import pytest

from tests.cluster.bed.bed import GPU, Bed
from tests.cluster.bed.kai import pod_groups, refused
from tests.cluster.server import wait_until
from tests.kinds.torchrun.torchrun_cases import rendered

TEXT = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: q, namespace: {pool}}}
spec:
  kaiQueue: default-queue
  image: train:1
  nodeResources: {{gpus: 8}}
  scheduling: {{nodeSelector: {{pool: {pool}}}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: train, namespace: {pool}}}
spec: {{jobQueue: q, command: python train.py, numGPUs: 16, suspend: {suspend}}}
"""
ELASTIC = "numGPUs: 16, distributed: {{minNodes: 1}},"


def workload(pool: str, *, suspend: bool = False, text: str = TEXT) -> dict[str, Any]:
    return rendered(text.format(pool=pool, suspend=str(suspend).lower()), "kai").one("PyTorchJob")


@pytest.mark.usefixtures("kai", "training_operator", "kwok")
def test_a_rendered_job_starts_whole_or_not_at_all(bed: Bed) -> None:
    """F-039, F-055: 16 GPUs with 8 free place nothing; with 16 free both pods; suspended, the GPUs are free again."""
    pool = "rendered-gang"
    for node in ("a", "b"):
        bed.node(f"{pool}-{node}", pool)
    resources = {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
    filler = {"nodeName": f"{pool}-a", "containers": [{"name": "main", "image": "fill:1", "resources": resources}]}
    metadata = {"name": "filler", "namespace": f"{pool}-filler"}
    bed.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": filler})
    bed.wait(lambda: bed.pods(f"{pool}-filler")[0]["status"]["phase"] == "Running", "the filler runs")

    bed.apply(workload(pool))
    bed.wait(lambda: len(bed.pods(pool)) == 2, "the operator made both pods")
    bed.wait(lambda: refused(bed, pool), "the scheduler refused both")
    (group,) = pod_groups(bed, pool)
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["queue"] == "default-queue"
    assert bed.bound(pool) == []

    bed.delete_pod(f"{pool}-filler", "filler")
    bed.wait(lambda: bed.bound(pool) == ["train-worker-0", "train-worker-1"], "both pods placed")
    bed.apply(workload(pool, suspend=True))
    bed.wait(lambda: not bed.pods(pool), "suspended")


@pytest.mark.usefixtures("kai", "training_operator", "kwok")
def test_an_elastic_job_goes_on_without_one_of_its_nodes(bed: Bed) -> None:
    """F-053: a node is gone: its pod is replaced and waits, the other one stays; with another node both run again."""
    pool = "lost-node"
    for node in ("a", "b"):
        bed.node(f"{pool}-{node}", pool)
    bed.wait(lambda: bed.ready_nodes(pool) == 2, "both nodes ready")
    bed.apply(workload(pool, text=TEXT.replace("numGPUs: 16,", ELASTIC)))
    bed.wait(lambda: running(bed, pool) == {f"{pool}-a", f"{pool}-b"}, "both pods run")
    before = {pod["metadata"]["name"]: pod for pod in bed.pods(pool)}
    lost = next(name for name, pod in before.items() if pod["spec"]["nodeName"] == f"{pool}-b")

    bed.delete(f"/api/v1/nodes/{pool}-b")
    # Pods of a node that is gone are deleted after 40 to 60 seconds.
    wait_until(lambda: replaced(bed, pool, before[lost]), "the pod of the lost node is replaced", seconds=180)
    bed.wait(lambda: refused(bed, pool), "the new pod waits for a node")
    (other,) = [pod for pod in bed.pods(pool) if pod["metadata"]["name"] != lost]
    assert other["metadata"]["uid"] == before[other["metadata"]["name"]]["metadata"]["uid"], "it was not restarted"
    assert running(bed, pool) == {f"{pool}-a"}
    job = bed.get(f"/apis/kubeflow.org/v1/namespaces/{pool}/pytorchjobs/train")
    assert not [one for one in job["status"]["conditions"] if one["type"] == "Failed" and one["status"] == "True"]

    bed.node(f"{pool}-c", pool)
    bed.wait(lambda: running(bed, pool) == {f"{pool}-a", f"{pool}-c"}, "both run again")


def running(bed: Bed, namespace: str) -> set[str]:
    """Return the nodes on which pods run."""
    return {pod["spec"]["nodeName"] for pod in bed.pods(namespace) if pod["status"].get("phase") == "Running"}


def replaced(bed: Bed, namespace: str, before: dict[str, Any]) -> bool:
    """Whether there is another pod of the name of one that was there before."""
    metadata = [pod["metadata"] for pod in bed.pods(namespace)]
    return any(
        each["name"] == before["metadata"]["name"] and each["uid"] != before["metadata"]["uid"] for each in metadata
    )
