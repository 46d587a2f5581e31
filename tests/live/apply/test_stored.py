"""The inventory and the records on a real API server."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from reconciler.errors import OutsideError
from reconciler.kube.client.port import LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.live.apply.results import Record
from reconciler.live.apply.stored import add_record, change_inventory, read_records
from reconciler.plan.live.inventory import Place, read_inventory
from reconciler.plan.live.inventory_record import Member


def members(count: int, start: int = 0) -> list[Member]:
    keys = (ObjectKey(group="batch", kind="Job", namespace="a", name=f"job-{n}") for n in range(start, start + count))
    return [Member(key=key, uid=f"0f3c1d2e-0000-4000-8000-{n:012d}") for n, key in enumerate(keys, start)]


def names(live: LiveCluster, place: Place) -> list[str]:
    listing = live.list(live.resource("", "ConfigMap"), namespace=place.namespace)
    return sorted(
        body["metadata"]["name"] for body in listing.objects if body["metadata"]["name"].startswith(place.name)
    )


def test_the_namespace_is_made(live: LiveCluster, namespace: str) -> None:
    place = Place(namespace=f"{namespace}-inventory", name="fleet-main", source="")
    assert read_inventory(live, place).members == frozenset()
    change_inventory(live, place, add=members(1))
    assert read_inventory(live, place).members == {*members(1)}
    assert names(live, place) == ["fleet-main-0of1"]


def test_it_grows_to_ten_thousand_objects_and_shrinks(live: LiveCluster, namespace: str) -> None:
    place = Place(namespace=namespace, name="big", source="")
    change_inventory(live, place, add=members(10))
    change_inventory(live, place, add=members(10_000))
    assert read_inventory(live, place).members == {*members(10_000)}
    assert len(names(live, place)) == 16
    change_inventory(live, place, remove=[member.key for member in members(9_990, 10)])
    assert read_inventory(live, place).members == {*members(10)}
    assert names(live, place) == ["big-0of1"]


def test_two_writers_lose_nothing(live: LiveCluster, namespace: str) -> None:
    place = Place(namespace=namespace, name="two", source="")
    change_inventory(live, place, add=members(1))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: change_inventory(live, place, add=members(1, n)), range(1, 5)))
    assert read_inventory(live, place).members == {*members(5)}


def test_no_change_writes_nothing(live: LiveCluster, namespace: str) -> None:
    place = Place(namespace=namespace, name="same", source="")
    change_inventory(live, place, add=members(3))
    key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="same-0of1")
    before = live.get(key)
    change_inventory(live, place, add=members(3))
    assert live.get(key) == before


def test_a_damaged_inventory_is_an_error(live: LiveCluster, namespace: str) -> None:
    place = Place(namespace=namespace, name="bad", source="")
    change_inventory(live, place, add=members(3))
    key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="bad-0of1")
    live.patch(key, {"data": {"objects": "half a li"}})
    with pytest.raises(OutsideError, match="is damaged: ConfigMap bad-0of1: line 1"):
        read_inventory(live, place)


def record(number: int, finished: str = "") -> Record:
    return Record(
        cluster="main",
        server="https://x",
        user="me",
        plan=f"sha256:{number}",
        commit="c",
        base="b",
        started=f"2026-01-01T00:00:{number:02d}Z",
        finished=finished,
    )


def test_records(live: LiveCluster, namespace: str) -> None:
    """The last 20 runs; the end of a run replaces its begin."""
    place = Place(namespace=namespace, name="runs", source="")
    assert read_records(live, place) == ()
    for number in range(22):
        add_record(live, place, record(number))
    add_record(live, place, record(21, finished="x"))
    kept = read_records(live, place)
    assert [one.plan for one in kept] == [f"sha256:{number}" for number in range(2, 22)]
    assert kept[-1].result == "Applied"
