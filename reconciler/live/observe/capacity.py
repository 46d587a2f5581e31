"""Queues and nodes of the clusters of a repository: live, or as the repository has them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.index.totals import evaluate_totals
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from reconciler.kinds.progress import Phase
from reconciler.kinds.workloads import NODE, POD
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.live.observe.reading import KindObjects, OpenCluster, for_each_cluster, open_all, read_kind
from reconciler.live.observe.status import ClusterStatus
from reconciler.live.pages.capacity import ClusterCapacity
from reconciler.live.status.capacity import (
    NodeCapacity,
    gpu_issues,
    live_nodes,
    live_queues,
    node_loads,
    recorded_nodes,
    recorded_queues,
)
from reconciler.live.status.summary import (
    ClusterSummary,
    WorkloadCounts,
    counts_of_phases,
    counts_of_usage,
    summarize_nodes,
)
from reconciler.plan.workspace import Workspace
from reconciler.repo.config import Cluster
from reconciler.sizing.devices import Vendor

QUEUES, NODES = "queues", "nodes"
VIEWS = (QUEUES, NODES, *(vendor.value for vendor in Vendor))
"""The views of `status` besides jobs."""


def recorded(index: CompiledRevision, view: str) -> list[ClusterCapacity]:
    """Return what the repository says: quotas and requests of its sources, nodes of its evidence."""
    return [_recorded(index, cluster, view) for cluster in index.clusters]


def _recorded(index: CompiledRevision, cluster: Cluster, view: str) -> ClusterCapacity:
    if view == QUEUES:
        queues, used = evaluate_totals(index).usage[cluster.name], index.context.evidence.usage.get(cluster.name)
        source = "repository" if used is None else f"repository, and use of {used.observed_at}"
        return ClusterCapacity(cluster=cluster.name, source=source, queues=recorded_queues(queues, used))
    evidence = index.context.evidence
    inventory, used = evidence.inventories.get(cluster.name), evidence.usage.get(cluster.name)
    found = [one for vendor in _vendors(view) for one in recorded_nodes(inventory, vendor, used)]
    taken_at = inventory.taken_at if inventory is not None else ""
    return ClusterCapacity(
        cluster=cluster.name,
        source=f"evidence of {taken_at or 'an unknown time'}" if inventory is not None else "no evidence",
        moment=taken_at or None,
        shows_load=view == NODES,
        nodes=None if inventory is None and view == NODES else _loaded(index, cluster.name, found),
    )


def _vendors(view: str) -> tuple[Vendor, ...]:
    return tuple(Vendor) if view == NODES else (Vendor(view),)


def _loaded(index: CompiledRevision, cluster: str, nodes: Sequence[NodeCapacity]) -> tuple[NodeCapacity, ...]:
    """Return nodes with their utilisation, which only evidence has."""
    evidence = index.context.evidence
    gpu_nodes = evidence.gpu_nodes.get(cluster, ())
    loads = node_loads(evidence.utilisation.get(cluster), gpu_nodes)
    issues = {one.name: gpu_issues(one) for one in gpu_nodes}
    found = (replace(one, load=loads.get(one.name), issues=issues.get(one.name, ())) for one in nodes)
    return tuple(sorted(found, key=lambda node: node.name))


def live(workspace: Workspace, open_cluster: OpenCluster, view: str) -> Iterator[ClusterCapacity]:
    """Yield what the clusters say now. What cannot be read is a failure, and is not guessed."""
    config, chosen = workspace.config, workspace.runtime.options.cluster
    clusters = [cluster for cluster in config.clusters if chosen in ("", cluster.name)]
    index = workspace.compile() if view == NODES else None

    def seen(opened: tuple[Cluster, LiveCluster | ClusterError]) -> ClusterCapacity:
        cluster, found = opened
        if isinstance(found, ClusterError):
            return ClusterCapacity(cluster=cluster.name, source="live", failures=(found.message,))
        return _live(index, cluster.name, found, view)

    with ExitStack() as stack:
        yield from for_each_cluster(seen, open_all(stack, open_cluster, clusters))


def _live(index: CompiledRevision | None, name: str, cluster: LiveCluster, view: str) -> ClusterCapacity:
    kinds = (CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD) if view == QUEUES else (NODE, POD)
    read: list[KindObjects] = [read_kind(cluster, kind) for kind in kinds]
    failures = tuple(one.failure for one in read if one.failure)
    if failures:
        return ClusterCapacity(cluster=name, source="live", failures=failures)
    first, second, *others = (one.objects for one in read)
    if view == QUEUES:
        return ClusterCapacity(cluster=name, source="live", queues=live_queues(first, second, *others))
    nodes = tuple(one for vendor in _vendors(view) for one in live_nodes(first, second, vendor))
    return ClusterCapacity(
        cluster=name,
        source="live",
        nodes=nodes if index is None else _loaded(index, name, nodes),
        shows_load=view == NODES,
    )


def by_load(found: ClusterCapacity) -> ClusterCapacity:
    """Return a cluster with its busiest nodes first; those of which nothing is known come last."""
    nodes = sorted(found.nodes or (), key=lambda node: -node.load.percent if node.load is not None else 1.0)
    return found if found.nodes is None else replace(found, nodes=tuple(nodes))


def summary_of(capacity: ClusterCapacity, jobs: ClusterStatus, moment: str) -> ClusterSummary:
    """Return the sums of a live cluster. What could not be read is not known."""
    counts = counts_of_phases(job.phase for job in jobs.jobs) if not jobs.failures else WorkloadCounts()
    return summarize_nodes(capacity.nodes if not capacity.failures else None, counts, moment)


def recorded_summaries(index: CompiledRevision) -> list[tuple[str, str, ClusterSummary]]:
    """Return the sums of each cluster by its evidence, after its name and where they come from."""
    return [(one.cluster, one.source, _recorded_summary(index, one.cluster, one)) for one in recorded(index, NODES)]


def _recorded_summary(index: CompiledRevision, cluster: str, capacity: ClusterCapacity) -> ClusterSummary:
    """Return the sums of recorded evidence, as old as its oldest part."""
    evidence = index.context.evidence
    usage, runs = evidence.usage.get(cluster), evidence.runs.get(cluster)
    ended = [run.result for run in runs.runs.values()] if runs is not None else None
    counts = counts_of_usage(usage, None if ended is None else ended.count(Phase.SUCCEEDED))
    moments = [one for one in (capacity.moment, usage.observed_at if usage is not None else None) if one is not None]
    return summarize_nodes(capacity.nodes, counts, min(moments, default=None))
