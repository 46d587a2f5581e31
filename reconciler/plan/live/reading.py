"""Reading what we own on a live cluster: identities of everything, whole objects only where they are needed."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from reconciler.errors import UnsafePlan
from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.ownership import LABEL, OWNER
from reconciler.kinds.records import RECORDS
from reconciler.kube.client.port import CONCURRENCY, MANAGER, ApiResource, Body, ClusterError, LiveCluster, UnknownKind
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import mapping, sequence, text
from reconciler.plan import LiveVersion
from reconciler.plan.live.inventory import Inventories, Place, read_inventories
from reconciler.plan.live.inventory_record import RELEASED, ObjectInventory, owns

GroupKind = tuple[str, str]
FEW = 50
"""Objects of one kind that are asked for one by one; more are listed."""

_SELECTOR = f"{LABEL}={OWNER}"
_OTHERS = f"{LABEL}!={OWNER}"

Item = TypeVar("Item")
Result = TypeVar("Result")


class LiveIdentity(Struct, frozen=True, kw_only=True):
    """An object of ours that exists: its key, its version, and whether it is being deleted."""

    key: ObjectKey
    version: LiveVersion
    is_terminating: bool


class Owned(Struct, frozen=True, kw_only=True):
    """The objects that we own on a cluster, by path; `failed` are the kinds that could not be read, with the reason.

    taken: the metadata of objects that are not ours and have a name of our inventory, by path.
    """

    identities: Mapping[str, LiveIdentity]
    failed: Mapping[GroupKind, str]
    taken: Mapping[str, Body] = {}


class ClusterReading(Struct, frozen=True, kw_only=True, eq=False):
    """The state of one cluster before it is asked about single objects.

    version: of the server. failure: why the inventories are not known: they cannot be read, or ours is another's.
    """

    version: str
    owned: Owned
    inventories: Inventories = Inventories()
    failure: ClusterError | UnsafePlan | None = None


class ReadingScope(Struct, frozen=True, kw_only=True, eq=False):
    """The kinds to read of one cluster: those of its desired objects, and those of its rendered files, by token."""

    place: Place
    kinds: frozenset[GroupKind]
    tokens: frozenset[str]


def read_clusters(
    clusters: Mapping[str, LiveCluster], kinds: Kinds, wanted: Mapping[str, ReadingScope]
) -> dict[str, ClusterReading]:
    """Read what we own on clusters, by name, all of them at one time."""
    rows = at_once(lambda name: _read_cluster(clusters[name], kinds, name, wanted[name]), clusters)
    return dict(zip(clusters, rows, strict=True))


def _read_cluster(cluster: LiveCluster, kinds: Kinds, name: str, wanted: ReadingScope) -> ClusterReading:
    cluster.discover()  # a server that is not there fails here, once
    inventories, failure = _read_inventories(cluster, wanted.place)
    needed = wanted.kinds | {(one.key.group, one.key.kind) for one in inventories.own.members}
    return ClusterReading(
        version=cluster.version(),
        owned=read_owned(cluster, kinds, name, needed, wanted.tokens, inventories.own),
        inventories=inventories,
        failure=failure,
    )


def _read_inventories(cluster: LiveCluster, place: Place) -> tuple[Inventories, ClusterError | UnsafePlan | None]:
    try:
        return read_inventories(cluster, place), None
    except (ClusterError, UnsafePlan) as error:
        return Inventories(), error


def at_once(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Do work that waits for the server, for several items at one time; the results are in order."""
    rows = list(items)
    if len(rows) <= 1:
        return [work(row) for row in rows]
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        return list(pool.map(work, rows))


def read_owned(  # noqa: PLR0917
    cluster: LiveCluster,
    kinds: Kinds,
    name: str,
    wanted: Collection[GroupKind],
    tokens: AbstractSet[str],
    inventory: ObjectInventory,
) -> Owned:
    """List the identities of our objects: of the wanted kinds, and of those whose rendered files have these names.

    Ours is what the inventory lists by its UID, whatever its labels say by now, and what has our label besides. Objects
    that a controller made from ours, with our label, are its own, and released ones are those of others.
    """
    failed: dict[GroupKind, str] = {}
    resources: dict[GroupKind, ApiResource] = {}
    for group, kind in sorted(wanted):
        try:
            resources[group, kind] = cluster.resource(group, kind)
        except UnknownKind:
            continue  # no object of it exists
        except ClusterError as error:
            failed[group, kind] = error.message
    for row in cluster.discover().resources:
        if (row.group, row.kind) not in resources and {"list", "delete"} <= row.verbs and _token(kinds, row) in tokens:
            resources[row.group, row.kind] = row
    uids: dict[GroupKind, _Uids] = {one: {} for one in resources}
    for key, known in inventory.uids().items():
        if (key.group, key.kind) in uids:
            uids[key.group, key.kind][key] = known
    identities: dict[str, LiveIdentity] = {}
    taken: dict[str, Body] = {}
    rows = at_once(lambda one: _identities(cluster, resources[one], uids[one]), resources)
    for one, listed in zip(resources, rows, strict=True):
        if isinstance(listed, ClusterError):
            failed[one] = listed.message
            continue
        ours, theirs = listed
        identities.update((kinds.manifest_path(name, identity.key), identity) for identity in ours)
        taken.update((kinds.manifest_path(name, key), body) for key, body in theirs.items())
    return Owned(identities=identities, failed=failed, taken=taken)


def kind_token(path: str) -> str:
    """Return the part of a rendered path that tells the kind."""
    return path.rpartition("/")[2].partition("-")[0]


def read_now(
    cluster: LiveCluster, keys: Collection[ObjectKey]
) -> Iterator[tuple[ObjectKey, Body | ClusterError | None]]:
    """Yield objects as they are now; None for those that do not exist, and why one could not be read.

    Many of one kind are listed by our label, page by page; those that the list lacks are asked for.
    """
    left = dict.fromkeys(keys)
    counts = Counter((key.group, key.kind) for key in left)
    for (group, kind), count in counts.items():
        if count > FEW:
            for key, body in _listed(cluster, group, kind):
                if key in left:
                    del left[key]
                    yield key, body
    yield from zip(left, at_once(lambda key: _read(cluster, key), left), strict=True)


def _listed(cluster: LiveCluster, group: str, kind: str) -> Iterator[tuple[ObjectKey, Body]]:
    """Yield our objects of a kind, until they cannot be listed."""
    try:
        resource = cluster.resource(group, kind)
        for body in cluster.list(resource, labels=_SELECTOR).objects:
            yield key_of(resource, body), body
    except ClusterError:
        return  # those that are missing are read one by one


def _read(cluster: LiveCluster, key: ObjectKey) -> Body | ClusterError | None:
    try:
        return cluster.get(key)
    except UnknownKind:
        return None
    except ClusterError as error:
        return error


class BodyReader:
    """Reads whole objects. Many of one kind are listed once by our label, and kept encoded until they are asked for."""

    def __init__(self, cluster: LiveCluster, wanted: Mapping[str, LiveIdentity]) -> None:
        self._cluster = cluster
        self._paths = {one.key: path for path, one in wanted.items()}
        self._counts = Counter((key.group, key.kind) for key in self._paths)
        self._listed: dict[tuple[str, str, str], dict[str, bytes]] = {}

    def read(self, wanted: Mapping[str, ObjectKey], versions: Mapping[str, str]) -> dict[str, Body]:
        """Return objects by path, in the API version that is asked for; those that are gone by now are left out."""
        found: dict[str, Body] = {}
        few: list[tuple[str, ObjectKey]] = []
        for path, key in wanted.items():
            is_many = self._counts[key.group, key.kind] > FEW
            raw = self._kind(key.group, key.kind, versions.get(path, "")).pop(path, None) if is_many else None
            if raw is not None:
                found[path] = msgspec.json.decode(raw)
            else:
                few.append((path, key))
        bodies = at_once(lambda one: self._cluster.get(one[1], version=versions.get(one[0], "")), few)
        found.update((path, body) for (path, _), body in zip(few, bodies, strict=True) if body is not None)
        return found

    def _kind(self, group: str, kind: str, version: str) -> dict[str, bytes]:
        listed = self._listed.get((group, kind, version))
        if listed is None:
            resource = self._cluster.resource(group, kind, version)
            bodies = self._cluster.list(resource, labels=_SELECTOR).objects
            paths = ((self._paths.get(key_of(resource, body)), body) for body in bodies)
            listed = {path: msgspec.json.encode(body) for path, body in paths if path is not None}
            self._listed[group, kind, version] = listed
        return listed


_Uids = dict[ObjectKey, frozenset[str]]


def _identities(
    cluster: LiveCluster, resource: ApiResource, uids: _Uids
) -> tuple[list[LiveIdentity], dict[ObjectKey, Body]] | ClusterError:
    """Return our objects of a kind, and the others with a name of ours. uids: those of the inventory, by object."""

    def is_listed(body: Body) -> bool:
        return owns(uids.get(key_of(resource, body), frozenset()), body, MANAGER)

    def is_ours(body: Body) -> bool:
        is_released = RELEASED in uids.get(key_of(resource, body), ())
        return is_listed(body) or not (is_released or is_controlled(body))

    try:
        labelled = cluster.list(resource, labels=_SELECTOR, metadata_only=True).objects
        found = [_identity(resource, body) for body in labelled if is_ours(body)]
        others = list(_without_label(cluster, resource, uids.keys() - {one.key for one in found}))
    except ClusterError as error:
        return error
    found += [_identity(resource, body) for body in others if is_listed(body)]
    return found, {key_of(resource, body): body for body in others if not is_listed(body)}


def _without_label(cluster: LiveCluster, resource: ApiResource, keys: AbstractSet[ObjectKey]) -> Iterator[Body]:
    """Yield those objects of a kind that exist, although a list by our label lacks them. Many are listed."""
    if len(keys) > FEW:
        listed = cluster.list(resource, labels=_OTHERS, metadata_only=True).objects
        yield from (body for body in listed if key_of(resource, body) in keys)
    else:
        yield from (body for key in keys if (body := cluster.get(key)) is not None)


def _identity(resource: ApiResource, body: Mapping[str, Any]) -> LiveIdentity:
    metadata = body["metadata"]
    return LiveIdentity(
        key=key_of(resource, body),
        version=version_of(body),
        is_terminating="deletionTimestamp" in metadata,
    )


def version_of(body: Mapping[str, Any]) -> LiveVersion:
    """Return the version of a live object."""
    metadata = body["metadata"]
    return LiveVersion(uid=metadata["uid"], resource_version=metadata["resourceVersion"])


def key_of(resource: ApiResource, body: Mapping[str, Any]) -> ObjectKey:
    """Return the identity of a listed object, which does not say its kind."""
    metadata = body["metadata"]
    namespace = text(metadata.get("namespace"))
    return ObjectKey(group=resource.group, kind=resource.kind, namespace=namespace, name=metadata["name"])


def is_controlled(body: Mapping[str, Any]) -> bool:
    """Return whether a controller made an object from another one."""
    owners = sequence(mapping(body.get("metadata")).get("ownerReferences"))
    return any(mapping(owner).get("controller") is True for owner in owners)


def _token(kinds: Kinds, row: ApiResource) -> str:
    key = ObjectKey(group=row.group, kind=row.kind, namespace="", name="name")
    return kind_token(kinds.manifest_path("cluster", key))


def contents_of(
    cluster: LiveCluster, kinds: Kinds, namespace: str, *, without: Collection[ObjectKey]
) -> tuple[str, ...] | None:
    """Return the names of the objects in a namespace that no other object there made; None if that is not known.

    Neither those that every namespace has, nor the records of what happened there. without: what is known already.
    """
    newest: dict[tuple[str, str], ApiResource] = {}
    for row in cluster.discover().resources:
        if row.namespaced and {"list", "delete"} <= row.verbs and (row.group, row.kind) not in RECORDS:
            newest.setdefault((row.group, row.kind), row)

    def read(row: ApiResource) -> list[str] | None:
        existing = kinds.find(row.group, row.kind).naming.existing
        try:
            found = cluster.list(row, namespace=namespace, metadata_only=True).objects
            keys = [key_of(row, body) for body in found if not is_controlled(body)]
        except ClusterError:
            return None
        return [str(key) for key in keys if key not in without and key.name not in existing]

    rows = at_once(read, newest.values())
    told = [name for names in rows if names is not None for name in names]
    return None if None in rows else tuple(sorted(told))
