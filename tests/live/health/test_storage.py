"""The check of storage on the real API server: nothing is left behind, whatever happens."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.clock import SystemClock
from reconciler.health.measuring.storage import _WRITE, LABEL, ClaimTest, claim_volume
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.client.port import ClusterUnavailable
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Sweep


class _Steps(SystemClock):
    """A clock that does something at every pause, instead of waiting."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self._passed = 0.0

    def elapsed(self) -> float:
        return self._passed

    def pause(self, seconds: float) -> None:
        self._passed += seconds
        self._step()


def _claims(live: KubernetesCluster, namespace: str) -> list[dict[str, Any]]:
    """Return the claims that nobody has deleted; a finalizer of the API server may keep deleted ones."""
    listing = live.list(live.resource("", "PersistentVolumeClaim"), namespace=namespace, labels=LABEL)
    return [body for body in listing.objects if "deletionTimestamp" not in body["metadata"]]


def _test(namespace: str, **more: Any) -> ClaimTest:
    return ClaimTest(namespace=namespace, node="node-1", storage_class="fast", **more)


def _bind(live: KubernetesCluster, namespace: str) -> None:
    (body,) = _claims(live, namespace)
    key = ObjectKey(group="", kind="PersistentVolumeClaim", namespace=namespace, name=body["metadata"]["name"])
    live.patch(key, {"status": {"phase": "Bound"}}, subresource="status")


def test_a_bound_claim_is_deleted(live: KubernetesCluster, namespace: str) -> None:
    """F-087: create, bound, delete."""
    reading = claim_volume(live, _test(namespace), _Steps(lambda: _bind(live, namespace)))
    assert reading == NodeReading(
        name=ReadingId("storage.pvc"), value={"phase": "Bound", "storageClass": "fast", "seconds": 1.0}
    )
    assert _claims(live, namespace) == []


def test_a_pending_claim_ends_in_time_and_is_deleted(live: KubernetesCluster, namespace: str) -> None:
    """F-087: pending until its time is over, then deleted."""
    reading = claim_volume(live, _test(namespace, seconds=3.0), _Steps(lambda: None))
    assert reading.value == {"phase": "Pending", "storageClass": "fast", "seconds": 3.0}
    assert _claims(live, namespace) == []


@pytest.mark.parametrize("problem", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interrupt_leaves_nothing(live: KubernetesCluster, namespace: str, problem: type[BaseException]) -> None:
    """F-087: Ctrl-C while it waits."""

    def interrupt() -> None:
        assert len(_claims(live, namespace)) == 1
        raise problem

    with pytest.raises(problem):
        claim_volume(live, _test(namespace), _Steps(interrupt))
    assert _claims(live, namespace) == []


def test_what_a_killed_run_left_is_deleted_first(live: KubernetesCluster, namespace: str) -> None:
    """F-087: a run that was killed cannot clean up; the next one does, for its own node only."""
    others = {LABEL: "storage", "gpureconciler.io/probe-node": "node-2"}
    for name, labels in (
        ("left", {**others, "gpureconciler.io/probe-node": "node-1"}),
        ("other", others),
        ("user", {}),
    ):
        live.create(_body(namespace, name, labels))
    claim_volume(live, _test(namespace), _Steps(lambda: None))
    assert [body["metadata"]["name"] for body in _claims(live, namespace)] == ["other"]
    key = ObjectKey(group="", kind="PersistentVolumeClaim", namespace=namespace, name="user")
    body = live.get(key)
    assert body is not None
    assert "deletionTimestamp" not in body["metadata"]


def test_a_refusal_and_a_lost_server_are_readings(live: KubernetesCluster, namespace: str) -> None:
    refused = claim_volume(live, _test(namespace, size="much"), _Steps(lambda: None))
    assert refused.error is ReadError.FAILED
    assert claim_volume(live, _test("no-such-namespace"), _Steps(lambda: None)).error is ReadError.FAILED

    def lose() -> None:
        raise ClusterUnavailable("the server does not answer")

    lost = claim_volume(live, _test(namespace), _Steps(lose))
    assert lost.error is ReadError.FAILED
    assert _claims(live, namespace) == []


def test_a_class_that_waits_for_a_pod_is_not_judged(live: KubernetesCluster, namespace: str) -> None:
    name = f"waits-{namespace}"
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    live.create({**body, "provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer"})
    test = ClaimTest(namespace=namespace, node="node-1", storage_class=name)
    reading = claim_volume(live, test, _Steps(lambda: None))
    assert reading.error is ReadError.NOT_SUPPORTED
    assert _claims(live, namespace) == []


def _end(live: KubernetesCluster, namespace: str, claim: str, pod: str) -> None:
    """Do what the storage and the kubelet do."""
    (found,) = _claims(live, namespace)
    (writer,) = _pods(live, namespace)
    for kind, body, phase in (("PersistentVolumeClaim", found, claim), ("Pod", writer, pod)):
        key = ObjectKey(group="", kind=kind, namespace=namespace, name=body["metadata"]["name"])
        live.patch(key, {"status": {"phase": phase}}, subresource="status")


def _pods(live: KubernetesCluster, namespace: str) -> list[dict[str, Any]]:
    listing = live.list(live.resource("", "Pod"), namespace=namespace, labels=LABEL)
    return [body for body in listing.objects if "deletionTimestamp" not in body["metadata"]]


@pytest.mark.parametrize(
    ("claim", "pod", "status"),
    [
        ("Bound", "Succeeded", CheckStatus.PASS),
        ("Bound", "Failed", CheckStatus.FAIL),
        ("Bound", "Running", CheckStatus.FAIL),
        ("Pending", "Pending", CheckStatus.FAIL),
    ],
)
def test_a_pod_writes_to_the_volume(
    live: KubernetesCluster, namespace: str, claim: str, pod: str, status: CheckStatus
) -> None:
    """F-087: create, write, delete, also of a class that waits for a pod; both belong to the pod that tests."""
    owner = live.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": namespace},
                         "spec": {"containers": [{"name": "a", "image": "a"}]}}).body["metadata"]  # fmt: skip
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"]}

    def step() -> None:
        owners = [one["metadata"]["ownerReferences"] for one in (*_claims(live, namespace), *_pods(live, namespace))]
        assert owners == [[reference], [reference]]
        _end(live, namespace, claim, pod)

    test = _test(namespace, image="reconciler:1", owner=reference, seconds=3.0)
    reading = claim_volume(live, test, _Steps(step))
    assert (_claims(live, namespace), _pods(live, namespace)) == ([], [])
    (found,) = judge(Sweep(node="node-1", taken_at=1.0, readings=(reading,)), only=("storage.pvc",))
    assert (found.status, "was not written" in found.message) == (status, status is CheckStatus.FAIL)


def test_what_the_pod_runs(tmp_path: Path) -> None:
    """F-087: it writes, reads and removes a file; a volume that cannot be written ends it with an error."""
    for folder, code in ((tmp_path, 0), (tmp_path / "none", 1)):
        assert subprocess.run([sys.executable, "-c", _WRITE, str(folder)], check=False, stderr=-3).returncode == code
    assert list(tmp_path.iterdir()) == []


def _body(namespace: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}},
    }
