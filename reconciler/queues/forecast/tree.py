"""`Node`: a ClusterQueue or cohort with its quota and usage, as in Kueue (pkg/cache/scheduler/resource_node.go).

A queue keeps to itself what it does not lend. What it uses beyond that counts in the cohort above it, too.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import inf

from reconciler.queues.forecast.values import Amounts, Cell, CellLimits, QueuedWorkload, QueueNodeSpec

_NONE = CellLimits(0)


class QueueNode:
    """A ClusterQueue or cohort of a forest. `running` holds the workloads of a queue that have quota."""

    def __init__(self, spec: QueueNodeSpec, *, is_queue: bool) -> None:
        self.spec, self.name, self.is_queue = spec, spec.name, is_queue
        self.parent: QueueNode | None = None
        self.cohorts: list[QueueNode] = []
        self.queues: list[QueueNode] = []
        self.quota: Amounts = {}
        self.kept: Amounts = {}
        self.usage: Amounts = {}
        self.running: dict[str, QueuedWorkload] = {}
        self.evictions = 0  # AllocatableResourceGeneration
        self.known_share: DominantShare | None = None  # until its usage changes
        self._potential: Amounts = {}
        self._lendable: dict[str, int] | None = None

    def __iter__(self) -> Iterator["QueueNode"]:
        """Yield the cohorts above, from the nearest."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def root(self) -> "QueueNode":
        """The cohort at the top, or the queue itself if it is in none."""
        top = self
        while top.parent is not None:
            top = top.parent
        return top

    def below(self) -> Iterator["QueueNode"]:
        """Yield all queues of a cohort and of the cohorts in it."""
        yield from self.queues
        for cohort in self.cohorts:
            yield from cohort.below()

    def limits(self, cell: Cell) -> CellLimits:
        """Return its own quota."""
        return self.spec.limits.get(cell, _NONE)

    def settle(self) -> None:
        """Compute what it has with the members below it, less what they keep to themselves."""
        self.quota = {cell: limits.nominal for cell, limits in self.spec.limits.items()}
        for member in (*self.cohorts, *self.queues):
            if not member.is_queue:
                member.settle()
            else:
                member.quota = {cell: limits.nominal for cell, limits in member.spec.limits.items()}
                member.keep()
            for cell, amount in member.quota.items():
                self.quota[cell] = self.quota.get(cell, 0) + amount - member.kept.get(cell, 0)
        self.keep()

    def keep(self) -> None:
        """Compute what it does not lend."""
        lending = ((cell, limits.lending) for cell, limits in self.spec.limits.items())
        self.kept = {cell: max(0, self.quota.get(cell, 0) - most) for cell, most in lending if most is not None}

    def spare(self, cell: Cell) -> int:
        """Return what is left of what it keeps to itself."""
        return max(0, self.kept.get(cell, 0) - self.usage.get(cell, 0))

    def available(self, cell: Cell) -> int:
        """Return what a workload may take now; never less than nothing."""
        return max(0, self.free(cell))

    def free(self, cell: Cell) -> int:
        """Return what is left of its quota and of what it may borrow; negative if it has lost quota."""
        quota, usage = self.quota.get(cell, 0), self.usage.get(cell, 0)
        if self.parent is None:
            return quota - usage
        above = self.parent.free(cell)
        borrowing = self.limits(cell).borrowing
        kept = self.kept.get(cell, 0)
        if borrowing is not None:
            above = min(quota - kept - max(0, usage - kept) + borrowing, above)
        return max(0, kept - usage) + above

    def potential(self, cell: Cell) -> int:
        """Return what a workload could take if nothing else ran."""
        found = self._potential.get(cell)
        if found is None:
            quota = self.quota.get(cell, 0)
            found = quota
            if self.parent is not None:
                found = self.kept.get(cell, 0) + self.parent.potential(cell)
                borrowing = self.limits(cell).borrowing
                found = found if borrowing is None else min(quota + borrowing, found)
            self._potential[cell] = found
        return found

    def add(self, usage: Iterable[tuple[Cell, int]]) -> None:
        """Count a usage, also above where it exceeds what each cohort keeps."""
        for cell, amount in usage:
            at, rest = self, amount
            while True:
                spare = at.spare(cell)
                at.known_share = None
                at.usage[cell] = at.usage.get(cell, 0) + rest
                if at.parent is None or rest <= spare:
                    break
                at, rest = at.parent, rest - spare

    def remove(self, usage: Iterable[tuple[Cell, int]]) -> None:
        """Take back a usage."""
        for cell, amount in usage:
            at, rest = self, amount
            while True:
                beyond = at.usage.get(cell, 0) - at.kept.get(cell, 0)
                at.known_share = None
                at.usage[cell] = at.usage.get(cell, 0) - rest
                if at.parent is None or beyond <= 0:
                    break
                at, rest = at.parent, min(rest, beyond)

    def start(self, one: QueuedWorkload) -> None:
        """Add a running workload."""
        self.running[one.name] = one
        self.add(one.running.usage if one.running is not None else ())

    def stop(self, one: QueuedWorkload) -> None:
        """Remove a running workload."""
        del self.running[one.name]
        self.remove(one.running.usage if one.running is not None else ())

    def exceeds(self, cell: Cell, more: int = 0) -> bool:
        """Return whether it uses more than it has: with `more`, borrows for it."""
        quota = self.limits(cell).nominal if self.is_queue else self.quota.get(cell, 0)
        return quota < self.usage.get(cell, 0) + more

    def is_within(self, cells: Iterable[Cell]) -> bool:
        """Return whether it uses no more than it has of any of the cells."""
        return all(self.usage.get(cell, 0) <= self.quota.get(cell, 0) for cell in cells)

    def height(self) -> int:
        """Return the distance to the furthest member."""
        found = min(len(self.cohorts) + len(self.queues), 1)
        return max([found, *(cohort.height() + 1 for cohort in self.cohorts)])

    def borrowing_level(self, cell: Cell, amount: int) -> tuple[int, bool]:
        """Return the height of the lowest cohort whose quota holds an amount more, and whether one is above it."""
        if self.parent is None or not self.exceeds(cell, amount):
            return 0, self.parent is not None
        rest = amount - self.spare(cell)
        for cohort in self:
            if not cohort.exceeds(cell, rest):
                return cohort.height(), cohort.parent is not None
            rest -= cohort.spare(cell)
        return self.root.height(), False

    def share(self) -> "DominantShare":
        """Return its dominant resource share: what it borrows, of what the cohort above could lend."""
        if self.known_share is None:
            self.known_share = self._share()
        return self.known_share

    def restore(self, usage: Amounts) -> None:
        """Set back what it uses."""
        self.usage, self.known_share = usage, None

    def _share(self) -> "DominantShare":
        if self.parent is None:
            return DominantShare(0.0, self.spec.weight)
        borrowed: dict[str, int] = {}
        cells = []
        for cell, quota in self.quota.items():
            more = self.usage.get(cell, 0) - quota
            if more > 0:
                borrowed[cell[1]] = borrowed.get(cell[1], 0) + more
                cells.append(cell)
        if not borrowed:
            return DominantShare(0.0, self.spec.weight)
        lendable = self.parent.lendable()
        ratios = (amount * 1000.0 / lendable[name] for name, amount in borrowed.items() if lendable.get(name, 0) > 0)
        return DominantShare(max(ratios, default=0.0), self.spec.weight, tuple(cells))

    def lendable(self) -> Mapping[str, int]:
        """Return what a cohort could lend of each resource, of all flavors."""
        if self._lendable is None:
            self._lendable = {}
            for cell in self.root.quota:
                self._lendable[cell[1]] = self._lendable.get(cell[1], 0) + self.potential(cell)
        return self._lendable


class DominantShare:
    """A dominant resource share. Who borrows without a weight has the greatest."""

    def __init__(self, ratio: float, weight: float, borrowed: tuple[Cell, ...] = ()) -> None:
        self.ratio, self.borrowed = ratio, borrowed
        if not weight and ratio:
            self.key = (1, ratio)
        else:
            self.key = (0, 0.0 if not ratio else ratio / weight if weight else inf)


def forest(cohorts: Iterable[QueueNodeSpec], queues: Iterable[QueueNodeSpec]) -> dict[str, QueueNode]:
    """Return the nodes of queues by name, without those in cycles. A cohort that no object defines has no quota."""
    above = {spec.name: QueueNode(spec, is_queue=False) for spec in cohorts}
    found = {spec.name: QueueNode(spec, is_queue=True) for spec in queues}
    for node in [*above.values(), *found.values()]:
        if node.spec.parent:
            parent = above.get(node.spec.parent)
            if parent is None:
                parent = above[node.spec.parent] = QueueNode(
                    QueueNodeSpec(name=node.spec.parent, limits={}), is_queue=False
                )
            node.parent = parent
            (parent.queues if node.is_queue else parent.cohorts).append(node)
    for node in above.values():
        if node.parent is None:
            node.settle()
    found = {name: node for name, node in found.items() if not _is_in_cycle(node)}
    for node in found.values():
        if node.parent is None:
            node.quota = {cell: limits.nominal for cell, limits in node.spec.limits.items()}
            node.keep()
    return found


def _is_in_cycle(node: QueueNode) -> bool:
    seen = set()
    at: QueueNode | None = node
    while at is not None:
        if id(at) in seen:
            return True
        seen.add(id(at))
        at = at.parent
    return False
