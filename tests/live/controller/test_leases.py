"""F-134: the replica that holds the Lease works, and no other one does at the same time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.controller.leases import LeaderLease, LeaseTimes
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from tests.cluster.server import wait_until

QUICK = LeaseTimes(duration=3.0, deadline=2.0, renew=0.15)
SLOW = LeaseTimes(duration=60.0, deadline=40.0, renew=0.15)


@contextmanager
def replica(live: KubernetesCluster, namespace: str, name: str, *, times: LeaseTimes = SLOW) -> Iterator[LeaderLease]:
    lease = LeaderLease(live, namespace=namespace, identity=name, times=times)
    lease.start()
    try:
        yield lease
    finally:
        lease.stop()


def key_of(namespace: str) -> ObjectKey:
    return ObjectKey(group="coordination.k8s.io", kind="Lease", namespace=namespace, name="reconciler")


def test_one_leads_and_another_follows_at_once(live: KubernetesCluster, namespace: str) -> None:
    with replica(live, namespace, "a") as first:
        wait_until(first.is_held, "the first leads")
        with replica(live, namespace, "b") as second:
            for _ in range(50):
                assert first.is_held(), "a leader that renews stays"
                assert not second.is_held()
                time.sleep(0.02)
            first.stop()
            handed_over = time.monotonic()
            wait_until(second.is_held, "the second leads")
            assert time.monotonic() - handed_over < SLOW.deadline, "a graceful stop does not wait for the lease to end"
            spec = (live.get(key_of(namespace)) or {})["spec"]
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 3)


def test_of_many_that_begin_together_one_leads(live: KubernetesCluster, namespace: str) -> None:
    replicas = [LeaderLease(live, namespace=namespace, identity=name, times=SLOW) for name in "abcdef"]
    for one in replicas:
        one.start()
    try:
        wait_until(lambda: any(one.is_held() for one in replicas), "a leader")
        for _ in range(30):
            assert sum(one.is_held() for one in replicas) == 1
            time.sleep(0.02)
    finally:
        for one in replicas:
            one.stop()


def test_a_holder_that_cannot_renew_stops_before_another_begins(live: KubernetesCluster, namespace: str) -> None:
    with replica(live, namespace, "a", times=QUICK) as first:
        wait_until(first.is_held, "the first leads")
        first._stopping.set()  # it hangs: nothing renews, nothing is handed over
        with replica(live, namespace, "b", times=QUICK) as second:
            while not second.is_held():
                time.sleep(0.005)
            assert not first.is_held()


def test_a_lease_that_somebody_else_took_is_lost_at_once(live: KubernetesCluster, namespace: str) -> None:
    with replica(live, namespace, "a") as first:
        wait_until(first.is_held, "the first leads")
        live.apply(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "reconciler", "namespace": namespace},
                "spec": {"holderIdentity": "b", "leaseDurationSeconds": 60},
            },
            manager="somebody",
            force=True,
        )
        wait_until(lambda: not first.is_held(), "the loss")


class Hanging:
    """A cluster that stops answering a request when it is told to."""

    def __init__(self, live: KubernetesCluster, method: str) -> None:
        self._live, self._method = live, method
        self.hangs, self.released = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> object:
        if name == self._method and self.hangs.is_set():
            self.released.wait(30)
        return getattr(self._live, name)


@pytest.mark.parametrize("method", ["get", "replace"])
def test_work_ends_in_time_while_a_request_for_the_lease_hangs(
    live: KubernetesCluster, namespace: str, method: str
) -> None:
    """What runs is told to end before the lease is free for others, although no request has failed yet."""
    hanging = Hanging(live, method)
    lost: list[float] = []
    lease = LeaderLease(hanging, namespace=namespace, identity="a", times=QUICK)  # type: ignore[arg-type]
    lease.changed = lambda: None if lease.is_held() else lost.append(time.monotonic())
    lease.start()
    try:
        wait_until(lease.is_held, "the lease")
        hanging.hangs.set()
        begun = time.monotonic()
        wait_until(lambda: lost, "the loss")
        assert lost[0] - begun < QUICK.duration
        assert not lease.is_held()
    finally:
        hanging.released.set()
        lease.stop()
