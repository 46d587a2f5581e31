"""F-053: a node of a running job is lost under the real Kueue: what is rendered goes on, and starts again."""

from typing import Any

import pytest

from tests.cluster.bed.bed import GPU, PLAYED, Bed
from tests.cluster.server import wait_until
from tests.kinds.torchrun.torchrun_cases import rendered

POOL = "torchrun-lost"
TEXT = f"""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: {POOL}, namespace: {POOL}}}
spec:
  image: train:1
  nodeResources: {{gpus: 8}}
  queue: {{resources: {{gpu: {{quota: 32, limit: 32}}}}}}
  scheduling: {{nodeSelector: {{pool: {POOL}}}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: whole, namespace: {POOL}}}
spec:
  jobQueue: {POOL}
  command: python train.py
  numGPUs: 16
  annotations: {{{": ".join(PLAYED)}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: elastic, namespace: {POOL}}}
spec:
  jobQueue: {POOL}
  command: python train.py
  numGPUs: 16
  distributed: {{minNodes: 1}}
  annotations: {{{": ".join(PLAYED)}}}
"""
JOBS = ("whole", "elastic")


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("kueue", "scheduler", "kwok")
def test_a_lost_node_ends_no_job(bed: Bed) -> None:
    """The pod of the lost node is replaced and waits, the other one stays; the quota is kept, and nothing counts as a failure."""
    if bed.folder is None:
        pytest.skip("left out: the kwok of this cluster ends pods of Jobs at once")
    for name in "abcd":
        bed.node(f"{POOL}-{name}", POOL)
    bed.wait(lambda: bed.ready_nodes(POOL) == 4, "four nodes ready")
    bed.apply(*(manifest.body for manifest in rendered(TEXT, "kueue").manifests))
    bed.wait(lambda: len(bed.bound(POOL)) == 4, "both jobs are admitted, and each pod has a node")
    before = pods(bed)
    for pod in before.values():
        bed.set_phase(pod, "Running")
    bed.wait(lambda: [job(bed, name)["status"].get("ready") for name in JOBS] == [2, 2], "both jobs run")

    for name in JOBS:
        bed.delete(f"/api/v1/nodes/{before[name, '1']['spec']['nodeName']}")
    # Pods of a node that is gone are deleted after 40 to 60 seconds.
    wait_until(lambda: all(is_replaced(bed, before, name) for name in JOBS), "both pods are replaced", seconds=240)
    after = pods(bed)
    for name in JOBS:
        assert after[name, "0"]["metadata"]["uid"] == before[name, "0"]["metadata"]["uid"], "it was not restarted"
        assert not after[name, "1"]["spec"].get("nodeName"), "it waits for a node"
        status = job(bed, name)["status"]
        assert status.get("failed", 0) == 0
        assert not [one for one in status.get("conditions", ()) if one["type"] == "Failed"]
    assert reserved(bed) == 32

    for name in "ef":
        bed.node(f"{POOL}-{name}", POOL)
    bed.wait(lambda: len(bed.bound(POOL)) == 4, "all pods have a node again")
    for pod in pods(bed).values():
        bed.set_phase(pod, "Running")
    bed.wait(lambda: [job(bed, name)["status"].get("ready") for name in JOBS] == [2, 2], "both jobs run again")


def pods(bed: Bed) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the pods that are not about to end, by job and index."""
    job_name, index = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
    alive = [pod for pod in bed.pods(POOL) if not pod["metadata"].get("deletionTimestamp")]
    labels = [pod["metadata"]["labels"] for pod in alive]
    return {(each[job_name], each[index]): pod for each, pod in zip(labels, alive, strict=True)}


def is_replaced(bed: Bed, before: dict[tuple[str, str], dict[str, Any]], name: str) -> bool:
    found = pods(bed).get((name, "1"))
    return found is not None and found["metadata"]["uid"] != before[name, "1"]["metadata"]["uid"]


def job(bed: Bed, name: str) -> dict[str, Any]:
    found: dict[str, Any] = bed.get(f"/apis/batch/v1/namespaces/{POOL}/jobs/{name}")
    return found


def reserved(bed: Bed) -> int:
    """Return the GPUs that Kueue has granted in the queue."""
    status = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{POOL}")["status"]
    amounts = [each for flavor in status.get("flavorsReservation", []) for each in flavor["resources"]]
    return sum(int(each["total"]) for each in amounts if each["name"] == GPU)
