"""Reading the inventories of a cluster: which objects are ours, by UID, and which are those of other repositories."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.errors import OutsideError, UnsafePlan
from reconciler.kinds.workloads import CONFIG_MAP
from reconciler.kube.client.port import Body, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import annotation, metadata_map, text
from reconciler.plan.live import inventory_record as form
from reconciler.plan.live.inventory_record import ObjectInventory
from reconciler.repo.port import Repository
from reconciler.repo.revision import TreeReference

_SHOWN = 12  # characters of an id


class Place(Struct, frozen=True, kw_only=True):
    """The place of our records on a cluster, and the config repository that they belong to.

    source: `metadata.name` of the config repository. repository: what identifies it; empty if that is not known.
    """

    namespace: str
    name: str
    source: str
    repository: str = ""


class InventoryClaim(Struct, frozen=True, kw_only=True):
    """Another inventory that lists an object, and the UID of the object there (empty: being created)."""

    place: Place
    uid: str

    def __str__(self) -> str:
        return f"config repository {self.place.source} (inventory {self.place.namespace}/{self.place.name})"


Claims = Mapping[ObjectKey, tuple[InventoryClaim, ...]]


class Inventories(Struct, frozen=True, kw_only=True):
    """Our inventory, and what those of other config repositories on the same cluster list."""

    own: ObjectInventory = ObjectInventory()
    claims: Claims = {}


def place_of(config_name: str, cluster: str, namespace: str, repository: str = "") -> Place:
    """Return the place of a config repository's inventory in a cluster."""
    name = form.inventory_name(f"{config_name}-{cluster}")
    return Place(namespace=namespace, name=name, source=config_name, repository=repository)


def identity_of(repository: Repository, tree: TreeReference) -> str:
    """Return the identity of the repository of a tree; empty before the first commit."""
    tip = tree.merged_into.tip if tree.merged_into is not None else tree.tip
    return repository.identity(tip.oid) if tip is not None else ""


def read_inventory(live: LiveCluster, place: Place) -> ObjectInventory:
    """Return the inventory; an empty one if there is none. Raises `OutsideError` if it is damaged or not ours."""
    return read_stored(live, place)[0]


def read_inventories(live: LiveCluster, place: Place) -> Inventories:
    """Return our inventory, and what others in the same namespace list. Raises as `read_inventory`."""
    ours: list[Body] = []
    others: list[Body] = []
    for body in live.list(live.resource(*CONFIG_MAP), namespace=place.namespace, labels=form.LABEL).objects:
        (ours if _label(body) == place.name else others).append(body)
    require_own(place, ours)
    return Inventories(own=_members(place.namespace, place.name, ours), claims=_claims(place, others))


def read_claims(live: LiveCluster, place: Place) -> Claims:
    """Return what the inventories of other config repositories in the same namespace list."""
    labels = f"{form.LABEL},{form.LABEL}!={place.name}"
    return _claims(place, live.list(live.resource(*CONFIG_MAP), namespace=place.namespace, labels=labels).objects)


def _claims(place: Place, others: Iterable[Body]) -> Claims:
    claims: dict[ObjectKey, list[InventoryClaim]] = defaultdict(list)
    for body in others:
        name = _label(body)
        source, repository = annotation(body, form.SOURCE) or name, annotation(body, form.REPOSITORY)
        theirs = Place(namespace=place.namespace, name=name, source=source, repository=repository)
        for member in _members(place.namespace, name, [body]).members:
            claims[member.key].append(InventoryClaim(place=theirs, uid=member.uid))
    return {key: tuple(sorted(rows, key=str)) for key, rows in claims.items()}


def read_stored(live: LiveCluster, place: Place) -> tuple[ObjectInventory, dict[str, Body]]:
    """Return the inventory and the ConfigMaps that hold it, by name."""
    listing = live.list(live.resource(*CONFIG_MAP), namespace=place.namespace, labels=f"{form.LABEL}={place.name}")
    bodies = {body["metadata"]["name"]: body for body in listing.objects}
    require_own(place, bodies.values())
    return _members(place.namespace, place.name, bodies.values()), bodies


def require_own(place: Place, bodies: Iterable[Mapping[str, Any]]) -> None:
    """Raise `UnsafePlan` if another config repository wrote the inventory: each would delete the other's objects."""
    for body in bodies:
        source, repository = annotation(body, form.SOURCE), annotation(body, form.REPOSITORY)
        where = f"the inventory {place.namespace}/{place.name}"
        if source not in ("", place.source):
            raise UnsafePlan(
                f"{where} belongs to the config repository {source}, and this is {place.source}",
                hint="give one of them another metadata.name in reconciler.yaml, or another --inventory-namespace",
            )
        if repository and not place.repository:
            raise UnsafePlan(
                f"{where} belongs to the repository {_short(repository)}, and it is not known whether that is this one",
                hint="the clone is shallow: git fetch --unshallow",
            )
        if repository not in ("", place.repository):
            raise UnsafePlan(
                f"{where} belongs to another repository of the name {place.source}: "
                f"its history begins with {_short(repository)}, that of this one with {_short(place.repository)}",
                hint="give one of them another metadata.name in reconciler.yaml; if the history was rewritten: kubectl "
                f"annotate configmap -n {place.namespace} -l {form.LABEL}={place.name} --overwrite "
                f"{form.REPOSITORY}={place.repository}",
            )


def claimants(claims: Claims, key: ObjectKey, uid: str) -> tuple[InventoryClaim, ...]:
    """Return the other inventories that list the object with this UID, or one of its name that is being created."""
    return tuple(claim for claim in claims.get(key, ()) if claim.uid in ("", uid))


def _members(namespace: str, name: str, bodies: Iterable[Body]) -> ObjectInventory:
    try:
        return form.read_config_maps(bodies)
    except ValueError as error:
        raise OutsideError(
            f"the inventory {namespace}/{name} is damaged: {error}",
            hint="restore the ConfigMap, or remove the line; objects that it does not list are never deleted",
        ) from error


def _short(repository: str) -> str:
    first, colon, folder = repository.partition(":")
    return f"{first[:_SHOWN]}{colon}{folder}"


def _label(body: Body) -> str:
    return text(metadata_map(body, "labels").get(form.LABEL))
