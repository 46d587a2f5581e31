"""Observe live clusters: nodes, queues in use and finished jobs become evidence files, if they changed."""

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.app.observe.reading import KindObjects, OpenCluster, for_each_cluster, open_all, read_kind
from reconciler.app.workspace import Workspace
from reconciler.core.config import Cluster
from reconciler.core.evidence.active_queues import ActiveQueues, write_active_queues
from reconciler.core.evidence.inventory import Inventory, same_nodes, write_inventory
from reconciler.core.evidence.runs import FinishedRuns, write_runs
from reconciler.core.health.fleet.evidence import FleetHealth, write_health
from reconciler.core.health.report import NodeReport
from reconciler.core.kinds.health import REPORT
from reconciler.core.kinds.kai import QUEUE_LABELS
from reconciler.core.kinds.kueue import LOCAL_QUEUE, WORKLOAD
from reconciler.core.kinds.workloads import NODE, POD
from reconciler.core.manifests.ownership import LABEL, OWNER
from reconciler.core.objects import ObjectKey
from reconciler.core.observe.nodes import observe_nodes, selector_labels
from reconciler.core.observe.queues import observe_queues
from reconciler.core.observe.runs import observe_runs
from reconciler.core.observe.shrink import shrink
from reconciler.core.policy.references import utc_date
from reconciler.core.values import plural
from reconciler.index.build import CompiledRevision
from reconciler.ports.cluster import ClusterError, LiveCluster

_OURS = f"{LABEL}={OWNER}"


class Observed(Struct, frozen=True, kw_only=True):
    """What was seen of one cluster.

    files: evidence that changed, by path. kept: files that stay although they could not be read again, each with the
    reason. notes: what is odd about the cluster. refused: why the nodes were not written. summary: the fleet in words.
    reports: those of the agents.
    """

    cluster: str
    files: dict[str, bytes] = field(default_factory=dict)
    kept: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    refused: str = ""
    summary: str = ""
    reports: tuple[NodeReport, ...] = ()


class _Sight(Struct, frozen=True, kw_only=True, eq=False):
    """One cluster that is being observed, and what the repository says about it."""

    index: CompiledRevision
    name: str
    live: LiveCluster
    now: dt.datetime

    def path(self, file: str) -> str:
        return f"{self.index.context.config.evidence}/{self.name}/{file}"


def observe(
    workspace: Workspace, open_cluster: OpenCluster, *, now: dt.datetime, allow_shrink: bool = False
) -> Iterator[Observed]:
    """Observe every chosen cluster. One that cannot be reached keeps all its evidence."""
    index = workspace.compile()

    def seen(opened: tuple[Cluster, LiveCluster | ClusterError]) -> Observed:
        cluster, live = opened
        if isinstance(live, ClusterError):
            return _unreachable(index, cluster.name, now, live.message)
        sight = _Sight(index=index, name=cluster.name, live=live, now=now)
        return _observe(sight, allow_shrink=allow_shrink)

    with ExitStack() as stack:
        yield from for_each_cluster(seen, open_all(stack, open_cluster, index.clusters))


def _observe(sight: _Sight, *, allow_shrink: bool) -> Observed:
    bodies = read_kind(sight.live, NODE)
    nodes = _nodes(sight, bodies, allow_shrink=allow_shrink)
    others = (_queues(sight), _runs(sight), _health(sight, bodies))
    return replace(
        nodes,
        files=dict(item for seen in (nodes, *others) for item in seen.files.items()),
        kept=tuple(item for seen in (nodes, *others) for item in seen.kept),
        notes=tuple(item for seen in (nodes, *others) for item in seen.notes),
        reports=tuple(one for seen in others for one in seen.reports),
    )


def _nodes(sight: _Sight, reading: KindObjects, *, allow_shrink: bool) -> Observed:
    evidence, path = sight.index.context.evidence, sight.path("nodes.yaml")
    known = evidence.measured.get(sight.name)
    if reading.failure:
        return Observed(cluster=sight.name, kept=(_kept(path, known, sight.now, reading.failure),))
    seen = observe_nodes(reading.objects, _labels(sight.index, known))
    found = Inventory(cluster=sight.name, taken_at=_timestamp(sight.now), nodes=seen.nodes)
    result = Observed(cluster=sight.name, notes=seen.notes, summary=_summary(found))
    missing = shrink(known, found, sight.index.context.config.evidence_shrink)
    if missing and not allow_shrink:
        return replace(result, refused=missing, kept=(_kept(path, known, sight.now, missing),))
    if known is not None and same_nodes(known, found) and not _is_old(sight, known):
        return result
    return replace(result, files={_file(known, path): write_inventory(found)})


def _labels(index: CompiledRevision, known: Inventory | None) -> set[str]:
    """Return the node labels that the repository uses: in definitions, and in the evidence so far."""
    documents = [one.document.data for group in index.context.definitions.values() for one in group.values()]
    used = {label for document in documents for label in selector_labels(document)}
    return used.union(*(node.labels for node in known.nodes)) if known is not None else used


def _is_old(sight: _Sight, known: Inventory | FleetHealth) -> bool:
    """Return whether what is equal gets a new date: after half of the time that evidence is good for."""
    limit, taken = sight.index.context.config.evidence_days, utc_date(known.taken_at)
    return limit is not None and (taken is None or 2 * (sight.now.date() - taken).days >= limit)


def _queues(sight: _Sight) -> Observed:
    path = sight.path("queues.yaml")
    known = sight.index.context.evidence.queues.get(sight.name)
    workloads, aliases = read_kind(sight.live, WORKLOAD), read_kind(sight.live, LOCAL_QUEUE)
    readings = [workloads, aliases, *(read_kind(sight.live, POD, labels=label) for label in QUEUE_LABELS)]
    if failure := _failure(readings):
        return Observed(cluster=sight.name, kept=(_kept(path, known, sight.now, failure),))
    found = observe_queues(
        sight.name,
        workloads=workloads.objects,
        local_queues=aliases.objects,
        pods=[body for reading in readings[2:] for body in reading.objects],
    )
    if known is not None and known.queues == found.queues:
        return Observed(cluster=sight.name)
    return Observed(cluster=sight.name, files={_file(known, path): write_active_queues(found)})


def _runs(sight: _Sight) -> Observed:
    """Observe the jobs that we rendered. Of a kind that cannot be listed the records stay."""
    context, path = sight.index.context, sight.path("runs.yaml")
    known = context.evidence.runs.get(sight.name)
    jobs = [row.id for row in context.kinds.values() if row.progress is not None]
    readings = {kind: read_kind(sight.live, kind, labels=_OURS) for kind in jobs}
    rendered = sight.index.revision.files.rendered

    def is_rendered(key: ObjectKey) -> bool:
        return context.kinds.manifest_path(sight.name, key) in rendered

    found = observe_runs(
        context.kinds,
        known or FinishedRuns(cluster=sight.name),
        [body for reading in readings.values() for body in reading.objects],
        is_rendered=is_rendered,
        unread=[kind for kind, reading in readings.items() if reading.failure],
    )
    failure = _failure(readings.values())
    kept = (_kept(path, known, sight.now, failure),) if failure else ()
    if known is None and failure:
        return Observed(cluster=sight.name, kept=kept)
    content = write_runs(found)
    is_same = known is not None and write_runs(replace(known, document=None)) == content
    return Observed(cluster=sight.name, kept=kept, files={} if is_same else {_file(known, path): content})


def _health(sight: _Sight, nodes: KindObjects) -> Observed:
    """Observe the reports of the agents. Where none ever reported there is no file."""
    from reconciler.app.observe.health import read_health  # noqa: PLC0415 - most clusters have no agents

    known = sight.index.context.evidence.health.get(sight.name)
    path = _file(known, sight.path("health.yaml"))
    reading = read_kind(sight.live, REPORT)
    if failure := _failure((reading, nodes)):
        kept = () if known is None else (_kept(path, known, sight.now, failure),)
        return Observed(cluster=sight.name, kept=kept)
    if not reading.objects and known is None:
        return Observed(cluster=sight.name)
    found, reports, notes = read_health(sight.index, sight.name, reading.objects, sight.now)
    result = Observed(cluster=sight.name, notes=notes, reports=reports)
    if known is not None and known.nodes == found.nodes and not _is_old(sight, known):
        return result
    return replace(result, files={path: write_health(found)})


def _failure(readings: Iterable[KindObjects]) -> str:
    return next((reading.failure for reading in readings if reading.failure), "")


_Evidence = Inventory | ActiveQueues | FinishedRuns | FleetHealth


def _file(known: _Evidence | None, path: str) -> str:
    """Return the file that holds the evidence so far, which people may have named themselves."""
    document = None if known is None else known.document
    return path if document is None else document.source.path


def _kept(path: str, known: _Evidence | None, now: dt.datetime, failure: str) -> tuple[str, str]:
    if known is None:
        return path, f"there is no evidence yet, and none was recorded: {failure}"
    age = _age(known.taken_at, now) if isinstance(known, Inventory | FleetHealth) else ""
    return _file(known, path), f"stays as it is{age}: {failure}"


def _age(taken_at: str, now: dt.datetime) -> str:
    taken = utc_date(taken_at)
    return "" if taken is None else f", {plural((now.date() - taken).days, 'day')} old"


def _unreachable(index: CompiledRevision, name: str, now: dt.datetime, failure: str) -> Observed:
    evidence, folder = index.context.evidence, f"{index.context.config.evidence}/{name}"
    known: list[tuple[str, _Evidence | None]] = [
        ("nodes.yaml", evidence.measured.get(name)),
        ("queues.yaml", evidence.queues.get(name)),
        ("runs.yaml", evidence.runs.get(name)),
        ("health.yaml", evidence.health.get(name)),
    ]
    kept = [
        _kept(f"{folder}/{file}", one, now, failure) for file, one in known if one is not None or file == "nodes.yaml"
    ]
    return Observed(cluster=name, kept=tuple(kept))


def _summary(inventory: Inventory) -> str:
    products = ", ".join(f"{count:,} {product}" for product, count in sorted(inventory.gpus_by_product.items()))
    return f"{plural(len(inventory.nodes), 'node')}, {products or 'no GPUs'}"


def _timestamp(now: dt.datetime) -> str:
    return now.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
