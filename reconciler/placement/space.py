"""`Space`: the free part of nodes, and where a pod goes. One kernel for plans and for the benchmark.

Nodes that no pod can tell apart are a group. What a strategy thinks of a node depends on its group and on what is free
there, and is computed once for each. Pods of one size keep a heap of the nodes of a group; only nodes that have changed
since they last looked are scored again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Protocol

WHOLE = 1000
"""A whole GPU; shares are thousandths of it."""

UNMEASURED = 1 << 60
"""Of a resource that the evidence lacks: it excludes nothing."""

Slots = tuple[int, ...]
"""The free part of each GPU of a node, in thousandths, ascending."""


class NodeRoom(NamedTuple):
    """A node, and what is free there: thousandths of cores, MiB, GPUs.

    group: of nodes that no pod can tell apart. rank: nodes of a lower rank are taken first, whatever the strategy.
    use: its mean utilisation in percent; None: unknown. gpu_memory: MiB of one of its GPUs.
    """

    name: str
    group: int
    cpu: int
    memory: int
    slots: Slots
    rank: tuple[int, ...] = ()
    use: float | None = None
    gpu_memory: int = 0


class Ask(NamedTuple):
    """The requests of one pod: thousandths of cores, MiB, GPUs, and of each of them a share; and the groups it may use.

    gpu_memory: MiB that a GPU must have; it is part of `groups` already.
    """

    cpu: int
    memory: int
    gpus: int
    share: int
    groups: tuple[int, ...]
    gpu_memory: int = 0

    @property
    def amount(self) -> int:
        """Thousandths of GPUs."""
        return self.gpus * self.share


class NodeChoice(NamedTuple):
    """A node for a pod: what the strategy thinks of it (less is better), and what is free of its GPUs afterwards."""

    score: Any
    node: int
    slots: Slots


class PlacementStrategy(Protocol):
    """Decides between nodes on which a pod fits."""

    def tiers(self, space: "Space", ask: Ask) -> Iterable[Sequence[int]]:
        """Yield groups of nodes, those to try first before the others."""

    def score(self, room: NodeRoom, ask: Ask, options: Sequence[Slots]) -> tuple[Any, Slots]:
        """Return what speaks against a node, and the best of the options for its GPUs."""


class _Heap:
    __slots__ = ("entries", "seen")

    def __init__(self) -> None:
        self.entries: list[tuple[Any, int, int, Slots]] = []
        self.seen = -1  # how much of the log of its group it knows


class Space:
    """Nodes in order, and what is free on them."""

    def __init__(self, rooms: Iterable[NodeRoom]) -> None:
        self.rooms = list(rooms)
        self.free: dict[int, int] = {}  # thousandths of GPUs by group
        self._members: dict[int, list[int]] = {}
        for index, room in enumerate(self.rooms):
            self._members.setdefault(room.group, []).append(index)
            self.free[room.group] = self.free.get(room.group, 0) + sum(room.slots)
        self._versions = [0] * len(self.rooms)
        self._logs: dict[int, list[int]] = {group: [] for group in self._members}
        self._heaps: dict[tuple[Any, ...], _Heap] = {}
        self.cursor = -1  # the node that the last pod was placed on

    def copy(self) -> "Space":
        """Return a space in which the same is free."""
        other = Space(self.rooms)
        other.cursor = self.cursor
        return other

    def sizes(self) -> dict[int, int]:
        """Return the thousandths of GPUs of each group that has any, free or not."""
        sizes = {group: sum(WHOLE * len(self.rooms[node].slots) for node in nodes)
                 for group, nodes in self._members.items()}  # fmt: skip
        return {group: size for group, size in sizes.items() if size}

    def find(self, strategy: PlacementStrategy, ask: Ask) -> NodeChoice | None:
        """Return the node that a strategy prefers for a pod; None if it fits on none."""
        for groups in strategy.tiers(self, ask):
            found = [top for group in groups if group in self._members and (top := self._top(strategy, ask, group))]
            if found:
                score, node, _, slots = min(found)
                return NodeChoice(score, node, slots)
        return None

    def best_of(self, strategy: PlacementStrategy, ask: Ask, nodes: Iterable[int]) -> NodeChoice | None:
        """Return the node among some that a strategy prefers."""
        entries = [entry for node in nodes if (entry := self._entry(strategy, ask, node)) is not None]
        if not entries:
            return None
        score, node, _, slots = min(entries)
        return NodeChoice(score, node, slots)

    def after(self, cursor: int, ask: Ask) -> NodeChoice | None:
        """Return the next node after another, in the order of nodes, on which a pod fits."""
        groups, count = frozenset(ask.groups), len(self.rooms)
        ranks: dict[tuple[int, ...], NodeChoice] = {}
        for step in range(1, count + 1):
            node = (cursor + step) % count
            room = self.rooms[node]
            if room.group in groups and room.rank not in ranks and (options := self.options(room, ask)):
                ranks[room.rank] = NodeChoice((), node, options[0])
        return ranks[min(ranks)] if ranks else None

    def nodes_of(self, groups: Iterable[int]) -> Iterator[int]:
        """Yield the nodes of groups."""
        for group in groups:
            yield from self._members.get(group, ())

    def take(self, choice: NodeChoice, ask: Ask) -> None:
        """Place a pod."""
        room = self.rooms[choice.node]
        self._set(choice.node, room.cpu - ask.cpu, room.memory - ask.memory, choice.slots)
        self.cursor = choice.node

    def occupy(self, node: int, ask: Ask) -> bool:
        """Take what a pod holds that already runs; false if the node has less than that, which is then all taken."""
        room = self.rooms[node]
        options = self.options(room._replace(cpu=UNMEASURED, memory=UNMEASURED), ask)
        slots = options[0] if options else _drained(room.slots, ask.amount)
        self._set(node, max(0, room.cpu - ask.cpu), max(0, room.memory - ask.memory), slots)
        return bool(options)

    def release(self, node: int, ask: Ask, count: int) -> None:
        """Give back what pods held."""
        room, slots, amount = self.rooms[node], list[int](), ask.amount * count
        for free in reversed(room.slots):  # the emptiest first: they are then whole
            back = min(WHOLE - free, amount)
            amount -= back
            slots.append(free + back)
        cpu, memory = room.cpu + ask.cpu * count, room.memory + ask.memory * count
        self._set(node, cpu, memory, tuple(sorted(slots)))

    def put(self, node: int, room: NodeRoom) -> None:
        """Put back what was free on a node."""
        self._set(node, room.cpu, room.memory, room.slots)

    def fits(self, node: int, ask: Ask) -> int:
        """Return how many such pods fit on a node."""
        room = self.rooms[node]
        most = [free // wanted for free, wanted in ((room.cpu, ask.cpu), (room.memory, ask.memory)) if wanted]
        if ask.gpus:
            usable = [slot // ask.share for slot in room.slots if slot >= ask.share]
            most.append(sum(usable) // ask.gpus if ask.share == WHOLE or ask.gpus == 1 else len(usable) // ask.gpus)
        return min(most, default=0)

    @staticmethod
    def options(room: NodeRoom, ask: Ask) -> tuple[Slots, ...]:
        """Return what may be free of the GPUs of a node once it runs a pod; empty if the pod does not fit."""
        if room.cpu < ask.cpu or room.memory < ask.memory:
            return ()
        return _options(room.slots, ask.gpus, ask.share)

    def _set(self, node: int, cpu: int, memory: int, slots: Slots) -> None:
        room = self.rooms[node]
        self.free[room.group] += sum(slots) - sum(room.slots)
        self.rooms[node] = NodeRoom(room.name, room.group, cpu, memory, slots, room.rank, room.use, room.gpu_memory)
        self._versions[node] += 1
        self._logs[room.group].append(node)

    def _entry(self, strategy: PlacementStrategy, ask: Ask, node: int) -> tuple[Any, int, int, Slots] | None:
        room = self.rooms[node]
        if room.cpu < ask.cpu or room.memory < ask.memory:
            return None
        options = _options(room.slots, ask.gpus, ask.share)
        if not options:
            return None
        score, slots = strategy.score(room, ask, options)
        return ((room.rank, score), node, self._versions[node], slots)

    def _entries(
        self, strategy: PlacementStrategy, ask: Ask, nodes: Iterable[int]
    ) -> Iterator[tuple[Any, int, int, Slots]]:
        """Yield what a strategy thinks of nodes; of those that are alike it is asked once."""
        known: dict[tuple[Any, ...], tuple[Any, int, int, Slots] | None] = {}
        for node in nodes:
            state = self.rooms[node][1:]
            if state not in known:
                known[state] = self._entry(strategy, ask, node)
            entry = known[state]
            if entry is not None:
                yield (entry[0], node, self._versions[node], entry[3])

    def _top(self, strategy: PlacementStrategy, ask: Ask, group: int) -> tuple[Any, int, int, Slots] | None:
        """Return the best node of a group, after a look at those that have changed since the last time."""
        key = (id(strategy), ask.cpu, ask.memory, ask.gpus, ask.share, ask.gpu_memory, group)
        heap = self._heaps.get(key)
        if heap is None:
            heap = self._heaps[key] = _Heap()
        log, entries = self._logs[group], heap.entries
        if heap.seen < 0:
            entries += self._entries(strategy, ask, self._members[group])
            heapify(entries)
        elif heap.seen < len(log):
            for node in set(log[heap.seen :]):
                entry = self._entry(strategy, ask, node)
                if entry is not None:
                    heappush(entries, entry)
        heap.seen = len(log)
        versions = self._versions
        while entries and versions[entries[0][1]] != entries[0][2]:
            heappop(entries)
        return entries[0] if entries else None


@lru_cache(maxsize=1 << 18)
def _options(slots: Slots, gpus: int, share: int) -> tuple[Slots, ...]:
    """Return what is left of GPUs: whole ones and several are taken from the fullest, of one share any may be taken."""
    if not gpus:
        return (slots,)
    usable = [index for index, free in enumerate(slots) if free >= share]
    if len(usable) < gpus:
        return ()
    if gpus > 1 or share == WHOLE:
        left = list(slots)
        for index in usable[:gpus]:
            left[index] -= share
        return (tuple(sorted(left)),)
    found: dict[int, Slots] = {}
    for index in usable:
        if slots[index] not in found:
            found[slots[index]] = tuple(sorted((*slots[:index], slots[index] - share, *slots[index + 1 :])))
    return tuple(found.values())


def _drained(slots: Slots, amount: int) -> Slots:
    """Return GPUs of which an amount is taken, as far as it goes, the fullest first."""
    left = []
    for free in slots:
        taken = min(free, amount)
        amount -= taken
        left.append(free - taken)
    return tuple(sorted(left))


Mix = Mapping[Ask, int]
"""The typical requests of pods: each kind of pod, and how many of them there are."""
