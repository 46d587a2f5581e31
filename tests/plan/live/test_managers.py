"""The fields that an apply gives up, by what the server says about managers."""

from typing import Any

from reconciler.plan.live.managers import controllers_fields, without_given_up


def body(fields: dict[str, Any], *, version: str = "v1") -> dict[str, Any]:
    """Return an object with the fields that we applied."""
    entry = {"manager": "reconciler", "operation": "Apply", "apiVersion": version, "fieldsV1": fields}
    return {
        "metadata": {"labels": {"a": "1", "b": "2"}, "managedFields": [entry]},
        "spec": {"ports": [{"name": "x", "port": 1}, {"name": "y", "port": 2}], "hosts": ["p", "q"]},
    }


def test_labels_items_and_values_that_are_given_up() -> None:
    before = {
        "f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}},
        "f:spec": {
            "f:ports": {'k:{"name":"x"}': {".": {}, "f:port": {}}, 'k:{"name":"y"}': {".": {}, "f:port": {}}},
            "f:hosts": {'v:"p"': {}, 'v:"q"': {}},
        },
    }
    after = {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:ports": {'k:{"name":"y"}': {".": {}}}, "f:hosts": {'v:"p"': {}}},
    }
    left = without_given_up(body(before), body(after))
    assert left["metadata"]["labels"] == {"a": "1"}
    assert left["spec"] == {"ports": [{"name": "y"}], "hosts": ["p"]}


def test_nothing_is_given_up() -> None:
    """Nor if our fields are of another version of the API, whose names may differ, nor of an object that is not ours."""
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}}}
    result = body(fields)
    assert without_given_up(body(fields), result) is result
    other = body({}, version="v2")
    assert without_given_up(body(fields), other) is other
    assert without_given_up({"metadata": {}}, result) is result


def test_controllers_never_own_all_metadata() -> None:
    """Without labels of a person, the annotation of the Deployment controller is the only owned field of `metadata`."""
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, "f:deployment.kubernetes.io/revision": {}}}}
    entry = {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": fields}
    annotations = {"deployment.kubernetes.io/revision": "1"}
    live = {"metadata": {"name": "web", "annotations": annotations, "managedFields": [entry]}, "spec": {}}
    assert controllers_fields(live) == (("metadata", "annotations"),)
