"""`reconciler observe` on a real API server: nodes, queues and finished jobs become evidence."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.adapters.kubernetes import KubernetesCluster
from reconciler.core.objects import ObjectKey
from tests.cli.fleet import Fleet, Ran
from tests.cluster.server import ApiServer

_numbers = itertools.count(1)


def node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {key.replace("__", "/").replace("_", "."): labels[key] for key in labels}},
    }


def h100(name: str) -> dict[str, Any]:
    """Return a node with eight GPUs, and labels that no decision uses."""
    body = node(name)
    body["metadata"]["labels"] = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
        "topology.kubernetes.io/zone": "zone-a",
        "example.com/rack-owner": "someone",
    }
    body["spec"] = {"taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]}
    return body


STATUS = {
    "capacity": {"cpu": "96", "memory": "1056461568Ki", "nvidia.com/gpu": "8", "pods": "110"},
    "allocatable": {"cpu": "95500m", "memory": "1055413248Ki", "nvidia.com/gpu": "8", "pods": "110"},
    "conditions": [{"type": "Ready", "status": "True"}],
}


class Observer:
    """A config repository, and a live cluster whose nodes the test makes."""

    def __init__(self, fleet: Fleet, server: ApiServer, live: KubernetesCluster) -> None:
        self.fleet, self.server, self.live = fleet, server, live

    def run(self, *arguments: str) -> Ran:
        return self.fleet.run("observe", "--kubeconfig", str(self.server.kubeconfig), *arguments)

    def add(self, *bodies: dict[str, Any]) -> None:
        for body in bodies:
            self.live.create(body)
            key = ObjectKey(group="", kind="Node", namespace="", name=body["metadata"]["name"])
            self.live.patch(key, {"status": STATUS}, subresource="status")

    def text(self, name: str) -> str:
        return (self.fleet.root / "evidence/main" / name).read_text()


@pytest.fixture
def observer(fleet: Fleet, api_server: ApiServer, live: KubernetesCluster) -> Iterator[Observer]:
    yield Observer(fleet, api_server, live)
    nodes = list(live.list(live.resource("", "Node")).objects)
    for body in nodes:
        key = ObjectKey(group="", kind="Node", namespace="", name=body["metadata"]["name"])
        live.delete(key, uid=body["metadata"]["uid"], propagation="Background")


def test_nodes_become_an_inventory(observer: Observer) -> None:
    """Only what decisions use, sorted; a second observation changes nothing."""
    observer.add(*(h100(f"gpu-{number}") for number in (2, 1, 3)))
    observer.live.patch(ObjectKey(group="", kind="Node", namespace="", name="gpu-3"), {"spec": {"unschedulable": True}})
    ran = observer.run("--allow-shrink")
    assert (ran.code, ran.err) == (0, "")
    text = observer.text("nodes.yaml")
    assert text.count("- name: gpu-") == 3
    assert (
        text.partition("  nodes:\n")[2].partition("  - name: gpu-2\n")[0]
        == """\
  - name: gpu-1
    allocatable:
      cpus: 95
      memoryGiB: 1006
    cpus: 96
    gpu:
      count: 8
      memoryMiB: 81559
      product: NVIDIA-H100-80GB-HBM3
    labels:
      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
      topology.kubernetes.io/zone: zone-a
    taints:
    - effect: NoSchedule
      key: nvidia.com/gpu
      value: "true"
"""
    )
    assert text.count("unschedulable: true") == 1
    assert "rack-owner" not in text
    assert observer.fleet.run("lint").code == 0
    again = observer.run()
    assert (again.code, "no changes" in again.out) == (0, True)
    assert observer.text("nodes.yaml") == text
