"""A pod that a real API server refuses is a warning in the template of an operator's object, and no other is."""

from typing import Any

import pytest

from reconciler import resources
from reconciler.kube.problems import Severity
from reconciler.kube.schemas import Catalogue
from tests.cluster.corpus import cases
from tests.cluster.server import ApiServer

CATALOGUE = Catalogue(resources)
Body = dict[str, Any]


def ray_cluster(template: Body) -> Body:
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "head", "image": "x:1"}]}}}
    workers = {"groupName": "a", "minReplicas": 0, "maxReplicas": 1, "rayStartParams": {}, "template": template}
    return _object("ray.io/v1", "RayCluster", {"headGroupSpec": head, "workerGroupSpecs": [workers]})


def job_set(template: Body) -> Body:
    jobs = [{"name": "workers", "template": {"spec": {"template": template}}}]
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def training_runtime(template: Body) -> Body:
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    return _object("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", {"template": {"spec": {"replicatedJobs": jobs}}})


def _object(api_version: str, kind: str, spec: Body) -> Body:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": spec,
    }


def test_pods_that_a_server_refuses_are_warned_of(api_server: ApiServer) -> None:
    pods = [one for one in cases() if one.body.get("kind") == "Pod" and not one.beyond]
    wrong, warned = [], 0
    for case, result in zip(pods, api_server.apply_dry_run([one.body for one in pods]), strict=True):
        found = [*CATALOGUE.violations(ray_cluster({"spec": case.body.get("spec")}))]
        warned += any(one.severity is Severity.WARNING for one in found)
        if bool(found) == result.ok:
            wrong.append(f"{case.name}: server {result.message or 'accepts'}; here {found[:1]}")
    assert not wrong, f"{len(wrong)} of {len(pods)}\n" + "\n".join(wrong)
    assert warned > len(pods) / 10


@pytest.mark.parametrize("holder", [ray_cluster, job_set, training_runtime])
def test_a_warning_names_the_field(holder: Any) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    spec = {"restartPolicy": "OnFailure", "containers": [{"name": "a", "image": "x:1", "volumeMounts": mounts}]}
    (found,) = CATALOGUE.violations(holder({"spec": spec}))
    assert (found.rule, found.severity) == ("schema.unknown-volume", Severity.WARNING)
    assert found.path[-5:] == ("containers", 0, "volumeMounts", 0, "name")
    assert found.message == "volume data not found in the pod, so that no pod can be created"
    assert [*CATALOGUE.violations(holder({"spec": {**spec, "volumes": [{"name": "data", "emptyDir": {}}]}}))] == []


def test_a_runtime_may_leave_the_image_to_its_jobs() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "node"}]}}
    assert [*CATALOGUE.violations(training_runtime(template))] == []
    assert [one.path[-1] for one in CATALOGUE.violations(job_set(template))] == ["image"]
