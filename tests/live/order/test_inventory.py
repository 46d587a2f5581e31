"""The inventory as a value: it survives its stored form, at any size, and only exact UIDs count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.objects import ObjectKey
from reconciler.plan.live.inventory_record import (
    Member,
    ObjectInventory,
    Shard,
    config_map,
    inventory_name,
    owns,
    read_config_maps,
    shards,
)

_names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
_keys = st.builds(
    ObjectKey,
    group=st.one_of(st.just(""), _names),
    kind=st.sampled_from(["Job", "Queue", "ConfigMap"]),
    namespace=st.one_of(st.just(""), _names),
    name=_names,
)
_members = st.builds(Member, key=_keys, uid=st.one_of(st.just(""), st.uuids().map(str)))


def stored(inventory: ObjectInventory) -> list[dict[str, object]]:
    return [config_map("i", shard, namespace="n", source="") for shard in shards("i", inventory)]


@given(st.frozensets(_members, max_size=30))
def test_the_stored_form_keeps_everything(members: frozenset[Member]) -> None:
    inventory = ObjectInventory(members=members)
    assert read_config_maps(stored(inventory)) == inventory


def large(count: int) -> ObjectInventory:
    uid = "0f3c1d2e-0000-4000-8000-{:012d}"
    keys = (ObjectKey(group="batch", kind="Job", namespace=f"team-{n % 50}", name=f"job-{n}") for n in range(count))
    return ObjectInventory(members=frozenset(Member(key=key, uid=uid.format(n)) for n, key in enumerate(keys)))


def test_ten_thousand_objects_fit_and_a_change_writes_one_part() -> None:
    """16 ConfigMaps far below the limit of 1 MiB; one more object changes one of them."""
    inventory = large(10_000)
    before = shards("i", inventory)
    assert len(before) == 16
    assert max(len(shard.lines) for shard in before) < 128 * 1024
    assert read_config_maps(stored(inventory)) == inventory
    more = inventory.changed(add=[Member(key=ObjectKey(group="", kind="Secret", namespace="a", name="b"), uid="1")])
    after = shards("i", more)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_growth_keeps_everything_while_both_forms_exist() -> None:
    """A program killed between writing the new ConfigMaps and deleting the old one loses nothing."""
    small, grown = large(400), large(700)
    assert read_config_maps([*stored(small), *stored(grown)]) == grown


def test_a_new_uid_replaces_the_old_one() -> None:
    key = ObjectKey(group="batch", kind="Job", namespace="a", name="b")
    begun = ObjectInventory().changed(add=[Member(key=key)])
    confirmed = begun.changed(add=[Member(key=key, uid="2")], remove=[key])
    assert confirmed.uids() == {key: {"2"}}
    assert confirmed.changed(remove=[key]) == ObjectInventory()


def live(uid: str, manager: str = "reconciler", operation: str = "Apply") -> dict[str, object]:
    return {"metadata": {"uid": uid, "managedFields": [{"manager": manager, "operation": operation}]}}


def test_only_our_uid_is_ours() -> None:
    """F-142: a label, a name or another UID is not enough; a creation that was begun needs our field manager."""
    assert owns({"1"}, live("1", "kubectl"), "reconciler")
    assert not owns({"1"}, live("2"), "reconciler")
    assert not owns(frozenset(), live("1"), "reconciler")
    assert owns({""}, live("1"), "reconciler")
    assert not owns({""}, live("1", "kubectl"), "reconciler")
    assert not owns({""}, live("1", operation="Update"), "reconciler")
    assert not owns({""}, {"metadata": {}}, "reconciler")


@pytest.mark.parametrize("lines", ["Job a b\n", " Job a b 1\nx\n", "batch - a b 1\n", "batch Job a - 1\n"])
def test_damaged_lines_are_errors(lines: str) -> None:
    """Half an inventory must not pass for a whole one."""
    body = config_map("i", Shard(name="i-0of1", lines=lines), namespace="n", source="")
    with pytest.raises(ValueError, match="ConfigMap i-0of1"):
        read_config_maps([body])


def test_a_config_map_without_lines_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"has no data\.objects"):
        read_config_maps([{"metadata": {"name": "x"}, "data": {}}])


@pytest.mark.parametrize(("cluster", "name"), [("main", "main"), ("EU_West.1", "eu-west-1"), ("___", "cluster")])
def test_names(cluster: str, name: str) -> None:
    assert inventory_name(cluster) == name
