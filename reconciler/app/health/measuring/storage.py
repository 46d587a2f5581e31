"""The check of a storage class: claim a small volume, see that it is bound, and delete the claim whatever happens."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from reconciler.core.health.readings import NodeReading, ReadError
from reconciler.core.objects import ObjectKey
from reconciler.ports.clock import Clock
from reconciler.ports.cluster import ClusterError, LiveCluster

LABEL = "gpureconciler.io/probe"
_NODE_LABEL = "gpureconciler.io/probe-node"
_POLL_SECONDS = 1.0
_WAITS_FOR_A_POD = "WaitForFirstConsumer"


class ClaimTest(Struct, frozen=True, kw_only=True):
    """What to claim, and for how long to wait."""

    namespace: str
    node: str
    storage_class: str
    size: str = "100Mi"
    access: str = "ReadWriteMany"
    seconds: float = 90.0
    poll: float = _POLL_SECONDS


def claim_volume(cluster: LiveCluster, test: ClaimTest, clock: Clock) -> NodeReading:
    """Return the reading `storage.pvc`: the phase of the claim after at most `seconds`.

    Claims that an earlier run of this node has left, because it was killed, are deleted first.
    """
    start = clock.elapsed()
    left: list[str] = []
    try:
        if reason := _unusable(cluster, test.storage_class):
            return NodeReading(name="storage.pvc", error=ReadError.NOT_SUPPORTED, detail=reason)
        with _claimed(cluster, test, left) as name:
            phase = _phase(cluster, test, name, clock)
    except ClusterError as problem:
        return NodeReading(name="storage.pvc", error=ReadError.FAILED, detail=str(problem))
    seconds = round(clock.elapsed() - start, 3)
    value: dict[str, Any] = {"phase": phase, "storageClass": test.storage_class, "seconds": seconds}
    return NodeReading(name="storage.pvc", value=value | ({"left": left[0]} if left else {}))


def _unusable(cluster: LiveCluster, name: str) -> str:
    """Return why a claim of this class says nothing about storage; empty if it does."""
    found = cluster.get(ObjectKey(group="storage.k8s.io", kind="StorageClass", namespace="", name=name))
    if found is not None and found.get("volumeBindingMode") == _WAITS_FOR_A_POD:
        return f"the storage class {name} binds a claim only when a pod uses it"
    return ""


@contextmanager
def _claimed(cluster: LiveCluster, test: ClaimTest, left: list[str]) -> Iterator[str]:
    """Create a claim for the block. All claims of this node are deleted before and after it, whatever happens."""
    _delete_all(cluster, test)
    try:
        written = cluster.create(_claim(test))
        yield str(written.body["metadata"]["name"])
    finally:
        try:
            _delete_all(cluster, test)
        except ClusterError as problem:
            left.append(f"of node {test.node} in {test.namespace} ({problem})")


def _phase(cluster: LiveCluster, test: ClaimTest, name: str, clock: Clock) -> str:
    """Wait until the claim is bound or lost, or the time is over; return its phase."""
    key = ObjectKey(group="", kind="PersistentVolumeClaim", namespace=test.namespace, name=name)
    deadline = clock.elapsed() + test.seconds
    while True:
        found = cluster.get(key)
        phase = "gone" if found is None else str(found.get("status", {}).get("phase", "Pending"))
        if phase != "Pending" or clock.elapsed() >= deadline:
            return phase
        clock.pause(test.poll)


def _delete_all(cluster: LiveCluster, test: ClaimTest) -> None:
    """Delete the claims of this node, also one whose creation was not answered."""
    resource = cluster.resource("", "PersistentVolumeClaim")
    labels = f"{LABEL}=storage,{_NODE_LABEL}={_label(test.node)}"
    for body in cluster.list(resource, namespace=test.namespace, labels=labels, metadata_only=True).objects:
        metadata = body["metadata"]
        key = ObjectKey(group="", kind="PersistentVolumeClaim", namespace=test.namespace, name=metadata["name"])
        cluster.delete(key, uid=metadata["uid"], propagation="Background")


def _claim(test: ClaimTest) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "generateName": "probe-storage-",
            "namespace": test.namespace,
            "labels": {LABEL: "storage", _NODE_LABEL: _label(test.node)},
        },
        "spec": {
            "accessModes": [test.access],
            "storageClassName": test.storage_class,
            "resources": {"requests": {"storage": test.size}},
        },
    }


def _label(node: str) -> str:
    """Return the name of a node as the value of a label, which may be shorter."""
    return node[:63].rstrip("-.")
