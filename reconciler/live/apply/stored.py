"""The inventory and the records of a cluster: ConfigMaps, read and written with preconditions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from reconciler.errors import OutsideError, StalePlan
from reconciler.kinds.manifests.ownership import LABEL_PATH, is_owned
from reconciler.kinds.workloads import CONFIG_MAP, NAMESPACE
from reconciler.kube.client.port import MANAGER, Body, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import NOT_JSON, mapping, sequence, text
from reconciler.live.apply.results import Record, decode_record, encode_record
from reconciler.plan.live import inventory_record as form
from reconciler.plan.live.inventory import InventoryClaim, Place, read_stored
from reconciler.plan.live.inventory_record import RELEASED, Member, ObjectInventory
from reconciler.plan.live.reading import at_once

_ATTEMPTS = 5
_MAX_RECORDS = 20
_CONFLICT, _NOT_FOUND = 409, 404
_RECORDS = "records"


def change_inventory(
    live: LiveCluster,
    place: Place,
    *,
    begin: Iterable[ObjectKey] = (),
    add: Iterable[Member] = (),
    remove: Iterable[ObjectKey] = (),
) -> ObjectInventory:
    """Add and remove objects, and return the inventory after that.

    begin: objects whose creation begins; those that are listed with a UID stay as they are.

    Only ConfigMaps that change are written; another writer loses nothing.
    """
    begin, add, remove = tuple(begin), tuple(add), tuple(remove)
    for _ in range(_ATTEMPTS):
        before, existing = read_stored(live, place)
        listed = before.uids()
        begun = (Member(key=key) for key in begin if listed.get(key, frozenset()) <= {RELEASED})
        after = before.changed(add=(*add, *begun), remove=remove)
        wanted = form.shards(place.name, after)
        try:
            bodies = [
                form.config_map(
                    place.name, shard, namespace=place.namespace, source=place.source, repository=place.repository
                )
                for shard in wanted
            ]
            for some in (bodies[:1], bodies[1:]):  # the first one may have to create the namespace
                at_once(lambda body: _write(live, body, existing), some)  # noqa: B023 - called at once
            # The new ones are complete, so what the old ones say is said twice.
            for name in existing.keys() - {shard.name for shard in wanted}:
                metadata = existing[name]["metadata"]
                live.delete(_key(place, name), uid=metadata["uid"], propagation="Background")
        except ClusterError as error:
            if error.status != _CONFLICT:
                raise
            continue
        return after
    raise StalePlan(
        f"the inventory {place.namespace}/{place.name} keeps being changed by another program",
        hint="run only one `reconciler apply` at a time",
    )


def forget_elsewhere(live: LiveCluster, claims: Iterable[tuple[ObjectKey, InventoryClaim]]) -> None:
    """Remove objects that were adopted from the inventories of other config repositories."""
    gone: dict[Place, list[ObjectKey]] = {}
    for key, claim in claims:
        gone.setdefault(claim.place, []).append(key)
    for place, keys in gone.items():
        change_inventory(live, place, remove=keys)


def let_go(live: LiveCluster, place: Place, keys: Sequence[ObjectKey]) -> None:
    """Release objects: the inventory decides whose they are, so it comes first."""
    if keys:
        change_inventory(live, place, remove=keys, add=[Member(key=key, uid=RELEASED) for key in keys])
    for key in keys:
        _unmark(live, key)


def _unmark(live: LiveCluster, key: ObjectKey) -> None:
    """Take our label and our field manager off an object; every value stays."""
    for _ in range(_ATTEMPTS):
        body = live.get(key)
        changes = [] if body is None else list(_our_marks(body))
        if body is None or not changes:
            return
        version = {"op": "replace", "path": "/metadata/resourceVersion", "value": body["metadata"]["resourceVersion"]}
        try:
            live.patch(key, [version, *changes])
        except ClusterError as error:
            if error.status != _CONFLICT:
                raise
            continue
        return
    raise StalePlan(f"{key} is released, but keeps its label: it changes too often", hint="run the command again")


def _our_marks(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a JSON patch that remove our marks."""
    if is_owned(body):
        yield {"op": "remove", "path": "/" + "/".join(str(part).replace("/", "~1") for part in LABEL_PATH)}
    entries = sequence(mapping(body["metadata"]).get("managedFields"))
    others = [entry for entry in entries if mapping(entry).get("manager") != MANAGER]
    if len(others) < len(entries):
        # A server takes an empty list for one that was left out, and a list of one empty entry for no managers.
        yield {"op": "replace", "path": "/metadata/managedFields", "value": others or [{}]}


def _write(live: LiveCluster, body: Mapping[str, Any], existing: Mapping[str, Body]) -> None:
    """Create a ConfigMap, or replace one that differs and has not changed since it was read."""
    name = body["metadata"]["name"]
    old = existing.get(name)
    if old is None:
        _create(live, body)
    elif old.get("data") != body["data"] or not _annotations(body).items() <= _annotations(old).items():
        version = {"resourceVersion": old["metadata"]["resourceVersion"]}
        live.replace({**body, "metadata": {**body["metadata"], **version}})


def _annotations(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(body.get("metadata")).get("annotations"))


def _create(live: LiveCluster, body: Mapping[str, Any]) -> None:
    try:
        live.create(body)
    except ClusterError as error:
        if error.status != _NOT_FOUND:
            raise
        live.create(_namespace(body["metadata"]["namespace"]))
        live.create(body)


def make_namespace(live: LiveCluster, place: Place) -> None:
    """Create the namespace of a place if it is missing: the server answers creations in a missing one after a pause.

    Whatever prevents that, the creations in it tell.
    """
    name = place.namespace
    with suppress(ClusterError):
        if live.get(ObjectKey(group=NAMESPACE[0], kind=NAMESPACE[1], namespace="", name=name)) is None:
            live.create(_namespace(name))


def _namespace(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _key(place: Place, name: str) -> ObjectKey:
    return ObjectKey(group=CONFIG_MAP[0], kind=CONFIG_MAP[1], namespace=place.namespace, name=name)


# Records of what was applied.


def read_records(live: LiveCluster, place: Place) -> tuple[Record, ...]:
    """Return the last runs, the oldest first."""
    return _records(live.get(_key(place, _records_name(place))))


def add_record(live: LiveCluster, place: Place, record: Record) -> None:
    """Add a record, or finish the one that began at the same time. The oldest ones are dropped."""
    name = _records_name(place)
    for _ in range(_ATTEMPTS):
        old = live.get(_key(place, name))
        kept = [one for one in _records(old) if (one.started, one.plan) != (record.started, record.plan)]
        lines = b"".join(encode_record(one) for one in [*kept, record][-_MAX_RECORDS:]).decode()
        metadata = {"name": name, "namespace": place.namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_RECORDS: lines}}
        try:
            _write(live, body, {} if old is None else {name: old})
        except ClusterError as error:
            if error.status != _CONFLICT:
                raise
            continue
        return
    raise StalePlan(f"ConfigMap {place.namespace}/{name} keeps being changed by another program")


def _records_name(place: Place) -> str:
    return f"{place.name}-records"


def _records(body: Mapping[str, Any] | None) -> tuple[Record, ...]:
    lines = text(mapping((body or {}).get("data")).get(_RECORDS)).splitlines()
    try:
        return tuple(decode_record(line) for line in lines)
    except NOT_JSON as error:
        raise OutsideError(f"the records of applied plans are damaged: {error}", hint="delete the ConfigMap") from error
