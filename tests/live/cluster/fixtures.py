"""A `LiveCluster` on the real API server, and a namespace of its own for every test."""

import base64
import itertools
import json
import os
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
import urllib3

from reconciler.kinds.manifests.ownership import LABEL, OWNER
from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.client.port import ApiResource, Body, ClusterError
from reconciler.kube.objects import ObjectKey, split_api_version
from reconciler.plan.live.inventory_record import LABEL as INVENTORY
from tests.cluster import server
from tests.cluster.build import to_stderr
from tests.cluster.parts import ControlPlane
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


@pytest.fixture(scope="session")
def private_server(
    shared_folder: Path, control_plane_programs: ControlPlane, crd_folder: Path, request: pytest.FixtureRequest
) -> Iterator[ApiServer]:
    """Run an API server for this test process alone: a live plan looks at everything that we own there."""
    worker = getattr(request.config, "workerinput", {}).get("workerid", "main")
    seed = server.stored_state(control_plane_programs, crd_folder, to_stderr)
    folder = shared_folder / f"live-{worker}"
    with server.api_server(folder, control_plane_programs, crd_folder, seed=seed) as running:
        yield running


@pytest.fixture(scope="session")
def private_cluster(private_server: ApiServer) -> Iterator[KubernetesCluster]:
    """Return that API server as the port sees it."""
    with KubernetesCluster(load_access({}, kubeconfig=str(private_server.kubeconfig))) as cluster:
        yield cluster


@pytest.fixture
def empty_cluster(private_server: ApiServer, private_cluster: KubernetesCluster) -> KubernetesCluster:
    """Return a cluster on which we own nothing, and without inventories: names of sources and clusters come again."""
    remove_own(private_server, private_cluster)
    return private_cluster


def remove_own(running: ApiServer, cluster: KubernetesCluster) -> None:
    """Remove all objects and inventories of ours."""
    stored = _stored_resources(running)
    resources = {(row.group, row.kind): row for row in reversed(cluster.discover(again=True).resources)}
    for row in resources.values():
        names = {row.plural, f"{row.group}/{row.plural}", _STORED_AS.get(row.plural, row.plural)}
        if {"list", "delete"} <= row.verbs and not names.isdisjoint(stored):
            for body in _listed(cluster, row):
                _remove(cluster, body)
    for body in cluster.list(cluster.resource("", "ConfigMap"), labels=INVENTORY).objects:
        _remove(cluster, body)


_STORED_AS = {
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "endpoints": "services",
    "ingresses": "ingress",
}
"""Resources whose keys in etcd have another name (k8s.io/kubernetes/pkg/kubeapiserver, SpecialDefaultResourcePrefixes)."""


def _stored_resources(running: ApiServer) -> set[str]:
    """Return what has objects at all, by the keys in etcd: most of the ninety resources need not be listed."""
    programs = json.loads((running.logs / "programs.json").read_text())
    flag = "--advertise-client-urls="
    url = next(word.removeprefix(flag) for word in programs[0]["argv"] if word.startswith(flag))
    first, last = (base64.b64encode(key).decode() for key in (b"/registry/", b"/registry0"))
    body = {"key": first, "range_end": last, "keys_only": True}
    answer = urllib3.request("POST", f"{url}/v3/kv/range", json=body).json()
    keys = [base64.b64decode(row["key"]).decode().split("/")[2:4] for row in answer["kvs"]]
    return {key[0] for key in keys} | {"/".join(key) for key in keys}


def _listed(cluster: KubernetesCluster, row: ApiResource) -> list[Body]:
    try:
        return list(cluster.list(row, labels=f"{LABEL}={OWNER}").objects)
    except ClusterError as error:
        if error.status == HTTPStatus.NOT_FOUND:  # its CRD was just deleted
            return []
        raise


def _remove(cluster: KubernetesCluster, body: Body) -> None:
    """Delete an object; a namespace only loses our label, because no controller would empty it."""
    key = key_of(body)
    if body["metadata"].get("finalizers"):
        cluster.patch(key, {"metadata": {"finalizers": None}})
    if key.kind == "Namespace":
        cluster.patch(key, {"metadata": {"labels": {LABEL: None}}})
    else:
        cluster.delete(key, uid=body["metadata"]["uid"], propagation="Background")


def key_of(body: Body) -> ObjectKey:
    """Return the key of a body."""
    metadata = body["metadata"]
    group, _ = split_api_version(body["apiVersion"])
    return ObjectKey(group=group, kind=body["kind"], namespace=metadata.get("namespace") or "", name=metadata["name"])
