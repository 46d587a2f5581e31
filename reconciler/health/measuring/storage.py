"""The check of a storage class: claim a small volume, write to it, and delete everything whatever happens."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from reconciler.clock import Clock
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId

LABEL = "gpureconciler.io/probe"
_NODE_LABEL = "gpureconciler.io/probe-node"
_POLL_SECONDS = 1.0
_WAITS_FOR_A_POD = "WaitForFirstConsumer"
_CLAIM = "PersistentVolumeClaim"
_POD = "Pod"
_VOLUME = "/volume"
_USER = 65532  # of the image (Dockerfile)
_ENDED = ("Succeeded", "Failed")
_WRITE = (  # in Python, which the image has: a file of random bytes that is read back the same
    "import os,sys;p=sys.argv[1]+'/probe';b=os.urandom(1<<20);f=os.open(p,os.O_RDWR|os.O_CREAT|os.O_TRUNC,0o600);"
    "os.write(f,b);os.fsync(f);os.lseek(f,0,0);s=os.read(f,1<<20)==b;os.close(f);os.unlink(p);sys.exit(0 if s else 3)"
)


class ClaimTest(Struct, frozen=True, kw_only=True):
    """A claim to make, and the time to wait for it.

    image: of a pod on this node that writes to the volume; empty: only the claim is tested. owner: the reference of
    the pod that makes the test, with which Kubernetes deletes what a killed test leaves.
    """

    namespace: str
    node: str
    storage_class: str
    size: str = "100Mi"
    access: str = "ReadWriteMany"
    seconds: float = 90.0
    poll: float = _POLL_SECONDS
    image: str = ""
    owner: Mapping[str, Any] = {}


def claim_volume(cluster: LiveCluster, test: ClaimTest, clock: Clock) -> NodeReading:
    """Return the reading `storage.pvc`: the phase of the claim, and whether it could be written, after `seconds`.

    What an earlier run of this node has left, because it was killed, is deleted first.
    """
    start = clock.elapsed()
    left: list[str] = []
    try:
        if reason := _unusable(cluster, test):
            return NodeReading(name=ReadingId.STORAGE_PVC, error=ReadError.NOT_SUPPORTED, detail=reason)
        with _claimed(cluster, test, left) as name:
            value = _outcome(cluster, test, name, clock)
    except ClusterError as problem:
        return NodeReading(name=ReadingId.STORAGE_PVC, error=ReadError.FAILED, detail=str(problem))
    value |= {"storageClass": test.storage_class, "seconds": round(clock.elapsed() - start, 3)}
    return NodeReading(name=ReadingId.STORAGE_PVC, value=value | ({"left": left[0]} if left else {}))


def remove_leftovers(cluster: LiveCluster, test: ClaimTest) -> None:
    """Delete what earlier tests of this node have left. Raises `ClusterError`."""
    for kind in (*([_POD] if test.image else []), _CLAIM):
        resource = cluster.resource("", kind)
        labels = f"{LABEL}=storage,{_NODE_LABEL}={_label(test.node)}"
        for body in cluster.list(resource, namespace=test.namespace, labels=labels, metadata_only=True).objects:
            metadata = body["metadata"]
            key = ObjectKey(group="", kind=kind, namespace=test.namespace, name=metadata["name"])
            cluster.delete(key, uid=metadata["uid"], propagation="Background")


def _unusable(cluster: LiveCluster, test: ClaimTest) -> str:
    """Return why a claim of this class says nothing about storage; empty if it does."""
    if test.image:
        return ""
    found = cluster.get(ObjectKey(group="storage.k8s.io", kind="StorageClass", namespace="", name=test.storage_class))
    if found is not None and found.get("volumeBindingMode") == _WAITS_FOR_A_POD:
        return f"the storage class {test.storage_class} binds a claim only when a pod uses it"
    return ""


@contextmanager
def _claimed(cluster: LiveCluster, test: ClaimTest, left: list[str]) -> Iterator[str]:
    """Create a claim for the block. All that belongs to this node is deleted before and after it, on every way out."""
    remove_leftovers(cluster, test)
    try:
        written = cluster.create(_claim(test))
        yield str(written.body["metadata"]["name"])
    finally:
        try:
            remove_leftovers(cluster, test)
        except ClusterError as problem:
            left.append(f"of node {test.node} in {test.namespace} ({problem})")


def _outcome(cluster: LiveCluster, test: ClaimTest, name: str, clock: Clock) -> dict[str, Any]:
    deadline = clock.elapsed() + test.seconds
    claim = ObjectKey(group="", kind=_CLAIM, namespace=test.namespace, name=name)
    if not test.image:
        return {"phase": _phase(cluster, claim, test, clock, deadline, pending=("Pending",))}
    made = cluster.create(_writer(test, name)).body["metadata"]["name"]
    pod = ObjectKey(group="", kind=_POD, namespace=test.namespace, name=made)
    ended = _phase(cluster, pod, test, clock, deadline, pending=("Pending", "Running", "Unknown"))
    found = cluster.get(claim) or {}
    phase = str((found.get("status") or {}).get("phase", "Pending")) if found else "gone"
    return {"phase": phase, "written": ended == _ENDED[0], "pod": ended}


def _phase(
    cluster: LiveCluster, key: ObjectKey, test: ClaimTest, clock: Clock, deadline: float, *, pending: tuple[str, ...]
) -> str:
    """Wait until the phase of an object is another one, or the time is over; return its phase."""
    while True:
        found = cluster.get(key)
        phase = "gone" if found is None else str((found.get("status") or {}).get("phase", "Pending"))
        if phase not in pending or clock.elapsed() >= deadline:
            return phase
        clock.pause(test.poll)


def _metadata(test: ClaimTest) -> dict[str, Any]:
    owners = {"ownerReferences": [dict(test.owner)]} if test.owner else {}
    labels = {LABEL: "storage", _NODE_LABEL: _label(test.node)}
    return {"generateName": "probe-storage-", "namespace": test.namespace, "labels": labels, **owners}


def _claim(test: ClaimTest) -> dict[str, Any]:
    spec = {
        "accessModes": [test.access],
        "storageClassName": test.storage_class,
        "resources": {"requests": {"storage": test.size}},
    }
    return {"apiVersion": "v1", "kind": _CLAIM, "metadata": _metadata(test), "spec": spec}


def _writer(test: ClaimTest, claim: str) -> dict[str, Any]:
    """Return the pod that writes to the volume on this node. It has no token and no rights, and ends by itself."""
    container = {
        "name": "write",
        "image": test.image,
        "command": ["python", "-c", _WRITE, _VOLUME],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "volume", "mountPath": _VOLUME}],
    }
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [test.node]}]}
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": max(int(test.seconds), 1),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}},
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "volume", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {"apiVersion": "v1", "kind": _POD, "metadata": _metadata(test), "spec": spec}


def _label(node: str) -> str:
    """Return the name of a node as the value of a label, which may be shorter."""
    return node[:63].rstrip("-.")
