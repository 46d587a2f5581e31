"""F-134: shards are leases, and every source belongs to one replica at a time."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.kubernetes import KubernetesCluster
from reconciler.controller.leases import LeaseShards, LeaseTimes, choose, shard_of
from reconciler.core.objects import ObjectKey
from tests.cluster.server import wait_until

QUICK = LeaseTimes(duration=3.0, deadline=2.0, renew=0.15)
SLOW = LeaseTimes(duration=60.0, deadline=40.0, renew=0.15)


@given(
    members=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True),
    shards=st.integers(1, 12),
    data=st.data(),
)
def test_replicas_converge_to_equal_shares(members: list[str], shards: int, data: st.DataObject) -> None:
    holders = data.draw(st.lists(st.sampled_from(["", *members]), min_size=shards, max_size=shards))
    for _ in range(3 * len(members)):
        for me in data.draw(st.permutations(members)):
            wanted = choose(holders, members, me)
            assert all(holders[shard] == "" for shard in wanted.take), "nothing is taken from another replica"
            assert all(holders[shard] == me for shard in wanted.release)
            for shard in wanted.take:
                holders[shard] = me
            for shard in wanted.release:
                holders[shard] = ""
    counts = [holders.count(member) for member in members]
    assert "" not in holders
    assert max(counts) - min(counts) <= 1


def test_the_shard_of_a_source_never_changes() -> None:
    assert [shard_of(f"team-{number}/fleet", 4) for number in range(6)] == [3, 3, 2, 2, 0, 0]


@contextmanager
def replica(
    live: KubernetesCluster, namespace: str, name: str, *, shards: int = 1, times: LeaseTimes = SLOW
) -> Iterator[LeaseShards]:
    leases = LeaseShards(live, namespace=namespace, identity=name, shards=shards, times=times)
    leases.start()
    try:
        yield leases
    finally:
        leases.stop()


def lease(live: KubernetesCluster, namespace: str, name: str) -> dict[str, object]:
    body = live.get(ObjectKey(group="coordination.k8s.io", kind="Lease", namespace=namespace, name=name))
    return body["spec"] if body else {}


def test_one_leads_and_another_follows_at_once(live: KubernetesCluster, namespace: str) -> None:
    with replica(live, namespace, "a") as first:
        wait_until(lambda: first.holds("x"), "the first leads")
        with replica(live, namespace, "b") as second:
            wait_until(lambda: lease(live, namespace, "reconciler-member-b"), "the second is there")
            for _ in range(50):
                assert not (first.holds("x") and second.holds("x"))
                assert first.holds("x"), "a leader that renews stays"
                time.sleep(0.02)
            first.stop()
            handed_over = time.monotonic()
            wait_until(lambda: second.holds("x"), "the second leads")
            assert time.monotonic() - handed_over < SLOW.deadline, "a graceful stop does not wait for the lease to end"
            spec = lease(live, namespace, "reconciler-shard-0")
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 3)


def test_shards_spread_over_replicas_and_come_back(live: KubernetesCluster, namespace: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(replica(live, namespace, "a", shards=4))
        wait_until(lambda: first.held == 4, "all shards")
        second = stack.enter_context(replica(live, namespace, "b", shards=4))
        wait_until(lambda: (first.held, second.held) == (2, 2), "equal shares")
        third = stack.enter_context(replica(live, namespace, "c", shards=4))
        wait_until(lambda: sorted((first.held, second.held, third.held)) == [1, 1, 2], "thirds")
        second.stop()
        wait_until(lambda: (first.held, third.held) == (2, 2), "halves again")


def test_a_shard_is_handed_over_only_when_nothing_runs(live: KubernetesCluster, namespace: str) -> None:
    busy = threading.Event()
    busy.set()
    with replica(live, namespace, "b", shards=2) as first:
        first.is_busy = lambda _: busy.is_set()
        wait_until(lambda: first.held == 2, "all shards")
        with replica(live, namespace, "a", shards=2) as second:
            wait_until(lambda: first.held == 1, "the first begins no more work")
            assert all(first.keeps(f"source-{number}") for number in range(8)), "work that runs may end"
            wait_until(lambda: "a" in str(lease(live, namespace, "reconciler-member-a")), "the second is there")
            assert second.held == 0
            busy.clear()
            wait_until(lambda: second.held == 1, "the second works")


def test_a_holder_that_cannot_renew_stops_before_another_begins(live: KubernetesCluster, namespace: str) -> None:
    with replica(live, namespace, "a", times=QUICK) as first:
        wait_until(lambda: first.holds("x"), "the first leads")
        first._stopping.set()  # it hangs: nothing renews, nothing is handed over
        with replica(live, namespace, "b", times=QUICK) as second:
            while not second.holds("x"):
                time.sleep(0.005)
            assert not first.holds("x")


class Hanging:
    """A cluster that stops answering lists when it is told to."""

    def __init__(self, live: KubernetesCluster) -> None:
        self._live = live
        self.hangs, self.released = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._live, name)

    def list(self, *arguments: object, **named: object) -> object:
        if self.hangs.is_set():
            self.released.wait(30)
        return self._live.list(*arguments, **named)  # type: ignore[arg-type]


def test_work_ends_in_time_while_a_request_for_the_lease_hangs(live: KubernetesCluster, namespace: str) -> None:
    """What runs is told to end before the lease is free for others, although no request has failed yet."""
    hanging = Hanging(live)
    lost: list[float] = []
    leases = LeaseShards(hanging, namespace=namespace, identity="a", times=QUICK)  # type: ignore[arg-type]
    leases.changed = lambda: None if leases.held else lost.append(time.monotonic())
    leases.start()
    try:
        wait_until(lambda: leases.holds("x"), "the lease")
        hanging.hangs.set()
        begun = time.monotonic()
        wait_until(lambda: lost, "the loss")
        assert lost[0] - begun < QUICK.duration
        assert not leases.keeps("x")
    finally:
        hanging.released.set()
        leases.stop()
