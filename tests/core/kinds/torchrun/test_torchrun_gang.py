"""F-039: what we render for several nodes is all or nothing on the real KAI scheduler."""

from typing import Any

from tests.cluster.kai import GPU, Kai
from tests.core.kinds.torchrun.torchrun_cases import rendered

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


def workload(pool: str, *, suspend: bool = False) -> dict[str, Any]:
    return rendered(TEXT.format(pool=pool, suspend=str(suspend).lower()), "kai").one("PyTorchJob")


def test_a_rendered_job_starts_whole_or_not_at_all(kai: Kai) -> None:
    """F-039, F-055: 16 GPUs with 8 free place nothing; with 16 free both pods; suspended, the GPUs are free again."""
    pool = "rendered-gang"
    for node in ("a", "b"):
        kai.node(f"{pool}-{node}", pool)
    resources = {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
    filler = {"nodeName": f"{pool}-a", "containers": [{"name": "main", "image": "fill:1", "resources": resources}]}
    metadata = {"name": "filler", "namespace": f"{pool}-filler"}
    kai.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": filler})
    kai.wait(lambda: kai.pods(f"{pool}-filler")[0]["status"]["phase"] == "Running", "the filler runs")

    kai.apply(workload(pool))
    kai.wait(lambda: len(kai.pods(pool)) == 2, "the operator made both pods")
    kai.wait(lambda: kai.refused(pool), "the scheduler refused both")
    (group,) = kai.pod_groups(pool)
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["queue"] == "default-queue"
    assert kai.bound(pool) == []

    kai.delete_pod(f"{pool}-filler", "filler")
    kai.wait(lambda: kai.bound(pool) == ["train-worker-0", "train-worker-1"], "both pods placed")
    kai.apply(workload(pool, suspend=True))
    kai.wait(lambda: not kai.pods(pool), "suspended")
