"""A quantity in another notation does not make a change of other fields one that needs a new object."""

from typing import Any

import pytest

from reconciler import resources
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import ObjectKey
from reconciler.kube.schemas import Catalogue
from reconciler.plan.comparison import needs_new_object

_KEY = ObjectKey(group="jobset.x-k8s.io", kind="JobSet", namespace="a", name="set")


def _job_set(gpus: Any, memory: Any, **pod: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": gpus, "memory": memory}}
    containers = [{"name": "main", "image": "example.com/train:1", "resources": resources}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers, **pod}}
    job = {"name": "workers", "replicas": 1, "template": {"spec": {"template": template}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "a"},
        "spec": {"suspend": True, "replicatedJobs": [job]},
    }


@pytest.mark.parametrize(("gpus", "is_replaced"), [(1, False), ("1", False), (2, True)])
def test_a_suspended_job_set_gets_a_node_selector(gpus: Any, is_replaced: bool) -> None:
    """F-142: the server stores `1` and `1Gi`; only another number of GPUs needs a new object."""
    live, after = _job_set("1", "1Gi"), _job_set(gpus, "1024Mi", nodeSelector={"pool": "a"})
    found = needs_new_object(BUILT_IN, Catalogue(resources), _KEY, live, after, own_choice=lambda: "replace")
    assert found is is_replaced
