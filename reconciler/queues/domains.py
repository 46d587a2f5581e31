"""The domains of a Topology: how many pods of a template fit, by the measured nodes (Kueue: tas_flavor_snapshot.go).

Whatever runs on the nodes is left out, and so are cordons: a workload that does not fit then never will.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from reconciler.kinds.terms import FlavorTerms, PodRequest, TopologyRequest, satisfies, tolerates
from reconciler.kube.values import MAX_COUNT
from reconciler.queues.flavors import requested_levels
from reconciler.queues.limit_ranges import Values
from reconciler.sizing.devices import WHOLE_GPUS
from reconciler.sizing.inventory import Inventory, Node

_HOSTNAME = "kubernetes.io/hostname"
_TEMPORARY = "node.kubernetes.io/"
_GIB, _MILLI = 1 << 30, Fraction(1, 1000)


class Room(NamedTuple):
    """The slices that fit in the largest domain of `level`, or without one in all, and those that are wanted."""

    level: str
    fits: int
    wanted: int
    size: int


class MissingEvidence(NamedTuple):
    """A gap in the evidence, in words."""

    what: str


def room(
    inventory: Inventory | None, flavor: FlavorTerms, levels: Sequence[str], pods: PodRequest, each: Values
) -> Room | MissingEvidence | None:
    """Return the room for pods, each of which requests `each`; None if they name no level of this Topology."""
    request = pods.topology or TopologyRequest("unconstrained")
    wanted = requested_levels(request, levels)
    if wanted is None or any(level not in levels for level in wanted) or not pods.pods:
        return None
    outer, size = (levels.index(wanted[1]), request.slices[0][1]) if request.slices else (len(levels) - 1, 1)
    start, sizes = levels.index(wanted[0]), _sizes(request, levels)
    if sizes is None or start > outer:
        return Room(wanted[0], 0, pods.pods // size, size)
    if missing := _unmeasured(inventory, (*dict(flavor.labels), *levels)):
        return MissingEvidence(missing)
    nodes = inventory.nodes if inventory is not None else ()
    tree = _Domains(levels, outer, size, sizes)
    found = [*tree.slices(_leaves(nodes, flavor, levels, pods, each), start)]
    if request.mode == "required":
        return Room(wanted[0], max(found, default=0), pods.pods // size, size)
    return Room("", sum(found), pods.pods // size, size)


def _unmeasured(inventory: Inventory | None, keys: Iterable[str]) -> str:
    """Return what the evidence lacks; empty if it has nodes, and each label is on some of them."""
    if inventory is None or not inventory.nodes:
        return "there is no evidence of its nodes"
    labels = {key for node in inventory.nodes for key in _labels(node)}
    missing = [key for key in keys if key not in labels]
    return f"no node in the evidence has the label {missing[0]}" if missing else ""


class _Domains(NamedTuple):
    """Levels, that of the outermost slices, their size, and the sizes of what must not be divided below it."""

    levels: Sequence[str]
    outer: int
    size: int
    sizes: Mapping[int, int]

    def slices(self, leaves: Mapping[tuple[str, ...], int], level: int) -> Iterator[int]:
        """Yield the slices that fit in each domain of a level."""
        pods = dict(leaves)
        for depth in range(len(self.levels) - 1, self.outer, -1):
            pods = _added(pods, depth, self.sizes.get(depth, 1))
        slices = {place: number // self.size for place, number in pods.items()}
        for depth in range(self.outer, level, -1):
            slices = _added(slices, depth, 1)
        yield from slices.values()


def _added(domains: Mapping[tuple[str, ...], int], depth: int, size: int) -> dict[tuple[str, ...], int]:
    """Return what fits one level higher, in multiples of a size."""
    above: dict[tuple[str, ...], int] = {}
    for place, number in domains.items():
        above[place[:depth]] = above.get(place[:depth], 0) + number // size * size
    return above


def _sizes(request: TopologyRequest, levels: Sequence[str]) -> dict[int, int] | None:
    """Return the sizes of inner slices by level, with the levels between them; None if they are not nested."""
    sizes: dict[int, int] = {}
    for (outer, _), (inner, size) in zip(request.slices, request.slices[1:], strict=False):
        first, last = levels.index(outer), levels.index(inner)
        if last <= first:
            return None
        sizes |= dict.fromkeys(range(first + 1, last + 1), size)
    return sizes


def _leaves(
    nodes: Iterable[Node], flavor: FlavorTerms, levels: Sequence[str], pods: PodRequest, each: Values
) -> dict[tuple[str, ...], int]:
    """Return how many pods fit in each domain of the lowest level."""
    leaves: dict[tuple[str, ...], int] = {}
    by_node = levels[-1] == _HOSTNAME
    for node in nodes:
        labels = _labels(node)
        if any(labels.get(key) != value for key, value in flavor.labels) or any(key not in labels for key in levels):
            continue
        place = tuple(labels[key] for key in levels)
        fits = _fits(node, each) if not by_node or runs(node, labels, flavor, pods) else 0
        leaves[place] = min(leaves.get(place, 0) + fits, MAX_COUNT)
    return leaves


def _labels(node: Node) -> dict[str, str]:
    return {_HOSTNAME: node.name, **node.labels}


def runs(node: Node, labels: Mapping[str, str], flavor: FlavorTerms, pods: PodRequest) -> bool:
    """Return whether a node takes pods: Kueue looks at it only if each domain of the lowest level is a node."""
    allowed = (*pods.tolerations, *flavor.tolerations)
    for taint in node.taints:
        lasts = taint.effect in ("NoSchedule", "NoExecute") and not taint.key.startswith(_TEMPORARY)
        if lasts and not any(tolerates(one, (taint.key, taint.value, taint.effect)) for one in allowed):
            return False
    if any(labels.get(key) != value for key, value in pods.selector):
        return False
    if not pods.terms or not all(pods.terms):
        return True  # of a term without `matchExpressions` nothing is known
    return any(all(satisfies(one, labels) for one in term) for term in pods.terms)


def _fits(node: Node, each: Values) -> int:
    """Return how many pods a node takes by its GPUs, and its other resources as far as they are measured."""
    has = {name: Fraction(max(node.gpus, node.allocatable_gpus)) for name in WHOLE_GPUS}
    has |= {name: Fraction(amount) for name, amount in node.slices.items()}
    if cpus := node.allocatable_cpus or node.cpus:
        has["cpu"] = cpus + 1 - _MILLI  # these two were rounded down
    if node.allocatable_memory_gib:
        has["memory"] = Fraction((node.allocatable_memory_gib + 1) * _GIB - 1)
    return min((int(has[name] / amount) for name, amount in each.items() if amount and name in has), default=MAX_COUNT)
