"""The check of storage on the real API server: nothing is left behind, whatever happens."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kubernetes import KubernetesCluster
from reconciler.app.health.measuring.storage import LABEL, ClaimTest, claim_volume
from reconciler.core.health.readings import NodeReading, ReadError
from reconciler.core.objects import ObjectKey
from reconciler.ports.cluster import ClusterUnavailable


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
    assert reading == NodeReading(name="storage.pvc", value={"phase": "Bound", "storageClass": "fast", "seconds": 1.0})
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


def _body(namespace: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}},
    }
