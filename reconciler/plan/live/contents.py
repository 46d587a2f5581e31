"""What is in a namespace on a cluster, whoever it belongs to: a server deletes all of it with the namespace."""

from collections.abc import Collection

from reconciler.kinds.kind import Kinds
from reconciler.kinds.records import RECORDS
from reconciler.kube.client.port import ApiResource, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.plan.live.reading import at_once, is_controlled, key_of


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
