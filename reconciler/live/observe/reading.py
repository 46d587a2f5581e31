"""Read the objects of a live cluster kind by kind: what cannot be read is a failure of that kind alone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from msgspec import Struct

from reconciler.kinds.facts import KindId
from reconciler.kube.client.port import CONCURRENCY, Body, ClusterError, LiveCluster, UnknownKind
from reconciler.repo.config import Cluster

Item = TypeVar("Item")
Result = TypeVar("Result")


class KindObjects(Struct, frozen=True, kw_only=True, eq=False):
    """The objects of one kind, or why they could not be read (`failure`). A kind that is not installed has none."""

    objects: Sequence[Body] = ()
    failure: str = ""


OpenCluster = Callable[[Cluster], LiveCluster]


def open_all(
    stack: ExitStack, open_cluster: OpenCluster, clusters: Iterable[Cluster]
) -> list[tuple[Cluster, LiveCluster | ClusterError]]:
    """Open the clusters, so that a wrong setting fails before anything is written; one may be a failure of its own.

    They are asked at one time: those that do not answer cost as much time as one of them.
    """
    rows = list(clusters)
    opened = [_opened(stack, open_cluster, cluster) for cluster in rows]
    return list(zip(rows, for_each_cluster(_answering, opened), strict=True))


def for_each_cluster(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the result of work on each cluster, in order; it waits for all clusters at one time."""
    if not items:
        return
    with ThreadPoolExecutor(min(len(items), CONCURRENCY), thread_name_prefix="cluster") as pool:
        yield from pool.map(work, items)


def _opened(stack: ExitStack, open_cluster: OpenCluster, cluster: Cluster) -> LiveCluster | ClusterError:
    try:
        return stack.enter_context(open_cluster(cluster))
    except ClusterError as error:
        return error


def _answering(live: LiveCluster | ClusterError) -> LiveCluster | ClusterError:
    """Return a cluster that answers, or why it does not."""
    if isinstance(live, ClusterError):
        return live
    try:
        live.version()
    except ClusterError as error:
        return error
    return live


def read_kind(
    cluster: LiveCluster, kind: KindId, *, labels: str = "", namespace: str = "", metadata_only: bool = False
) -> KindObjects:
    """List the objects of a kind: all of them, or none and the reason."""
    try:
        resource = cluster.resource(*kind)
        scope = namespace if resource.namespaced else ""
        listing = cluster.list(resource, labels=labels, namespace=scope, metadata_only=metadata_only)
        return KindObjects(objects=tuple(listing.objects))
    except UnknownKind:  # a cluster without the kind has none of its objects
        return KindObjects()
    except ClusterError as error:
        return KindObjects(failure=error.message)
