"""A `LiveCluster` on the real API server, and a namespace of its own for every test."""

import itertools
import os
from collections.abc import Iterator

import pytest

from reconciler.adapters.kubernetes import KubernetesCluster, load_access
from reconciler.core.objects import ObjectKey
from tests.cluster.server import ApiServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def live(api_server: ApiServer) -> Iterator[KubernetesCluster]:
    """Return the real API server behind our port."""
    with KubernetesCluster(load_access({}, kubeconfig=str(api_server.kubeconfig))) as cluster:
        yield cluster


@pytest.fixture
def namespace(live: KubernetesCluster) -> str:
    """Return a new namespace. It stays: no controller empties it, and the server ends with the test run."""
    name = f"live-{os.getpid()}-{next(_numbers)}"
    live.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def config_map(namespace: str, name: str, **data: str) -> dict[str, object]:
    """Return the body of a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"a": "1", **data},
    }


def config_map_key(namespace: str, name: str) -> ObjectKey:
    """Return the key of a ConfigMap."""
    return ObjectKey(group="", kind="ConfigMap", namespace=namespace, name=name)
