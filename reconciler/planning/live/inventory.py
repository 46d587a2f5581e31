"""Reading the inventory of a cluster: which objects there are ours, by UID."""

from msgspec import Struct

from reconciler.core.apply import inventory as form
from reconciler.core.apply.inventory import ObjectInventory
from reconciler.core.kinds.workloads import CONFIG_MAP
from reconciler.errors import OutsideError
from reconciler.ports.cluster import Body, LiveCluster


class Place(Struct, frozen=True, kw_only=True):
    """Where a cluster keeps what we know of it: a namespace, the name of the inventory, and the config repository."""

    namespace: str
    name: str
    source: str


def place_of(config_name: str, cluster: str, namespace: str) -> Place:
    """Return where a cluster keeps the inventory of a config repository."""
    return Place(namespace=namespace, name=form.inventory_name(f"{config_name}-{cluster}"), source=config_name)


def read_inventory(live: LiveCluster, place: Place) -> ObjectInventory:
    """Return the inventory; an empty one if there is none. Raises `OutsideError` if it is damaged."""
    return read_stored(live, place)[0]


def read_stored(live: LiveCluster, place: Place) -> tuple[ObjectInventory, dict[str, Body]]:
    """Return the inventory and the ConfigMaps that hold it, by name."""
    listing = live.list(live.resource(*CONFIG_MAP), namespace=place.namespace, labels=f"{form.LABEL}={place.name}")
    bodies = {body["metadata"]["name"]: body for body in listing.objects}
    try:
        return form.read_config_maps(bodies.values()), bodies
    except ValueError as error:
        raise OutsideError(
            f"the inventory {place.namespace}/{place.name} is damaged: {error}",
            hint="restore the ConfigMap, or remove the line; objects that it does not list are never deleted",
        ) from error
