"""Fields of other controllers: what an apply sends, and what is compared, whatever they wrote."""

from copy import deepcopy
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler import resources
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.schemas import Catalogue
from reconciler.plan.live.controlled import as_desired, as_sent, controlled_fields, without_controlled

CATALOGUE = Catalogue(resources)
QUEUE = {"kueue.x-k8s.io/queue-name": "team-a"}
Body = dict[str, Any]


def managed(manager: str, operation: str, fields: Body, subresource: str = "") -> Body:
    entry = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields}
    return {**entry, "subresource": subresource} if subresource else entry


def sent(desired: Body, live: Body) -> Body:
    row = BUILT_IN.of(live)
    keys = partial(CATALOGUE.list_keys, row.group, row.kind)
    return as_sent(desired, live, controlled_fields(BUILT_IN, live), keys)


def compared(desired: Body, live: Body) -> Body:
    return as_desired(live, desired, controlled_fields(BUILT_IN, live))


def job(**spec: Any) -> Body:
    template = {"spec": {"containers": [{"name": "main"}], "tolerations": [{"key": "own"}]}}
    metadata = {"name": "train", "namespace": "ml", "labels": dict(QUEUE)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


def admitted() -> Body:
    """Return a Job as Kueue starts it in a flavor that adds a node selector and a toleration."""
    live = job(suspend=False)
    live["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    live["spec"]["template"]["spec"]["tolerations"].append({"key": "spot"})
    live["spec"]["template"]["metadata"] = {"labels": {"kueue.x-k8s.io/podset": "main"}}
    return live


@pytest.mark.parametrize("desired", [job(), job(suspend=True)], ids=["rendered now", "rendered earlier"])
def test_a_job_that_kueue_has_started(desired: Body) -> None:
    """Kueue's own tolerations are sent, because their list is replaced as a whole and a running Job refuses that."""
    live = admitted()
    tolerations = [{"key": "own"}, {"key": "spot"}]
    assert sent(desired, live)["spec"]["template"]["spec"]["tolerations"] == tolerations
    assert "suspend" not in sent(desired, live)["spec"]
    assert compared(desired, live)["spec"].get("suspend") == desired["spec"].get("suspend")
    assert compared(desired, live)["spec"]["template"]["spec"]["tolerations"] == [{"key": "own"}]


def test_what_people_add_beside_a_queue_is_seen() -> None:
    desired = job()
    template = desired["spec"]["template"]
    template["metadata"] = {"labels": {"team": "vision"}}
    template["spec"]["tolerations"] = [{"key": "other"}]
    seen = compared(desired, admitted())["spec"]["template"]
    assert seen["metadata"]["labels"] == {"kueue.x-k8s.io/podset": "main"}
    assert seen["spec"]["tolerations"] == [{"key": "own"}]


def test_a_value_that_only_we_have_applied_stays() -> None:
    """A waiting Job that an earlier version applied with `suspend: true` would start if the field were left out."""
    live = job(suspend=True)
    live["metadata"]["managedFields"] = [managed("reconciler", "Apply", {"f:spec": {"f:suspend": {}}})]
    assert sent(job(), live)["spec"]["suspend"] is True
    live["metadata"]["managedFields"].append(managed("kueue", "Update", {"f:spec": {"f:suspend": {}}}))
    assert "suspend" not in sent(job(), live)["spec"]


def test_without_a_queue_every_field_is_ours() -> None:
    desired, live = job(suspend=True), admitted()
    for body in (desired, live):
        body["metadata"]["labels"] = {}
    assert sent(desired, live) == desired
    assert compared(desired, live) == live


def ray_cluster(*, scaled: bool, **group: Any) -> Body:
    workers = {"groupName": "gpu", "replicas": 1, "minReplicas": 0, "maxReplicas": 8, "template": {}, **group}
    spec = {"enableInTreeAutoscaling": scaled, "headGroupSpec": {"template": {}}, "workerGroupSpecs": [workers]}
    metadata = {"name": "ray", "namespace": "ml"}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}


def test_the_autoscaler_of_ray_keeps_its_workers() -> None:
    """It patches `replicas` and names the workers to delete; the list of groups is replaced as a whole."""
    strategy = {"workersToDelete": ["ray-gpu-worker-x"]}
    live = ray_cluster(scaled=True, replicas=3, scaleStrategy=strategy)
    desired = ray_cluster(scaled=True, maxReplicas=6)
    (group,) = sent(desired, live)["spec"]["workerGroupSpecs"]
    assert (group["replicas"], group["scaleStrategy"], group["maxReplicas"]) == (3, strategy, 6)
    (seen,) = compared(desired, live)["spec"]["workerGroupSpecs"]
    assert (seen["replicas"], "scaleStrategy" in seen, seen["maxReplicas"]) == (1, False, 8)
    fixed = ray_cluster(scaled=False)
    assert sent(fixed, ray_cluster(scaled=False, replicas=3)) == fixed


def deployment(replicas: int, **annotations: str) -> Body:
    metadata = {"name": "web", "namespace": "ml", "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}


@pytest.mark.parametrize("manager", ["kube-controller-manager", "keda-operator"])
def test_an_autoscaler_keeps_its_pods_unless_a_person_stops_them(manager: str) -> None:
    live = deployment(5)
    live["metadata"]["managedFields"] = [managed(manager, "Update", {"f:spec": {"f:replicas": {}}}, "scale")]
    assert sent(deployment(2), live)["spec"] == {}
    assert compared(deployment(2), live)["spec"] == {"replicas": 2}
    stopped = deployment(0, **{"gpureconciler.io/suspend": "true"})
    assert sent(stopped, live)["spec"] == {"replicas": 0}
    assert compared(stopped, live)["spec"] == {"replicas": 5}
    live["metadata"]["managedFields"][0]["manager"] = "kubectl"
    assert sent(deployment(2), live)["spec"] == {"replicas": 2}, "a person who scales is no autoscaler"


_VALUES = st.none() | st.booleans() | st.integers(0, 9) | st.dictionaries(st.sampled_from("ab"), st.text("xy"))


@given(wrote=st.lists(_VALUES, min_size=2, max_size=2), tolerations=st.lists(st.sampled_from("abc"), unique=True))
def test_the_version_of_an_object_is_without_what_others_write(wrote: list[Any], tolerations: list[str]) -> None:
    """So a plan stays valid while a queue admits what it plans on, and no edit of a person is hidden by that."""
    live = admitted()
    fields = controlled_fields(BUILT_IN, live)
    edited = deepcopy(live)
    edited["spec"]["template"]["spec"]["nodeSelector"], edited["spec"]["template"]["metadata"]["annotations"] = wrote
    edited["spec"]["template"]["spec"]["tolerations"] = [{"key": key} for key in tolerations]
    assert without_controlled(edited, fields) == without_controlled(live, fields)
    edited["spec"]["backoffLimit"] = 3
    assert without_controlled(edited, fields) != without_controlled(live, fields)
