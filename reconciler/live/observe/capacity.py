"""Queues and nodes of the clusters of a repository: live, or as the repository has them."""

from collections.abc import Iterator
from contextlib import ExitStack

from reconciler.index.build import CompiledRevision
from reconciler.index.totals import evaluate_totals
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from reconciler.kinds.workloads import NODE, POD
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.live.observe.reading import KindObjects, OpenCluster, for_each_cluster, open_all, read_kind
from reconciler.live.pages.capacity import ClusterCapacity
from reconciler.live.status.capacity import live_nodes, live_queues, recorded_nodes, recorded_queues
from reconciler.plan.workspace import Workspace
from reconciler.repo.config import Cluster
from reconciler.sizing.devices import Vendor

QUEUES = "queues"
VIEWS = (QUEUES, *(vendor.value for vendor in Vendor))
"""What `status` shows besides jobs."""


def recorded(workspace: Workspace, view: str) -> list[ClusterCapacity]:
    """Return what the repository says: quotas and requests of its sources, nodes of its evidence."""
    index = workspace.compile()
    return [_recorded(index, cluster, view) for cluster in index.clusters]


def _recorded(index: CompiledRevision, cluster: Cluster, view: str) -> ClusterCapacity:
    if view == QUEUES:
        usage = evaluate_totals(index).usage[cluster.name]
        return ClusterCapacity(cluster=cluster.name, source="repository", queues=recorded_queues(usage))
    inventory = index.context.evidence.inventories.get(cluster.name)
    source = f"evidence of {inventory.taken_at}" if inventory is not None else "no evidence"
    return ClusterCapacity(cluster=cluster.name, source=source, nodes=recorded_nodes(inventory, Vendor(view)))


def live(workspace: Workspace, open_cluster: OpenCluster, view: str) -> Iterator[ClusterCapacity]:
    """Yield what the clusters say now. What cannot be read is a failure, and is not guessed."""
    config, chosen = workspace.config, workspace.runtime.options.cluster
    clusters = [cluster for cluster in config.clusters if chosen in ("", cluster.name)]

    def seen(opened: tuple[Cluster, LiveCluster | ClusterError]) -> ClusterCapacity:
        cluster, found = opened
        if isinstance(found, ClusterError):
            return ClusterCapacity(cluster=cluster.name, source="live", failures=(found.message,))
        return _live(cluster.name, found, view)

    with ExitStack() as stack:
        yield from for_each_cluster(seen, open_all(stack, open_cluster, clusters))


def _live(name: str, cluster: LiveCluster, view: str) -> ClusterCapacity:
    kinds = (CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD) if view == QUEUES else (NODE, POD)
    read: list[KindObjects] = [read_kind(cluster, kind) for kind in kinds]
    failures = tuple(one.failure for one in read if one.failure)
    if failures:
        return ClusterCapacity(cluster=name, source="live", failures=failures)
    first, second, *others = (one.objects for one in read)
    if view == QUEUES:
        return ClusterCapacity(cluster=name, source="live", queues=live_queues(first, second, *others))
    return ClusterCapacity(cluster=name, source="live", nodes=live_nodes(first, second, Vendor(view)))
