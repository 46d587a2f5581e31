"""The strategies by name: which node a pod gets of those on which it fits. Less is better; ties go by their order.

To add one, write a class with `tiers` and `score`, and add it to `STRATEGIES`.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from operator import mul
from typing import Any, NamedTuple

from reconciler.placement.space import Ask, Mix, NodeRoom, PlacementStrategy, Slots, Space

_QUANTUM = 30
"""Differences of less than so many thousandths of a GPU do not count: ties go to the fullest node."""
_GUARD = 1.8
"""The part of a group that is kept for pods that can use no other, as a multiple of their share of all requests."""


class Packing(StrEnum):
    """Choices between nodes on which a pod strands equally much."""

    SHARE = "share"  # the smallest free share of the node's GPUs, then the fewest free cores
    ORDER = "order"  # nothing: the first node


class _Plain:
    def tiers(self, space: Space, ask: Ask) -> Iterable[Sequence[int]]:  # noqa: ARG002 - a strategy
        """Yield all groups at once."""
        return (ask.groups,)


class LeastUtilized(_Plain):
    """The lowest mean utilisation; unknown is last, never 0; then the most free GPUs."""

    def score(self, room: NodeRoom, ask: Ask, options: Sequence[Slots]) -> tuple[Any, Slots]:  # noqa: ARG002
        """Return utilisation and the negative of what is left."""
        return (room.use is None, room.use or 0.0, -sum(options[0])), options[0]


class BestFit(_Plain):
    """The least free GPU memory that suffices, then the least that is left of GPUs, then of cores."""

    def score(self, room: NodeRoom, ask: Ask, options: Sequence[Slots]) -> tuple[Any, Slots]:
        """Return what is left."""
        return (room.gpu_memory if ask.gpu_memory else 0, sum(options[0]), room.cpu - ask.cpu), options[0]


class InOrder(_Plain):
    """The first node in order, or with `round_robin` the first after the last one."""

    def score(self, room: NodeRoom, ask: Ask, options: Sequence[Slots]) -> tuple[Any, Slots]:  # noqa: ARG002
        """Return nothing that speaks against it."""
        return (), options[0]


class Waste:
    """Free GPUs that the typical mix of pods cannot use.

    Of the free GPUs of a node a kind of pod cannot use those with less than its share, and none if it does not fit. The
    sum over kinds, weighted by how frequent they are, is what is expected to be stranded.

    by_kind: what remains once as many pods of this kind as possible run there counts as half lost.
    """

    def __init__(self, mix: Mix, *, by_kind: bool = False) -> None:
        self._by_kind = by_kind
        self._wanted = [(ask, count) for ask, count in mix.items() if ask.gpus]
        self._sizes = sorted({(ask.gpus, ask.share) for ask, _ in self._wanted})
        self._cores = sorted({ask.cpu for ask, _ in self._wanted})
        self._weights: dict[int, list[list[int]]] = {}
        self._usable: dict[Slots, list[int]] = {}
        self._lost: dict[tuple[int, int, Slots], int] = {}
        self._kept: dict[int, float] | None = None
        self.total = sum(count for _, count in self._wanted)

    def stranded(self, space: Space) -> float:
        """Return the thousandths of free GPUs that are expected to be unusable."""
        if not self.total:
            return 0.0
        lost = sum(self.lost(room.group, room.cpu, room.slots) for room in space.rooms)
        return lost / self.total + sum(space.free.values())

    def lost(self, group: int, cpu: int, slots: Slots) -> int:
        """Return what the mix cannot use of a node, less all that is free there, which all choices share."""
        key = (group, bisect_right(self._cores, cpu), slots)
        found = self._lost.get(key)
        if found is None:
            weights = self._weights.get(group) or self._weigh(group)
            usable = self._usable.get(slots) or self._use(slots)
            found = self._lost[key] = -sum(map(mul, weights[key[1]], usable))
        return found

    def kept(self, space: Space) -> dict[int, float]:
        """Return the share of all requests that goes to each group from pods that cannot use all of them."""
        if self._kept is None:
            sizes = space.sizes()
            total, kept = sum(ask.amount * count for ask, count in self._wanted), dict[int, float]()
            for ask, count in self._wanted:
                known = [group for group in ask.groups if sizes.get(group)]
                if len(known) < len(sizes):
                    room = sum(sizes[group] for group in known)
                    for group in known:
                        kept[group] = kept.get(group, 0.0) + ask.amount * count * sizes[group] / room / total
            self._kept = kept
        return self._kept

    def _use(self, slots: Slots) -> list[int]:
        """Return how much of the free GPUs each size of pods can use."""
        found = []
        for gpus, share in self._sizes:
            fitting = slots[bisect_right(slots, share - 1) :]
            usable = sum(fitting) if len(fitting) >= gpus else 0
            if usable and self._by_kind:
                filled = len(fitting) // gpus * gpus * share if gpus > 1 else sum(x // share * share for x in fitting)
                usable = (usable + filled) // 2
            found.append(usable)
        self._usable[slots] = found
        return found

    def _weigh(self, group: int) -> list[list[int]]:
        """Return how many pods of each size may use a group, by how many of the amounts of cores are free."""
        columns = {size: index for index, size in enumerate(self._sizes)}
        weights = [[0] * len(columns) for _ in range(len(self._cores) + 1)]
        for ask, count in self._wanted:
            if group in ask.groups:
                column = columns[ask.gpus, ask.share]
                for row in weights[self._cores.index(ask.cpu) + 1 :]:
                    row[column] += count
        self._weights[group] = weights
        return weights


class Fragmentation:
    """The smallest growth of what is stranded (FGD: Weng et al., USENIX ATC 2023).

    Differences below a quantum are ties, which go to the fullest node: random ties lose whole nodes to rare large pods.
    Pods that may use several groups leave alone what others can use alone, as long as there is room elsewhere.
    """

    def __init__(self, waste: Waste, quantum: int = _QUANTUM, packing: Packing = Packing.SHARE) -> None:
        self._waste, self._by_order = waste, packing is Packing.ORDER
        self._step = max(1, quantum * waste.total)

    def tiers(self, space: Space, ask: Ask) -> Iterable[Sequence[int]]:
        """Return first the groups that have more room than pods will need that can use few others."""
        groups = ask.groups
        if len(groups) < 2 or not ask.gpus or not (kept := self._waste.kept(space)):  # noqa: PLR2004
            return (groups,)
        free = _GUARD * sum(space.free.values())
        first = [one for one in groups if space.free.get(one, 0) - ask.amount >= kept.get(one, 0.0) * free]
        return first, [group for group in groups if group not in first]

    def score(self, room: NodeRoom, ask: Ask, options: Sequence[Slots]) -> tuple[Any, Slots]:
        """Return by how much the stranded part grows, and what is left."""
        group, cpu, step, lost = room.group, room.cpu - ask.cpu, self._step, self._waste.lost
        start = step - 2 * lost(group, room.cpu, room.slots)
        found = []
        for slots in options:
            left = (0.0, 0) if self._by_order else (sum(slots) / (1 + len(slots)), cpu)
            found.append((((2 * lost(group, cpu, slots) + start) // (2 * step), left), slots))
        return min(found) if len(found) > 1 else found[0]


class StrategyRow(NamedTuple):
    """One strategy. `make` returns the ways to try, of which the one that places most is taken.

    by_priority: workloads of a higher priority come first. rotates: the next node after the last one is taken.
    """

    make: Callable[[Mix], tuple[PlacementStrategy, ...]]
    title: str
    by_priority: bool = False
    rotates: bool = False


def _fragmentation(mix: Mix) -> tuple[PlacementStrategy, ...]:
    waste = Waste(mix)
    by_kind = Fragmentation(Waste(mix, by_kind=True))
    return (Fragmentation(waste), by_kind, Fragmentation(waste, quantum=40, packing=Packing.ORDER))


STRATEGIES: dict[str, StrategyRow] = {
    "least_utilized": StrategyRow(lambda _: (LeastUtilized(),), "the lowest mean utilisation"),
    "best_fit": StrategyRow(lambda _: (BestFit(),), "the least room that suffices"),
    "priority": StrategyRow(
        lambda _: (LeastUtilized(),), "the highest priority first, with backfill", by_priority=True
    ),
    "round_robin": StrategyRow(lambda _: (InOrder(),), "the next node after the last one", rotates=True),
    "fragmentation": StrategyRow(_fragmentation, "the fewest GPUs that nobody can use afterwards"),
}
"""The strategies, by the names that `spec.placement.strategy` and workloads use."""
