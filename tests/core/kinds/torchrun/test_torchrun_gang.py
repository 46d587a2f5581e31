"""F-039: what we render for several nodes is all or nothing on the real KAI scheduler."""

from typing import Any

import pytest

from tests.cluster.bed.bed import GPU, Bed
from tests.cluster.bed.kai import pod_groups, refused
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
