"""Pods of a TorchrunJob close to each other: Kueue's topology-aware scheduling of what is rendered."""

import pytest

from tests.cluster.bed.bed import Bed, node
from tests.kinds.torchrun.torchrun_cases import rendered

POOL = "torchrun-racks"
RACK = "example.com/rack"
LEVELS = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
TOPOLOGY = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": POOL}}
TEXT = f"""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: {POOL}, namespace: {POOL}}}
spec:
  queue: {{name: {POOL}, topologyName: {POOL}, resources: {{gpu: {{quota: 64}}}}}}
  image: train:1
  nodeResources: {{gpus: 8}}
  scheduling: {{nodeSelector: {{pool: {POOL}}}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: NAME, namespace: {POOL}}}
spec:
  jobQueue: {POOL}
  command: python train.py
  numGPUs: 16
  annotations: {{kueue.x-k8s.io/podset-required-topology: {RACK}}}
"""


@pytest.mark.usefixtures("kueue", "scheduler", "kwok")
def test_a_job_gets_the_rack_that_has_room_for_it(bed: Bed) -> None:
    """F-062: of three nodes in two racks, those of the rack with two; a job for which no rack has room is not admitted."""
    for name, rack in (("a", "one"), ("b", "two"), ("c", "two")):
        bed.create("/api/v1/nodes", node(f"{POOL}-{name}", labels={"pool": POOL, RACK: rack}))
    bed.wait(lambda: bed.ready_nodes(POOL) == 3, "three nodes ready")
    bed.apply({**TOPOLOGY, "spec": {"levels": LEVELS}})
    bed.apply(
        *(manifest.body for manifest in rendered(TEXT.replace("NAME", "large").replace("16", "24"), "kueue").manifests)
    )
    bed.wait(lambda: "topology" in waiting(bed), "Kueue says that no rack has room")
    bed.apply(*(manifest.body for manifest in rendered(TEXT.replace("NAME", "small"), "kueue").manifests))
    bed.wait(lambda: len(placed(bed)) == 2, "both pods have a node")
    assert placed(bed).keys() == {"small-0", "small-1"}
    assert sorted(placed(bed).values()) == [f"{POOL}-b", f"{POOL}-c"]


def waiting(bed: Bed) -> str:
    """Return why workloads of the queue are not admitted."""
    workloads = bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{POOL}/workloads")["items"]
    conditions = [one for workload in workloads for one in workload.get("status", {}).get("conditions", ())]
    return " ".join(one["message"] for one in conditions if one["status"] == "False")


def placed(bed: Bed) -> dict[str, str]:
    """Return the node of each pod that has one, by job and index."""
    pods = ((pod["metadata"]["labels"], pod["spec"].get("nodeName")) for pod in bed.pods(POOL))
    job, index = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
    return {f"{labels[job]}-{labels[index]}": node for labels, node in pods if node}
