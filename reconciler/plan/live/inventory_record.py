"""The inventory: which objects of a cluster are ours, by identity and UID, and how it is stored in ConfigMaps.

Only what is in the inventory with the UID that the object has may be deleted. It is stored as lines of text, in one
ConfigMap, or in 16 once there are many objects, so that a change writes a small part of it. What several ConfigMaps say
adds up: a program that is killed between two writes leaves entries too many, never too few.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import mapping, text

LABEL = "gpureconciler.io/inventory"
"""The label of the ConfigMaps of an inventory: its name."""

SOURCE = "gpureconciler.io/source"
"""The annotation that names the config repository that the inventory belongs to."""

REPOSITORY = "gpureconciler.io/repository"
"""The annotation that identifies the Git repository: its first commit, and the folder of the config repository."""

RELEASED = "released"
"""In place of a UID: the object was handed over, and is not ours until a plan adopts it. No object has such a UID."""

_MAX_IN_ONE = 1_000  # entries; about 120 kB, and 0.7 of the 1 MiB of a ConfigMap if every name has its full length
_SHARDS = 16
_KEY = "objects"
_ABSENT = "-"
_FIELDS = 5


class Member(Struct, frozen=True, kw_only=True, order=True):
    """One object of ours. An empty `uid` means that its creation was begun: the object's field manager decides."""

    key: ObjectKey
    uid: str = ""


class ObjectInventory(Struct, frozen=True, kw_only=True):
    """The objects of ours. One name may have several UIDs, of which at most one exists."""

    members: frozenset[Member] = frozenset()

    def uids(self) -> dict[ObjectKey, frozenset[str]]:
        """Return the UIDs by object."""
        found: dict[ObjectKey, set[str]] = defaultdict(set)
        for member in self.members:
            found[member.key].add(member.uid)
        return {key: frozenset(uids) for key, uids in found.items()}

    def changed(self, *, add: Iterable[Member] = (), remove: Iterable[ObjectKey] = ()) -> "ObjectInventory":
        """Return the inventory without some names, and then with some members."""
        gone = frozenset(remove)
        return ObjectInventory(members=frozenset(one for one in self.members if one.key not in gone) | frozenset(add))


def owns(uids: AbstractSet[str], live: Mapping[str, Any], manager: str) -> bool:
    """Return whether the inventory, whose UIDs of this name are given, and the live object say that it is ours.

    An object whose creation was begun and never confirmed is ours if our field manager applied it.
    """
    uid = text(mapping(live.get("metadata")).get("uid"))
    return bool(uid) and (uid in uids or ("" in uids and is_applied_by(live, manager)))


def is_applied_by(live: Mapping[str, Any], manager: str) -> bool:
    """Return whether a field manager applied an object (server-side apply)."""
    entries = mapping(live.get("metadata")).get("managedFields")
    return any(
        mapping(entry).get("manager") == manager and mapping(entry).get("operation") == "Apply"
        for entry in (entries if isinstance(entries, list) else ())
    )


# The stored form.


class Shard(Struct, frozen=True, kw_only=True):
    """One ConfigMap of an inventory: its name and its lines."""

    name: str
    lines: str


def shards(name: str, inventory: ObjectInventory) -> tuple[Shard, ...]:
    """Return the ConfigMaps of an inventory, by name. There is always at least one."""
    count = 1 if len(inventory.members) <= _MAX_IN_ONE else _SHARDS
    lines: dict[int, list[str]] = {number: [] for number in range(count)}
    for member in sorted(inventory.members):
        lines[_shard(member.key, count)].append(_line(member))
    return tuple(
        Shard(name=f"{name}-{number:x}of{count}", lines="".join(f"{line}\n" for line in lines[number]))
        for number in range(count)
    )


def _shard(key: ObjectKey, count: int) -> int:
    identity = f"{key.group}/{key.kind}/{key.namespace}/{key.name}"
    return blake2b(identity.encode(), digest_size=1).digest()[0] % count


def _line(member: Member) -> str:
    key = member.key
    return " ".join(word or _ABSENT for word in (key.group, key.kind, key.namespace, key.name, member.uid))


def read_lines(lines: str) -> Iterator[Member]:
    """Read the lines of a shard. Raises ValueError, with the number of the line, for one that is not ours."""
    for number, line in enumerate(lines.splitlines(), 1):
        words = ["" if word == _ABSENT else word for word in line.split(" ")]
        if len(words) != _FIELDS or not words[1] or not words[3]:
            raise ValueError(f"line {number} is not an object: {line[:80]!r}")
        group, kind, namespace, name, uid = words
        yield Member(key=ObjectKey(group=group, kind=kind, namespace=namespace, name=name), uid=uid)


def config_map(name: str, shard: Shard, *, namespace: str, source: str, repository: str = "") -> dict[str, Any]:
    """Return the ConfigMap of a shard. `repository` is empty if it is not known."""
    annotations = {SOURCE: source, **({REPOSITORY: repository} if repository else {})}
    metadata = {"name": shard.name, "namespace": namespace, "labels": {LABEL: name}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_KEY: shard.lines}}


def read_config_maps(bodies: Iterable[Mapping[str, Any]]) -> ObjectInventory:
    """Read the ConfigMaps of an inventory. Raises ValueError if one is damaged."""
    members: set[Member] = set()
    for body in bodies:
        name, data = text(mapping(body.get("metadata")).get("name")), mapping(body.get("data"))
        if _KEY not in data:
            raise ValueError(f"ConfigMap {name} has no data.{_KEY}")
        try:
            members.update(read_lines(text(data[_KEY])))
        except ValueError as error:
            raise ValueError(f"ConfigMap {name}: {error}") from error
    return ObjectInventory(members=frozenset(members))


def inventory_name(cluster: str) -> str:
    """Return the default name of the inventory of a cluster, which is part of names and labels of ConfigMaps."""
    return re.sub(r"[^a-z0-9]+", "-", cluster.lower()).strip("-")[:50].strip("-") or "cluster"
