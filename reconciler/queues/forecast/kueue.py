"""`forecast`: the cycles of Kueue's scheduler over a world at rest, until they change nothing.

Nothing ends while they run, and what is preempted gives its quota back at once and waits again. Each cycle looks at the
heads of all queues: first at their flavors, then, in the order of the cohort, at whether they still fit
(Kueue: pkg/scheduler/scheduler.go and pkg/cache/queue/cluster_queue.go).
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from reconciler.queues.flavors import NEWEST, Version
from reconciler.queues.forecast.assigning import Assigner, FlavorAssignment, Tried
from reconciler.queues.forecast.fairness import FairEntry, shares_with, winner
from reconciler.queues.forecast.preempting import PreemptionTarget, TargetFinder
from reconciler.queues.forecast.tree import DominantShare, QueueNode, forest
from reconciler.queues.forecast.values import (
    ANY,
    AdmittedWorkload,
    Amounts,
    Cell,
    FairSharing,
    FitMode,
    ForecastOutcome,
    HeldQuota,
    PreemptedWorkload,
    QueuedWorkload,
    QueueNodeSpec,
    Shortfall,
)

_KEEPS_PROGRESS: Version = (0, 19)
"""The first version that goes on with the next flavor after a workload was skipped."""
_SHAPES: Version = (0, 18)
"""The first version that sets aside all workloads like one that does not fit."""
_OWN_FIRST: Version = (0, 17)
"""The first version in which fair sharing prefers those that do not borrow."""
_MOST_CYCLES = 300  # queues may preempt each other for ever
_LATER = 1e12  # when the forecast's own admissions happen: after all others


class _PendingWorkload(Struct):
    """A workload in a queue, with the flavors tried for it, and the assignment of the last cycle."""

    asked: QueuedWorkload
    tried: Tried | None = None
    evictions: int = 0
    cycle: int = 0
    seen: tuple[int, Tried | None] | None = None
    found: tuple[FlavorAssignment, list[PreemptionTarget]] | None = None
    reasons: tuple[Shortfall, ...] = ()

    @property
    def has_more_flavors(self) -> bool:
        return any(index != -1 for marks in self.tried or () for index in marks.values())

    @property
    def shape(self) -> tuple[object, ...]:
        return (self.asked.priority, self.asked.sets)


class _PendingLine:
    """The workloads of a queue in their order, and those that are set aside until something changes."""

    def __init__(self, pending: Iterable[_PendingWorkload]) -> None:
        self.heap = [(one.asked.order, one) for one in pending]
        heapify(self.heap)
        self.aside: dict[str, _PendingWorkload] = {}
        self.sticky = ""

    def pop(self) -> _PendingWorkload | None:
        """Take the head: a workload that preempts others, until it is admitted; else the first."""
        if self.sticky:
            for index, (_, one) in enumerate(self.heap):
                if one.asked.name == self.sticky:
                    del self.heap[index]
                    heapify(self.heap)
                    return one
        return heappop(self.heap)[1] if self.heap else None

    def push(self, one: _PendingWorkload) -> None:
        heappush(self.heap, (one.asked.order, one))

    def set_aside(self, one: _PendingWorkload, *, with_equals: bool) -> None:
        """Set a workload aside, and those that request the same."""
        self.aside[one.asked.name] = one
        if not with_equals:
            return
        shape = one.shape
        equals = [each for each in self.heap if each[1].shape == shape]
        if equals:
            self.aside.update((each.asked.name, each) for _, each in equals)
            self.heap = [each for each in self.heap if each[1].asked.name not in self.aside]
            heapify(self.heap)

    def retry(self) -> None:
        """Look again at all that are set aside."""
        for one in self.aside.values():
            self.push(one)
        self.aside.clear()


class _QueueHead(Struct):
    """The head of a queue in a cycle."""

    one: _PendingWorkload
    queue: QueueNode
    assignment: FlavorAssignment
    targets: list[PreemptionTarget]


def forecast(
    cohorts: Iterable[QueueNodeSpec],
    queues: Iterable[QueueNodeSpec],
    workloads: Iterable[QueuedWorkload],
    version: Version = NEWEST,
    fairness: FairSharing | None = None,
) -> ForecastOutcome:
    """Return what happens to the workloads; those of unknown or stopped queues, or of cycles, stay as they are."""
    found = forest(cohorts, queues)
    waiting: dict[str, list[_PendingWorkload]] = {name: [] for name in found}
    for one in workloads:
        queue = found.get(one.queue)
        if queue is None:
            continue
        if one.running is not None:
            queue.start(one)
        elif not queue.spec.is_stopped:
            waiting[one.queue].append(_PendingWorkload(one))
    trees: dict[QueueNode, dict[str, QueueNode]] = {}
    for name, queue in found.items():
        trees.setdefault(queue.root, {})[name] = queue
    outcome = ForecastOutcome(admitted={}, preempted={}, reasons={})
    for members in trees.values():
        lines = {name: _PendingLine(waiting[name]) for name in members if waiting[name] or members[name].running}
        _CycleRun(members, lines, version, fairness, outcome).run()
    return outcome


class _CycleRun:
    """The cycles of the queues below one cohort at the top, or of a queue in no cohort: no other queue affects them."""

    def __init__(
        self,
        queues: dict[str, QueueNode],
        lines: dict[str, _PendingLine],
        version: Version,
        fairness: FairSharing | None,
        outcome: ForecastOutcome,
    ) -> None:
        self._queues, self._lines, self._outcome = queues, lines, outcome
        self._version, self._fairness = version, fairness
        self._preemptor = TargetFinder(queues, version, fairness)
        self._changes = self._cycle = 0
        self._shares: dict[str, dict[QueueNode, DominantShare]] = {}

    def run(self) -> None:
        """Run cycles until all workloads are set aside, or a cycle ends as an earlier one since the last change."""
        seen: set[tuple[object, ...]] = set()
        while self._cycle < _MOST_CYCLES:
            self._cycle += 1
            heads = list(self._heads())
            if not heads:
                break
            if self._process(heads):
                seen.clear()
            state = tuple((head.one.asked.name, _marks(head.one.tried)) for head in heads)
            if state in seen:
                break
            seen.add(state)
        for name, queue in self._queues.items():
            cells = [cell for cell in queue.usage if queue.exceeds(cell)]
            over = {cell: -free for cell in cells if (free := queue.free(cell)) < 0}
            if over:
                self._outcome.over[name] = over
        for line in self._lines.values():
            for one in (*line.aside.values(), *(one for _, one in line.heap)):
                self._outcome.reasons[one.asked.name] = one.reasons

    def _heads(self) -> Iterator[_QueueHead]:
        for name, line in self._lines.items():
            one = line.pop()
            if one is not None:
                queue = self._queues[name]
                yield _QueueHead(one, queue, *self._nominated(one, queue))

    def _nominated(self, one: _PendingWorkload, queue: QueueNode) -> tuple[FlavorAssignment, list[PreemptionTarget]]:
        if one.tried is not None and self._is_outdated(one, queue):
            one.tried = None
        seen = (self._changes, one.tried)
        if one.found is None or one.seen != seen:
            one.seen, one.found = seen, self._assigned(one, queue)
        assignment, targets = one.found
        one.tried, one.evictions, one.cycle = assignment.tried, queue.evictions, self._cycle
        one.reasons = assignment.reasons
        return assignment, targets

    def _is_outdated(self, one: _PendingWorkload, queue: QueueNode) -> bool:
        if self._version >= _KEEPS_PROGRESS and self._cycle - one.cycle <= 1:
            return False
        return queue.evictions > one.evictions

    def _assigned(self, one: _PendingWorkload, queue: QueueNode) -> tuple[FlavorAssignment, list[PreemptionTarget]]:
        """Return the assignment of all pods, or of the most that can start."""
        asked = one.asked
        self._preemptor.forget()

        def simulate(cell: Cell, amount: int) -> tuple[str, int]:
            return self._preemptor.simulate(asked, cell, amount)

        assigner = Assigner(queue, asked, self._version, simulate, is_fair=self._fairness is not None)

        def tried(counts: Sequence[int] | None) -> tuple[FlavorAssignment, list[PreemptionTarget]]:
            assignment = assigner.assign(one.tried, counts)
            targets: list[PreemptionTarget] = []
            if assignment.mode is FitMode.PREEMPT:
                usage = {cell: amount for cell, amount in assignment.usage.items() if amount}
                targets = self._preemptor.targets(asked, assignment.short, usage)
            return assignment, targets

        full = tried(None)
        if full[0].mode is FitMode.FIT or full[1]:
            return full
        spare = [pods.pods - (pods.least or pods.pods) for pods in asked.sets]
        most = sum(spare)
        if not most:
            return full
        low, high, best, best_at = 0, most + 1, full, -1
        while low < high:
            middle = (low + high) // 2
            found = tried([pods.pods - each * middle // most for pods, each in zip(asked.sets, spare, strict=True)])
            if found[0].mode is FitMode.FIT or found[1]:
                best, best_at, high = found, middle, middle
            else:
                low = middle + 1
        return best if low == best_at else full

    def _process(self, heads: list[_QueueHead]) -> bool:
        """Admit, preempt or skip the heads. Return whether a workload got or lost its quota."""
        before = {node: {**node.usage} for head in heads for node in (head.queue, *head.queue)}
        taking: set[QueueNode] = set()
        preempted: dict[str, PreemptionTarget] = {}
        admitted: list[_QueueHead] = []
        self._shares.clear()
        for head in self._in_order(heads):
            if self._decide(head, preempted, taking):
                admitted.append(head)
            if head.queue in taking:
                self._shares.clear()
        for node, usages in before.items():
            node.restore(usages)
        for head in admitted:
            self._admit(head)
        for target in preempted.values():
            self._evict(target)
        return bool(admitted or preempted)

    def _decide(self, head: _QueueHead, preempted: dict[str, PreemptionTarget], taking: set[QueueNode]) -> bool:
        """Decide about a head, and count what it takes for the rest of the cycle; return whether it is admitted."""
        one, assignment, targets, queue = head.one, head.assignment, head.targets, head.queue
        line = self._lines[queue.name]
        if assignment.mode is FitMode.NO_FIT:
            self._requeue(line, queue, one, is_hopeless=True)
            return False
        if assignment.mode is FitMode.PREEMPT and not targets:
            if queue.spec.policies.reclaim != ANY:
                taking.add(queue)
                queue.add(_to_reserve(assignment, queue).items())
            self._requeue(line, queue, one, is_hopeless=True)
            return False
        overlaps = any(target.one.name in preempted for target in targets)
        if overlaps or not self._still_fits(head, preempted):
            one.reasons = (Shortfall("what another workload takes first"),)
            if self._version < _KEEPS_PROGRESS:
                one.tried = None
            line.push(one)
            return False
        taking.add(queue)
        queue.add(assignment.usage.items())
        if assignment.mode is FitMode.PREEMPT:
            for target in targets:
                preempted[target.one.name] = target
                self._outcome.preempted.setdefault(target.one.name, PreemptedWorkload(one.asked.name, target.reason))
            one.tried = None
            if not queue.spec.policies.is_strict:
                line.sticky = one.asked.name
            line.push(one)
            return False
        return True

    def _requeue(self, line: _PendingLine, queue: QueueNode, one: _PendingWorkload, *, is_hopeless: bool) -> None:
        if queue.spec.policies.is_strict or one.has_more_flavors:
            line.push(one)
        else:
            line.set_aside(one, with_equals=is_hopeless and self._version >= _SHAPES)

    def _still_fits(self, head: _QueueHead, preempted: dict[str, PreemptionTarget]) -> bool:
        gone = preempted | {target.one.name: target for target in head.targets}
        for target in gone.values():
            target.queue.remove(target.one.running.usage if target.one.running is not None else ())
        fits = all(head.queue.available(cell) >= amount for cell, amount in head.assignment.usage.items())
        for target in gone.values():
            target.queue.add(target.one.running.usage if target.one.running is not None else ())
        return fits

    def _admit(self, head: _QueueHead) -> None:
        asked, assignment = head.one.asked, head.assignment
        usage = tuple(assignment.usage.items())
        head.queue.start(replace(asked, running=HeldQuota(usage, _LATER + self._cycle)))
        flavors = tuple({name: flavor for name, (flavor, _) in one.items()} for one in assignment.flavors)
        self._outcome.admitted[asked.name] = AdmittedWorkload(flavors, assignment.counts, assignment.borrowing > 0)
        line = self._lines[head.queue.name]
        if line.sticky == asked.name:
            line.sticky = ""
        self._changes += 1

    def _evict(self, target: PreemptionTarget) -> None:
        queue, one = target.queue, target.one
        queue.stop(one)
        queue.evictions += 1
        self._outcome.admitted.pop(one.name, None)
        self._changes += 1
        if not queue.spec.is_stopped:
            self._lines[queue.name].push(_PendingWorkload(replace(one, running=None)))
        for line in self._lines.values():
            line.retry()

    def _in_order(self, heads: list[_QueueHead]) -> Iterator[_QueueHead]:
        if self._fairness is None:
            yield from sorted(
                heads, key=lambda one: (one.assignment.borrowing, -one.one.asked.priority, one.one.asked.created)
            )
            return
        root = heads[0].queue.root
        if root.is_queue:
            yield from heads
            return
        by_name = {head.queue.name: head for head in heads}
        entries = {name: FairEntry(head.one.asked, head.queue, head.assignment.usage) for name, head in by_name.items()}
        while entries:
            best = winner(root, entries, self._shares_of, own_first=self._version >= _OWN_FIRST)
            del entries[best.queue.name]
            yield by_name[best.queue.name]

    def _shares_of(self, entry: FairEntry) -> dict[QueueNode, DominantShare]:
        found = self._shares.get(entry.queue.name)
        if found is None:
            found = self._shares[entry.queue.name] = shares_with(entry)
        return found


def _to_reserve(assignment: FlavorAssignment, queue: QueueNode) -> Amounts:
    """Return what is kept free for a workload that could preempt nobody: its own quota, or all that it may borrow."""
    reserved: Amounts = {}
    for cell, amount in assignment.usage.items():
        limits, usage = queue.limits(cell), queue.usage.get(cell, 0)
        if not assignment.borrowing:
            reserved[cell] = max(0, min(amount, limits.nominal - usage))
        elif limits.borrowing is None:
            reserved[cell] = amount
        else:
            reserved[cell] = min(amount, limits.nominal + limits.borrowing - usage)
    return reserved


def _marks(tried: Tried | None) -> tuple[tuple[tuple[str, int], ...], ...] | None:
    return None if tried is None else tuple(tuple(sorted(marks.items())) for marks in tried)
