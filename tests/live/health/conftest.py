"""Nodes with GPUs on the real API server, and a clock that tests set."""

import datetime as dt
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.health.fast_lane import node_key
from reconciler.health.state_store import LABEL
from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.report import KIND
from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer, wait_until
from tests.live.controller.conftest import person, server, template
from tests.live.speed.conftest import requests
from tools.crds import manifest
from tools.health_crd import REPORT

__all__ = ["person", "requests", "server", "template"]
START = 1_790_000_000.0
_DEFINITIONS = Path(__file__).parents[3] / "charts/reconciler/crds"
_numbers = itertools.count(1)
Node = dict[str, Any]
MakeNode = Callable[..., Node]
REPORTS = "/apis/gpureconciler.io/v1alpha1/nodehealthreports"


class SetClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.at, dt.UTC)

    def elapsed(self) -> float:
        return self.at

    def pause(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture(scope="session")
def health_server(api_server: ApiServer) -> ApiServer:
    """Return the API server with the definition of NodeHealthReport."""
    assert_all_accepted(api_server.client.apply([yaml.safe_load(manifest(REPORT))]))
    wait_until(lambda: api_server.client.request("GET", REPORTS).ok, "NodeHealthReport")
    return api_server


@pytest.fixture(scope="session")
def health_cluster(health_server: ApiServer) -> Iterator[KubernetesCluster]:
    with KubernetesCluster(load_access({}, kubeconfig=str(health_server.kubeconfig))) as cluster:
        yield cluster


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def make_node(live: KubernetesCluster) -> MakeNode:
    """Return what makes a node with eight GPUs, with further labels, annotations and fields of its spec."""

    def make(*, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Node:
        name = f"gpu-{os.getpid()}-{next(_numbers)}"
        known = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "kubernetes.io/hostname": name}
        metadata = {"name": name, "labels": {**known, **(labels or {})}, "annotations": annotations or {}}
        live.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}, manager="somebody")
        amounts = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1000Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", **_times()}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        live.patch(node_key(name), {"status": status}, subresource="status", manager="kubelet")
        live.patch(node_key(name), {"spec": {"taints": spec.get("taints")}}, manager="node-controller")
        return read(live, name)

    return make


def _times() -> dict[str, str]:
    return dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), "2026-01-01T00:00:00Z")


def read(live: KubernetesCluster, name: str) -> Node:
    """Return a node."""
    body = live.get(node_key(name))
    assert body is not None
    return body


def conditions(body: Node) -> dict[str, str]:
    """Return the status of all conditions of a node."""
    return {row["type"]: row["status"] for row in body["status"]["conditions"]}


def taints(body: Node) -> list[str]:
    """Return the keys of the taints of a node, in order."""
    return [taint["key"] for taint in body["spec"].get("taints", ())]


def events(live: KubernetesCluster, body: Node) -> list[str]:
    """Return the reasons of the events of a node, sorted."""
    listing = live.list(live.resource("", "Event"), fields=f"involvedObject.name={body['metadata']['name']}")
    return sorted(event["reason"] for event in listing.objects)


@pytest.fixture
def lane_cluster(private_server: ApiServer, private_cluster: KubernetesCluster) -> KubernetesCluster:
    """Return an API server for this test process alone, with our definitions, and without nodes, pods and reports."""
    rows = [yaml.safe_load(path.read_bytes()) for path in sorted(_DEFINITIONS.glob("*.yaml"))]
    assert_all_accepted(private_server.client.apply(rows))
    wait_until(lambda: private_server.client.request("GET", REPORTS).ok, "NodeHealthReport")
    for group, kind, labels in (("", "Node", ""), ("gpureconciler.io", KIND, ""), ("", "ConfigMap", LABEL)):
        resource = private_cluster.resource(group, kind)
        for body in private_cluster.list(resource, labels=labels, metadata_only=True).objects:
            key = ObjectKey(
                group=group, kind=kind, namespace=body["metadata"].get("namespace", ""), name=body["metadata"]["name"]
            )
            private_cluster.delete(key, uid=body["metadata"]["uid"], propagation="Background")
    for pod in private_cluster.list(private_cluster.resource("", "Pod")).objects:  # nodes of the same names come
        path = private_server.client.path({"apiVersion": "v1", "kind": "Pod", **pod})
        assert private_server.client.request("DELETE", f"{path}?gracePeriodSeconds=0").ok
    return private_cluster
