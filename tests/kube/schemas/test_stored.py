"""Objects as a server hands them to admission; `tests/differential` asks a real server whether that is so."""

from typing import Any

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.kube.schemas.stored import Defaults, with_defaults

CATALOGUE = Catalogue(resources)


def stored(api_version: str, kind: str, **body: Any) -> Any:
    return CATALOGUE.stored({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **body})


def pod(**container: Any) -> Any:
    found = stored("v1", "Pod", spec={"containers": [{"name": "a", **container}]})
    return found["spec"]["containers"][0]


def test_defaults_of_built_in_kinds_are_added() -> None:
    spec = stored("apps/v1", "Deployment", spec={"template": {"spec": {"containers": []}}})["spec"]
    assert spec["replicas"] == 1
    assert spec["template"]["spec"]["securityContext"] == {}
    assert pod(image="a")["terminationMessagePath"] == "/dev/termination-log"
    assert pod(ports=[{"containerPort": 80}])["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_images_are_pulled_by_their_tags() -> None:
    images = {
        "a": "Always",
        "a:latest": "Always",
        "r:5000/a": "Always",
        "a:1": "IfNotPresent",
        "a@sha256:0": "IfNotPresent",
    }
    assert {image: pod(image=image)["imagePullPolicy"] for image in images} == images


def test_empty_values_and_nulls_are_dropped_and_empty_structs_are_kept() -> None:
    found = stored("v1", "ConfigMap", metadata={"name": "a", "labels": {}, "annotations": None})
    assert found["metadata"] == {"name": "a"}
    assert pod(args=[], securityContext={})["securityContext"] == {}
    assert "args" not in pod(args=[])


def test_nulls_in_lists_and_in_maps_are_zero_values() -> None:
    assert pod(args=["a", None], command=[None])["args"] == ["a", ""]
    assert pod(resources={"limits": {"nvidia.com/gpu": None}})["resources"]["limits"] == {"nvidia.com/gpu": "0"}
    assert stored("v1", "ConfigMap", data={"a": None})["data"] == {"a": ""}
    assert stored("v1", "Secret", data={"a": None}, stringData={"b": None})["data"] == {"a": "", "b": ""}
    labelled = {"name": "a", "labels": {"a": None}}
    assert stored("ray.io/v1", "RayCluster", metadata=labelled)["metadata"] == labelled  # decoded after admission


def test_quantities_are_canonical_and_limits_are_requested() -> None:
    assert pod(resources={"limits": {"cpu": 0.5, "memory": "1024Mi "}})["resources"] == {
        "limits": {"cpu": "500m", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }


def test_a_replication_controller_has_the_labels_of_its_pods() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    found = stored("v1", "ReplicationController", spec={"template": template, "selector": {}})
    assert found["metadata"] == {"name": "a", "labels": {"a": "b"}}
    assert (found["spec"]["selector"], found["spec"]["replicas"]) == ({"a": "b"}, 1)
    assert found["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_plain_values_of_secrets_become_data() -> None:
    found = stored("v1", "Secret", stringData={"a": "b"})
    assert found["data"] == {"a": "Yg=="}
    assert "stringData" not in found


def test_defaults_of_custom_kinds_come_from_their_schema() -> None:
    found = stored("kueue.x-k8s.io/v1beta1", "ClusterQueue", spec={"queueingStrategy": None})
    assert found["spec"]["queueingStrategy"] == "BestEffortFIFO"


def test_defaults_are_found_in_schemas_that_refer_to_themselves() -> None:
    schema = {"properties": {"below": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"properties": {}}}}
    node: Any = schema["$defs"]["node"]  # type: ignore[index]
    node["properties"] = {"size": {"default": 1}, "items": {"items": {"$ref": "#/$defs/node"}}}
    found = with_defaults({"below": {"items": [{"items": [{}], "size": 2}]}}, Defaults(schema, schema))
    assert found == {"below": {"items": [{"items": [{"size": 1}], "size": 2}], "size": 1}}


def test_an_object_without_defaults_is_copied_nowhere() -> None:
    schema = {"properties": {"spec": {"properties": {"a": {}, "b": {"default": 1}}}}}
    body: Any = {"spec": {"a": {"long": []}}, "status": {}}
    found = with_defaults(body, Defaults(schema, schema))
    assert found == {"spec": {"a": {"long": []}, "b": 1}, "status": {}}
    assert "b" not in body["spec"]
    assert found["spec"]["a"] is body["spec"]["a"]


def test_an_object_of_ours_is_what_it_is() -> None:
    body = {"apiVersion": "torchrun.ai/v1", "kind": "TorchrunJob", "metadata": {"name": "a"}, "spec": {"a": None}}
    assert CATALOGUE.stored(body) is body


def test_what_a_server_does_not_change_is_shared() -> None:
    """Nulls are left out at any depth; neither that nor a default changes the object that was given."""
    labels: dict[str, Any] = {"a": "b"}
    template: dict[str, Any] = {"metadata": {"labels": {"b": "c"}, "annotations": None}, "spec": {"containers": []}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "labels": labels},
        "spec": {"template": template},
    }
    found = CATALOGUE.stored(body)
    assert found["metadata"]["labels"] is labels
    assert found["spec"]["template"]["metadata"] == {"labels": {"b": "c"}}
    assert template["metadata"] == {"labels": {"b": "c"}, "annotations": None}
    assert list(template["spec"]) == ["containers"]
