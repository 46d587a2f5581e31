"""Read the objects of a live cluster kind by kind: what cannot be read is a failure of that kind alone."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

from msgspec import Struct

from reconciler.core.config import Cluster
from reconciler.core.kinds.facts import KindId
from reconciler.core.objects import ObjectKey
from reconciler.ports.cluster import Body, ClusterError, LiveCluster, UnknownKind


class KindObjects(Struct, frozen=True, kw_only=True, eq=False):
    """The objects of one kind, or why they could not be read (`failure`). A kind that is not installed has none."""

    objects: Sequence[Body] = ()
    failure: str = ""


OpenCluster = Callable[[Cluster], LiveCluster]


def open_all(
    stack: ExitStack, open_cluster: OpenCluster, clusters: Iterable[Cluster]
) -> list[tuple[Cluster, LiveCluster | ClusterError]]:
    """Open the clusters, so that a wrong setting fails before anything is written; one may be a failure of its own."""
    return [(cluster, _opened(stack, open_cluster, cluster)) for cluster in clusters]


def _opened(stack: ExitStack, open_cluster: OpenCluster, cluster: Cluster) -> LiveCluster | ClusterError:
    try:
        live = stack.enter_context(open_cluster(cluster))
        live.version()
    except ClusterError as error:
        return error
    return live


def read_kind(cluster: LiveCluster, kind: KindId, *, labels: str = "", namespace: str = "") -> KindObjects:
    """List the objects of a kind: all of them, or none and the reason."""
    try:
        resource = cluster.resource(*kind)
        scope = namespace if resource.namespaced else ""
        return KindObjects(objects=tuple(cluster.list(resource, labels=labels, namespace=scope).objects))
    except UnknownKind:
        return KindObjects()
    except ClusterError as error:
        return KindObjects(failure=error.message)


def read_object(cluster: LiveCluster, key: ObjectKey) -> KindObjects:
    """Read one object; none if it does not exist or its kind is not installed."""
    try:
        found = cluster.get(key)
    except UnknownKind:
        return KindObjects()
    except ClusterError as error:
        return KindObjects(failure=error.message)
    return KindObjects(objects=() if found is None else (found,))
