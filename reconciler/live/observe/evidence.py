"""Observe live clusters: nodes, queues in use, finished jobs and definitions become evidence, if they changed."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import OutsideError
from reconciler.index.build import CompiledRevision
from reconciler.index.dependencies import ServedDependency, decode_dependencies
from reconciler.kinds.agentaflow.gpu_node import annotated_devices, common
from reconciler.kinds.health import REPORT
from reconciler.kinds.kai import QUEUE, QUEUE_LABELS
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from reconciler.kinds.manifests.ownership import LABEL, OWNER
from reconciler.kinds.progress import conditions, holds
from reconciler.kinds.workloads import NODE, POD
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey, split_api_version
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import MAX_COUNT, mapping, metadata_text, plural, sequence, text
from reconciler.live.observe.definitions import observe_definitions
from reconciler.live.observe.health import read_health
from reconciler.live.observe.prometheus import MetricsWindow, PrometheusClient, read_waits, read_windows
from reconciler.live.observe.reading import KindObjects, OpenCluster, for_each_cluster, open_all, read_kind
from reconciler.live.observe.runs import observe_runs
from reconciler.live.observe.usage import UsageSources, observe_usage, usage_age
from reconciler.live.observe.utilisation import USE_KINDS, Owners, UseObjects, observe_utilisation
from reconciler.nodehealth.fleet.evidence import FleetHealth, write_health
from reconciler.nodehealth.report import NodeReport
from reconciler.plan.workspace import Workspace
from reconciler.policy.references import utc_date
from reconciler.repo.config import Cluster
from reconciler.repo.config.config import PrometheusSettings
from reconciler.repo.evidence.active_queues import ActiveQueues, write_active_queues
from reconciler.repo.evidence.definitions import ClusterDefinitions, write_definitions
from reconciler.repo.evidence.runs import FinishedRuns, write_runs
from reconciler.repo.evidence.usage import QueueWaits, Usage, write_usage
from reconciler.repo.evidence.utilisation import GpuUtilisation, write_utilisation
from reconciler.sizing.devices import PRODUCT_LABELS, WHOLE_GPUS, is_other_device, product_label
from reconciler.sizing.inventory import Inventory, Node, Taint, same_nodes, write_inventory

# The nodes of a live cluster as evidence: only what decisions use, rounded so that it changes rarely.


Body = Mapping[str, Any]

_LABELS = frozenset(
    {
        *PRODUCT_LABELS,
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "nvidia.com/gpu.count",
        "nvidia.com/mig.strategy",
    }
)
"""Labels that are kept wherever they are; others are kept if they are about topology, or a selector uses them."""

_COUNT_LABELS = ("nvidia.com/gpu.count", "beta.amd.com/gpu.family.AI", "amd.com/gpu.family.AI")

_MEMORY_LABELS = {"nvidia.com/gpu.memory": 1, "amd.com/gpu.vram": 0, "beta.amd.com/gpu.vram": 0}
"""Labels with the memory of one GPU: in MiB, or (0) as a quantity such as `192G`."""

_OF_CONDITIONS = "node.kubernetes.io/"
"""Taints that the node controller sets while a node is cordoned, not ready or short of something."""

_MAX_GPUS = 1024

_GIB, _MIB = 1 << 30, 1 << 20


class ObservedNodes(Struct, frozen=True, kw_only=True):
    """The nodes in the order of their names, and what is odd about them, for people."""

    nodes: tuple[Node, ...]
    notes: tuple[str, ...] = ()


def observe_nodes(bodies: Iterable[Body], labels: Iterable[str] = ()) -> ObservedNodes:
    """Return the nodes; `labels` are the keys that selectors of the repository use."""
    wanted = _LABELS.union(labels)
    ordered = sorted(bodies, key=_name)
    notes = tuple(note for body in ordered for note in _notes(body))
    return ObservedNodes(nodes=tuple(_node(body, wanted) for body in ordered), notes=notes)


def selector_labels(document: Any) -> Iterator[str]:
    """Yield the node labels that selectors, flavors and topologies in a document name, at any depth."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key in {"nodeSelector", "nodeLabels"} and isinstance(value, Mapping):
                yield from (str(label) for label in value)
            elif key == "nodeLabel" and isinstance(value, str):
                yield value
            elif key == "nodeSelectorTerms":
                keys = (text(one.get("key")) for term in _mappings(value) for one in _expressions(term))
                yield from filter(None, keys)
            else:
                yield from selector_labels(value)
    elif isinstance(document, list):
        for item in document:
            yield from selector_labels(item)


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in sequence(value) if isinstance(item, Mapping))


def _expressions(term: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return _mappings(term.get("matchExpressions"))


def _name(body: Body) -> str:
    return text(mapping(body.get("metadata")).get("name"))


def _labels_of(body: Body) -> dict[str, str]:
    labels = mapping(mapping(body.get("metadata")).get("labels"))
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _node(body: Body, wanted: frozenset[str]) -> Node:
    labels = _labels_of(body)
    capacity, allocatable = _resources(body, "capacity"), _resources(body, "allocatable")
    gpus = _gpus(labels, capacity)
    product, memory = common(annotated_devices(mapping(mapping(body.get("metadata")).get("annotations"))))
    healthy = min(_devices(allocatable), gpus) if _has_devices(allocatable) else 0
    return Node(
        name=_name(body),
        labels={key: labels[key] for key in sorted(labels) if key in wanted or _is_topology(key)},
        product=(product_label(labels) or product) if gpus else "",
        gpus=gpus,
        memory_mib=(_gpu_memory(labels) or memory) if gpus else 0,
        cpus=_whole(capacity.get("cpu")),
        unschedulable=mapping(body.get("spec")).get("unschedulable") is True,
        taints=_taints(body),
        allocatable_cpus=_whole(allocatable.get("cpu")),
        allocatable_memory_gib=_whole(allocatable.get("memory"), _GIB),
        allocatable_gpus=healthy,
        slices={name: number for name, one in allocatable.items() if is_other_device(name) and (number := _whole(one))},
    )


def _is_topology(label: str) -> bool:
    return "topology" in label and ".csi." not in label


def _resources(body: Body, field: str) -> Mapping[str, Any]:
    return mapping(mapping(body.get("status")).get(field))


def _whole(value: Any, unit: int = 1) -> int:
    """Return a quantity in whole units, rounded down: a node that restarts reports some bytes more or less."""
    exact = parse_quantity(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    return 0 if exact is None else min(max(int(exact / unit), 0), MAX_COUNT)


def _has_devices(resources: Mapping[str, Any]) -> bool:
    return any(name in resources for name in WHOLE_GPUS)


def _devices(resources: Mapping[str, Any]) -> int:
    return min(sum(_whole(resources.get(name)) for name in WHOLE_GPUS), _MAX_GPUS)


def _gpus(labels: Mapping[str, str], capacity: Mapping[str, Any]) -> int:
    """Return the GPUs that the device plugin offers; those of the labels where no plugin runs yet."""
    return _devices(capacity) if _has_devices(capacity) else _labelled(labels)


def _labelled(labels: Mapping[str, str]) -> int:
    count = next((labels[label] for label in _COUNT_LABELS if labels.get(label, "").isdecimal()), "0")
    return min(int(count[:5]), _MAX_GPUS)


def _gpu_memory(labels: Mapping[str, str]) -> int:
    for label, unit in _MEMORY_LABELS.items():
        if label in labels:
            value = labels[label]
            found = _whole(value) if unit else _whole(value.removesuffix("B"), _MIB)
            if found:
                return found
    return 0


def _taints(body: Body) -> tuple[Taint, ...]:
    taints = (mapping(one) for one in sequence(mapping(body.get("spec")).get("taints")))
    found = {
        Taint(key=text(one.get("key")), value=text(one.get("value")), effect=text(one.get("effect")))
        for one in taints
        if text(one.get("key")) and not text(one.get("key")).startswith(_OF_CONDITIONS)
    }
    return tuple(sorted(found))


def _notes(body: Body) -> Iterator[str]:
    """Yield the contradictions and unknown facts of a node."""
    name, labels = _name(body), _labels_of(body)
    capacity, allocatable = _resources(body, "capacity"), _resources(body, "allocatable")
    ready = conditions(body).get("Ready")
    if ready is None or ready.get("status") != "True":
        yield f"node {name} is not ready, and stays in the evidence until it is deleted"
    gpus, healthy = _gpus(labels, capacity), _devices(allocatable)
    if gpus and not _has_devices(capacity):
        yield f"node {name}: its labels report {plural(gpus, 'GPU')}, but no device plugin offers them"
    elif healthy < gpus:
        yield f"node {name}: {gpus - healthy} of {gpus} GPUs are not allocatable"
    if gpus and not product_label(labels):
        yield f"node {name} has {plural(gpus, 'GPU')} of an unknown product (no label such as {PRODUCT_LABELS[0]})"


# Queues of a live cluster that workloads use, running or waiting ones.


_DONE = ("Succeeded", "Failed")


def observe_queues(
    cluster: str, *, workloads: Iterable[Body] = (), local_queues: Iterable[Body] = (), pods: Iterable[Body] = ()
) -> ActiveQueues:
    """Return the queues of Kueue's workloads that have not finished, and those of pods under KAI."""
    names = {
        (metadata_text(body, "namespace"), metadata_text(body, "name")): text(_spec(body).get("clusterQueue"))
        for body in local_queues
    }
    found: set[ObjectKey] = set()
    for body in workloads:
        if holds(body, "Finished") is not None:
            continue
        local = (metadata_text(body, "namespace"), text(_spec(body).get("queueName")))
        admission = mapping(mapping(body.get("status")).get("admission"))
        found.add(_key(LOCAL_QUEUE, *local))
        found.add(_key(CLUSTER_QUEUE, "", text(admission.get("clusterQueue")) or names.get(local, "")))
    for body in pods:
        labels = mapping(mapping(body.get("metadata")).get("labels"))
        if text(mapping(body.get("status")).get("phase")) not in _DONE:
            found.add(_key(QUEUE, "", next((text(labels[name]) for name in QUEUE_LABELS if name in labels), "")))
    return ActiveQueues(cluster=cluster, queues=tuple(sorted(key for key in found if key.name)))


def _key(kind: tuple[str, str], namespace: str, name: str) -> ObjectKey:
    return ObjectKey(group=kind[0], kind=kind[1], namespace=namespace, name=name)


def _spec(body: Body) -> Mapping[str, Any]:
    return mapping(body.get("spec"))


# Fleets that shrink: an observation that misses many nodes is more often a fault than a decision.


_EVERYDAY_NODES = 2

_EVERYDAY_GPUS = 16
"""Two common nodes may go at any time, whatever the share."""


def shrink(before: Inventory | None, after: Inventory, share: float) -> str:
    """Return what is missing if more than a share of the nodes or of the GPUs is gone; else an empty text."""
    if before is None or not before.nodes:
        return ""
    nodes, gpus = len(before.nodes), sum(node.gpus for node in before.nodes)
    left = len(after.nodes)
    if not left:
        return f"none of {plural(nodes, 'node')} is left"
    lost = nodes - left
    if lost > max(share * nodes, _EVERYDAY_NODES):
        return f"{lost} of {plural(nodes, 'node')} are gone ({lost / nodes:.0%}); at most {share:.0%} may go at once"
    fewer = gpus - sum(node.gpus for node in after.nodes)
    if fewer > max(share * gpus, _EVERYDAY_GPUS):
        return f"{fewer} of {plural(gpus, 'GPU')} are gone ({fewer / gpus:.0%}); at most {share:.0%} may go at once"
    return ""


_OURS = f"{LABEL}={OWNER}"
_USAGE_EVERY = dt.timedelta(minutes=15)


class Observed(Struct, frozen=True, kw_only=True):
    """The observations of one cluster.

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
    workspace: Workspace,
    open_cluster: OpenCluster,
    *,
    now: dt.datetime,
    allow_shrink: bool = False,
    with_utilisation: bool = False,
) -> Iterator[Observed]:
    """Observe every chosen cluster. One that cannot be reached keeps all its evidence.

    with_utilisation: ask for the use of GPUs as well, which is another one at each observation. Without it, what runs
    and waits is observed only if the evidence of it is older than a quarter of an hour.
    """
    index = workspace.compile()

    def look(opened: tuple[Cluster, LiveCluster | ClusterError]) -> Observed:
        cluster, live = opened
        if isinstance(live, ClusterError):
            return _unreachable(index, cluster.name, now, live.message)
        sight = _Sight(index=index, name=cluster.name, live=live, now=now)
        seen = _observe(sight, allow_shrink=allow_shrink, every=dt.timedelta() if with_utilisation else _USAGE_EVERY)
        return _joined(seen, _use(sight)) if with_utilisation else seen

    with ExitStack() as stack:
        yield from for_each_cluster(look, open_all(stack, open_cluster, index.clusters))


def _observe(sight: _Sight, *, allow_shrink: bool, every: dt.timedelta) -> Observed:
    bodies = read_kind(sight.live, NODE)
    nodes = _nodes(sight, bodies, allow_shrink=allow_shrink)
    usage = _usage(sight, bodies, every)
    others = (_queues(sight), _runs(sight), _health(sight, bodies), _definitions(sight), usage)
    return _joined(nodes, *others)


def _joined(nodes: Observed, *others: Observed) -> Observed:
    rows = (nodes, *others)
    return replace(
        nodes,
        files=dict(item for seen in rows for item in seen.files.items()),
        kept=tuple(item for seen in rows for item in seen.kept),
        notes=tuple(item for seen in rows for item in seen.notes),
        reports=tuple(one for seen in rows for one in seen.reports),
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


def _is_old(sight: _Sight, known: Inventory | FleetHealth | ClusterDefinitions | Usage) -> bool:
    """Return whether what is equal gets a new date: after half of the time that evidence is good for."""
    taken_at = known.observed_at if isinstance(known, Usage) else known.taken_at
    limit, taken = sight.index.context.config.evidence_days, utc_date(taken_at)
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
    jobs = [row.id for row in context.kinds.values() if row.life.progress is not None]
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


def _definitions(sight: _Sight) -> Observed:
    """Observe the definitions that the repository may use. Without permission there is no file."""
    context = sight.index.context
    known = context.evidence.definitions.get(sight.name)
    path = _file(known, sight.path("definitions.yaml"))
    found = observe_definitions(sight.live, _groups(sight), known)
    if found.failure:
        if known is None:
            return Observed(cluster=sight.name, notes=(f"definitions are not recorded: {found.failure}",))
        return Observed(cluster=sight.name, kept=(_kept(path, known, sight.now, found.failure),))
    kinds = {key: one for key, one in found.kinds.items() if context.served.is_observed(*key)}
    is_same = known is not None and (known.kinds, known.versions) == (kinds, found.versions)
    if known is not None and is_same and not _is_old(sight, known):
        return Observed(cluster=sight.name)
    made = ClusterDefinitions(cluster=sight.name, taken_at=_timestamp(sight.now), versions=found.versions, kinds=kinds)
    return Observed(cluster=sight.name, files={path: write_definitions(made)})


def _groups(sight: _Sight) -> set[str]:
    """Return the API groups of the known kinds, and those of the objects of the repository."""
    index = sight.index
    used = (each for encoded in index.store.digests for each in decode_dependencies(encoded))
    groups = {each.group for each in used if isinstance(each, ServedDependency)}
    return groups | {row.group for row in index.context.kinds.values()}


def _use(sight: _Sight) -> Observed:
    """Observe how busy the GPUs are, where a Prometheus is configured."""
    context, path = sight.index.context, sight.path("utilisation.yaml")
    known = context.evidence.utilisation.get(sight.name)
    cluster = context.config.cluster(sight.name)
    settings = None if cluster is None else cluster.prometheus
    if settings is None:
        return Observed(cluster=sight.name)
    readings = [read_kind(sight.live, kind) for kind in USE_KINDS]
    failure = _failure(readings)
    window = MetricsWindow(end=sight.now, seconds=settings.window_seconds, interval=settings.interval_seconds)
    try:
        windows = {} if failure else read_windows(PrometheusClient(settings.url), window)
    except OutsideError as error:
        failure, windows = str(error), {}
    if failure:
        return Observed(cluster=sight.name, kept=(_kept(path, known, sight.now, failure),))
    objects = UseObjects(*(reading.objects for reading in readings))
    found = observe_utilisation(
        sight.name,
        objects,
        _owners(sight.live),
        windows,
        taken_at=_timestamp(sight.now),
        seconds=settings.window_seconds,
    )
    return Observed(cluster=sight.name, files={_file(known, path): write_utilisation(found)})


def _usage(sight: _Sight, nodes: KindObjects, every: dt.timedelta) -> Observed:
    """Observe what runs and waits. Evidence that is younger than `every` stays."""
    context, path = sight.index.context, sight.path("usage.yaml")
    known = context.evidence.usage.get(sight.name)
    if known is not None and usage_age(known, sight.now) < every.total_seconds():
        return Observed(cluster=sight.name)
    workloads, aliases = read_kind(sight.live, WORKLOAD), read_kind(sight.live, LOCAL_QUEUE)
    kinds = {"nodes": nodes, "Workloads of Kueue": workloads, "LocalQueues": aliases}
    cluster = context.config.cluster(sight.name)
    waits, failure = _waits(sight, None if cluster is None else cluster.prometheus)
    failures = [f"{name} cannot be read: {one.failure}" for name, one in kinds.items() if one.failure]
    try:
        sources = UsageSources(
            pods=sight.live.list(sight.live.resource(*POD)).objects,
            workloads=workloads.objects,
            local_queues=aliases.objects,
            owners=_owners(sight.live),
            gpu_nodes=frozenset(
                _name(body) for body in nodes.objects if _gpus(_labels_of(body), _resources(body, "capacity"))
            ),
            team_label="" if cluster is None else cluster.prices.owners,
            waits=waits,
            coverage=(*failures, *failure),
        )
        found = observe_usage(sight.name, sources, _timestamp(sight.now))
    except ClusterError as error:
        return Observed(cluster=sight.name, kept=(_kept(path, known, sight.now, error.message),))
    is_same = known is not None and replace(found, observed_at="") == replace(known, observed_at="", document=None)
    if known is not None and is_same and not _is_old(sight, known):
        return Observed(cluster=sight.name)
    return Observed(cluster=sight.name, notes=found.coverage, files={_file(known, path): write_usage(found)})


def _waits(sight: _Sight, settings: PrometheusSettings | None) -> tuple[tuple[QueueWaits, ...], tuple[str, ...]]:
    """Return how long workloads waited, where a Prometheus is configured, or why it is not known."""
    if settings is None:
        return (), ()
    try:
        return read_waits(PrometheusClient(settings.url), sight.now), ()
    except OutsideError as error:
        return (), (f"waiting times cannot be read: {error}",)


def _owners(live: LiveCluster) -> Owners:
    """Return what reads owners: the metadata of a whole kind, when one of it is asked for."""
    seen: dict[tuple[str, str], dict[str, Body]] = {}

    def read(reference: Mapping[str, Any], _: str) -> Body | None:
        version, kind = text(reference.get("apiVersion")), text(reference.get("kind"))
        if (version, kind) not in seen:
            bodies = read_kind(live, (split_api_version(version)[0], kind), metadata_only=True).objects
            seen[version, kind] = {text(mapping(body.get("metadata")).get("uid")): body for body in bodies}
        found = seen[version, kind].get(text(reference.get("uid")))
        return None if found is None else {**found, "apiVersion": version, "kind": kind}

    return read


def _failure(readings: Iterable[KindObjects]) -> str:
    return next((reading.failure for reading in readings if reading.failure), "")


_Dated = Inventory | FleetHealth | ClusterDefinitions | GpuUtilisation
_Evidence = _Dated | ActiveQueues | FinishedRuns | Usage


def _file(known: _Evidence | None, path: str) -> str:
    """Return the file that holds the evidence so far, which people may have named themselves."""
    document = None if known is None else known.document
    return path if document is None else document.source.path


def _kept(path: str, known: _Evidence | None, now: dt.datetime, failure: str) -> tuple[str, str]:
    if known is None:
        return path, f"there is no evidence yet, and none was recorded: {failure}"
    taken_at = known.observed_at if isinstance(known, Usage) else known.taken_at if isinstance(known, _Dated) else ""
    age = _age(taken_at, now) if taken_at else ""
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
        ("definitions.yaml", evidence.definitions.get(name)),
        ("utilisation.yaml", evidence.utilisation.get(name)),
        ("usage.yaml", evidence.usage.get(name)),
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
