"""`ClusterNodes`: the nodes of a cluster as evidence knows them, and what is free there beside all that runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from reconciler.kinds.terms import FlavorTerms, PodRequest, satisfies
from reconciler.kube.values import plural
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.evidence import FleetHealth
from reconciler.placement.jobs import GPU_MEMORY, HOSTNAME, PodAsk, PodSite, QueuedJob
from reconciler.placement.space import UNMEASURED, WHOLE, Ask, Mix, NodeRoom, Space
from reconciler.queues.domains import runs
from reconciler.repo.evidence.usage import Usage
from reconciler.repo.evidence.utilisation import GpuUtilisation
from reconciler.sizing.inventory import Inventory, Node

_VENDORS = ("nvidia.com", "amd.com")
_RANKS = {CheckStatus.PASS: 0, CheckStatus.SKIP: 0, CheckStatus.UNKNOWN: 1, CheckStatus.WARN: 2}
_MEBI = 1024


class PlacementEvidence(Struct, frozen=True, kw_only=True):
    """The evidence of a cluster. levels: labels of nodes that say where they stand, from the widest."""

    inventory: Inventory
    usage: Usage
    utilisation: GpuUtilisation | None = None
    health: FleetHealth | None = None
    levels: tuple[str, ...] = ()
    goal: int = 80  # percent


class Excluded(NamedTuple):
    """Nodes that take no new work: how many, with how many GPUs, and why."""

    why: str
    nodes: int
    gpus: int


class _NodeClass(NamedTuple):
    """Nodes that no pod can tell apart by labels and taints."""

    sites: tuple[bool, ...]
    product: str
    gpu_memory: int


class ClusterNodes:
    """Nodes with what is free on them, for jobs with certain sites."""

    def __init__(self, known: PlacementEvidence, sites: Iterable[PodSite]) -> None:
        self.known = known
        self._sites = {site: index for index, site in enumerate(dict.fromkeys(sites))}
        self.excluded: list[Excluded] = []
        self._use = utilisation_by_node(known)
        open_nodes = self._open(sorted(known.inventory.nodes, key=lambda node: node.name))
        self.nodes = [node for node in open_nodes if node.gpus]
        self._shapes: dict[_NodeClass, int] = {}
        self._judged: dict[tuple[object, ...], _NodeClass] = {}
        self._keys = sorted({key for site in self._sites for key in _keys(site)})
        self.space = Space(map(self._room, self.nodes))
        self.index = {node.name: index for index, node in enumerate(self.nodes)}
        self._groups: dict[PodSite, tuple[int, ...]] = {}
        self.capacity = sum(self.space.sizes().values())

    @property
    def rack_levels(self) -> tuple[str, ...]:
        """The levels of the topology above nodes."""
        return tuple(level for level in self.known.levels if level != HOSTNAME)

    def ask(self, pods: PodAsk) -> Ask:
        """Return what one of equal pods requests, with the groups of nodes that it may use."""
        groups = self._groups.get(pods.site)
        if groups is None:
            place = self._sites[pods.site]
            groups = tuple(group for shape, group in self._shapes.items() if shape.sites[place])
            self._groups[pods.site] = groups
        return Ask(pods.cpu, pods.memory, pods.gpus, pods.share, groups, pods.site.gpu_memory)

    def place(self, node: int, depth: int) -> tuple[str, ...]:
        """Return the domain of a node at a depth of the topology; empty names where it has no label."""
        labels = self.nodes[node].labels
        return tuple(labels.get(level, "") for level in self.rack_levels[:depth])

    def labels(self, node: int) -> dict[str, str]:
        """Return the labels of a node."""
        return labels_of(self.nodes[node])

    def occupy(self, jobs: Iterable[tuple[QueuedJob, Sequence[Sequence[tuple[str, int]]]]]) -> list[str]:
        """Take what workloads hold that run; return what contradicts the evidence of nodes."""
        lost, over = 0, set[str]()
        for job, places in jobs:
            for pods, nodes in zip(job.pods, places, strict=True):
                ask = Ask(pods.cpu, pods.memory, pods.gpus, pods.share, ())
                for name, count in nodes:
                    if name not in self.index:
                        lost += count * bool(pods.gpus)
                        continue
                    whole = [self.space.occupy(self.index[name], ask) for _ in range(count)]
                    if not all(whole):
                        over.add(name)
        notes = [f"{plural(lost, 'pod')} with GPUs run on nodes that take no new work, or that are not in the evidence"]
        notes = notes if lost else []
        if over:
            notes.append(f"more GPUs are in use than measured on {', '.join(sorted(over)[:3])}")
        return notes

    def _open(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes that take new work, and count the others by reason."""
        found, counts = [], dict[str, list[int]]()
        for node in nodes:
            why = self._exclusion(node)
            if why:
                count = counts.setdefault(why, [0, 0])
                count[0] += 1
                count[1] += node.gpus
            else:
                found.append(node)
        self.excluded = [Excluded(why, *count) for why, count in sorted(counts.items())]
        return found

    def _exclusion(self, node: Node) -> str:
        if node.quarantined:
            return "quarantined"
        if node.unschedulable:
            return "cordoned"
        health = self.known.health
        return "failed health checks" if health is not None and health.status(node.name) is CheckStatus.FAIL else ""

    def _room(self, node: Node) -> NodeRoom:
        health, use = self.known.health, self._use.get(node.name)
        rank = 0 if health is None else _RANKS.get(health.status(node.name), 1)
        cpus, memory = node.allocatable_cpus or node.cpus, node.allocatable_memory_gib
        return NodeRoom(
            node.name,
            self._shapes.setdefault(self._shape(node), len(self._shapes)),
            cpus * WHOLE + WHOLE - 1 if cpus else UNMEASURED,  # these two were rounded down
            (memory + 1) * _MEBI - 1 if memory else UNMEASURED,
            (WHOLE,) * (node.allocatable_gpus or node.gpus),
            (rank, int(use is not None and use > self.known.goal)),
            use,
            node.memory_mib,
        )

    def _shape(self, node: Node) -> _NodeClass:
        labels = labels_of(node)
        key = (node.product, node.memory_mib, node.taints, *(labels.get(each) for each in self._keys))
        vendors = {name.partition("/")[0] for name in node.labels} & {*_VENDORS}
        found = self._judged.get((key, *sorted(vendors)))
        if found is None:
            judged = tuple(_allows(site, node, labels, vendors) for site in self._sites)
            found = self._judged[key, *sorted(vendors)] = _NodeClass(judged, node.product, node.memory_mib)
        return found


def labels_of(node: Node) -> dict[str, str]:
    """Return the labels of a node, with its name and the memory of its GPUs as the labels that say them."""
    memory = {GPU_MEMORY: str(node.memory_mib)} if node.memory_mib else {}
    return {HOSTNAME: node.name, **memory, **node.labels}


def prefers(terms: Sequence[Sequence[object]], labels: Mapping[str, str]) -> int:
    """Return how little a node is preferred: the first of the terms that it satisfies, or their number."""
    for index, term in enumerate(terms):
        if term and all(satisfies(one, labels) for one in term):  # type: ignore[arg-type]
            return index
    return len(terms)


def mix_of(fleet: ClusterNodes, jobs: Iterable[QueuedJob]) -> Mix:
    """Return the pods that are typical of a cluster: those that run, wait, and are new, if a node is large enough."""
    mix: dict[Ask, int] = {}
    largest: dict[int, int] = {}
    for room in fleet.space.rooms:
        largest[room.group] = max(largest.get(room.group, 0), len(room.slots))
    for job in jobs:
        for pods in job.pods:
            if pods.gpus:
                ask = fleet.ask(pods)
                groups = tuple(group for group in ask.groups if largest[group] >= ask.gpus)
                if groups:
                    ask = ask._replace(groups=groups)
                    mix[ask] = mix.get(ask, 0) + pods.pods
    return mix


def utilisation_by_node(known: PlacementEvidence) -> dict[str, float]:
    """Return the mean utilisation of nodes in percent: of GPUs in use as measured, and 0 of those that nobody holds.

    A node with a GPU in use that nobody measured is unknown, and not in the mapping.
    """
    if known.utilisation is None:
        return {}
    measured: dict[str, list[float]] = {}
    counted: dict[str, int] = {}
    for workload in known.utilisation.workloads:
        for pod in workload.pods:
            counted[pod.node] = counted.get(pod.node, 0) + pod.gpus
            measured.setdefault(pod.node, []).extend(one.mean for one in pod.busiest()[: pod.gpus])
    held = known.usage.held_gpus()
    found = {}
    for node in known.inventory.nodes:
        values = measured.get(node.name, [])
        if node.gpus and len(values) >= max(held.get(node.name, 0), counted.get(node.name, 0)):
            found[node.name] = sum(values) / node.gpus
    return found


def _keys(site: PodSite) -> Iterable[str]:
    yield from (key for key, _ in site.selector)
    yield from (one.key for term in site.terms for one in term)


def _allows(site: PodSite, node: Node, labels: Mapping[str, str], vendors: set[str]) -> bool:
    """Return whether a pod may run on a node: product, vendor, labels, taints."""
    if site.product and node.product != site.product:
        return False
    vendor = site.resource.partition("/")[0]
    if vendors and vendor in _VENDORS and vendor not in vendors:
        return False
    pods = PodRequest(selector=site.selector, terms=site.terms, tolerations=site.tolerations)
    return runs(node, labels, FlavorTerms(), pods)
