"""The definition of ConfigSource on a real API server: its defaults, and what it refuses."""

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
