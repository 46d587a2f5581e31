"""Values that servers store in another notation are equal to those in Git, on the real API server."""

from typing import Any

from reconciler.kube.objects import ObjectKey
from tests.live.apply.conftest import Site


def _job_set(site: Site, amount: Any, memory: Any, **pod: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": amount, "memory": memory}}
    container = {"name": "main", "image": "example.com/train:1", "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}
    job = {"name": "workers", "replicas": 1, "template": {"spec": {"template": template}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": site.metadata("set"),
        "spec": {"suspend": True, "replicatedJobs": [job]},
    }


def test_a_suspended_job_set_gets_a_node_selector(site: Site) -> None:
    """F-142: a webhook stores `1` as `"1"` and `1024Mi` as `1Gi`; the server accepts the change of the pods."""
    site.write("jobs/set.yaml", _job_set(site, 1, "1024Mi"))
    first = site.plan()
    assert first.code == 0, first.out
    assert site.apply("--no-wait").code == 0
    key = ObjectKey(group="jobset.x-k8s.io", kind="JobSet", namespace=site.name, name="set")
    path = "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/resources/limits"
    stored = {"nvidia.com/gpu": "1", "memory": "1Gi"}
    site.cluster.patch(key, [{"op": "replace", "path": path, "value": stored}], manager="jobset-controller-manager")
    same = site.plan("--exit-code")
    assert same.code == 0, same.out
    site.write("jobs/set.yaml", _job_set(site, 1, "1024Mi", nodeSelector={"pool": "a"}))
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    assert site.changes() == ["update JobSet/set"]
