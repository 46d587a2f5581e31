"""The definition of ConfigSource on a real API server: its defaults, its printed columns, and what it refuses."""

from http import HTTPStatus
from typing import Any

import pytest

from tests.cluster.client import Client
from tests.cluster.server import ApiServer

_API = "gpureconciler.io/v1alpha1"


@pytest.fixture(scope="module")
def client(cluster: ApiServer, restricted: str) -> Client:
    return cluster.client


def source(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "fleet", "namespace": "gpu-reconciler"}
    full = {"url": "https://git.example.com/fleet.git", **spec}
    return {"apiVersion": _API, "kind": "ConfigSource", "metadata": metadata, "spec": full}


def test_defaults_are_those_of_the_schema(client: Client) -> None:
    (result,) = client.apply_dry_run([source()])
    assert result.ok, result.message
    assert result.body["spec"] | {"mode": "observe", "ref": "main", "interval": "1m"} == result.body["spec"]


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "aply"},
        {"interval": "60"},
        {"suspend": "no"},
        {"secretRef": {}},
        {"branch": "main"},
        {"url": ""},
    ],
    ids=str,
)
def test_wrong_sources_are_refused(client: Client, spec: dict[str, Any]) -> None:
    (result,) = client.apply_dry_run([source(**spec)])
    assert not result.ok
    assert next(iter(spec)) in result.message


def test_the_columns_show_the_condition(client: Client) -> None:
    """What `kubectl get configsources` prints, by the server's own table."""
    client.apply([source()])
    path = f"/apis/{_API}/namespaces/gpu-reconciler/configsources/fleet"
    status = {"conditions": [{"type": "Ready", "status": "True", "message": "main@sha1:0123"}]}
    patch = client.request("PATCH", f"{path}/status", {"status": status}, content_type="application/merge-patch+json")
    assert patch.ok, patch.body
    columns = client.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/configsources.gpureconciler.io")
    paths = {
        column["name"]: column["jsonPath"] for column in columns["spec"]["versions"][0]["additionalPrinterColumns"]
    }
    assert paths["Status"] == '.status.conditions[?(@.type=="Ready")].message'
    assert client.request("DELETE", path).status == HTTPStatus.OK
