"""The workloads that Kueue preempts for another one (pkg/scheduler/preemption), in the order in which it tries them.

Candidates are removed until the workload fits, and those that are not needed are added back. With fair sharing, the
queue that borrows most for its weight loses workloads first.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reconciler.queues.flavors import Version
from reconciler.queues.forecast.fairness import Contest
from reconciler.queues.forecast.tree import QueueNode
from reconciler.queues.forecast.values import (
    ANY,
    FINAL_SHARE,
    LOWER,
    NEVER,
    NEWER_EQUAL,
    Amounts,
    Cell,
    FairSharing,
    QueuedWorkload,
)

IN_QUEUE, RECLAIMED, WHILE_BORROWING, FAIR = (
    "InClusterQueue",
    "InCohortReclamation",
    "InCohortReclaimWhileBorrowing",
    "InCohortFairSharing",
)
_WITHIN_NOMINAL: Version = (0, 17)
"""The first version in which fair sharing gives a queue its own quota back whatever the shares are."""


class PreemptionTarget(NamedTuple):
    """A workload to preempt, its queue, and the reason."""

    one: QueuedWorkload
    queue: QueueNode
    reason: str


class _EvictionChoice(NamedTuple):
    one: QueuedWorkload
    queue: QueueNode
    reason: str
    above: QueueNode | None  # the lowest cohort that both queues are in
    only_within: bool  # may be preempted only if the preemptor does not borrow


class TargetFinder:
    """Finds the workloads to preempt for one workload. Restores the usage of the queues before it returns."""

    def __init__(self, queues: dict[str, QueueNode], version: Version, fairness: FairSharing | None) -> None:
        self._queues, self._version, self._fairness = queues, version, fairness
        self._known: dict[tuple[frozenset[Cell], tuple[tuple[Cell, int], ...]], list[PreemptionTarget]] = {}

    def forget(self) -> None:
        """Forget what was found: for another workload, or after a change of usage."""
        self._known.clear()

    def targets(self, asked: QueuedWorkload, cells: frozenset[Cell], usage: Amounts) -> list[PreemptionTarget]:
        """Return the workloads that make room for `usage`, which lacks quota of some cells; none if they cannot."""
        queue, key = self._queues[asked.queue], (cells, tuple(sorted(usage.items())))
        found = self._known.get(key)
        if found is None:
            if self._fairness is not None:
                found = self._fair(queue, asked, cells, usage, self._fairness)
            else:
                found = self._classical(queue, asked, cells, usage)
            self._known[key] = found
        return found

    def simulate(self, asked: QueuedWorkload, cell: Cell, amount: int) -> tuple[str, int]:
        """Return whether others could be preempted for an amount of a cell, and from how high it would borrow then."""
        queue = self._queues[asked.queue]
        found = self.targets(asked, frozenset((cell,)), {cell: amount})
        if not found:
            return "", queue.borrowing_level(cell, amount)[0]
        for one in found:
            one.queue.remove(_usage(one.one))
        level, _ = queue.borrowing_level(cell, amount)
        for one in found:
            one.queue.add(_usage(one.one))
        return "preempt" if any(one.queue is queue for one in found) else "reclaim", level

    def _classical(
        self, queue: QueueNode, asked: QueuedWorkload, cells: frozenset[Cell], usage: Amounts
    ) -> list[PreemptionTarget]:
        same = (
            [] if queue.spec.policies.within == NEVER else list(_of(queue, queue, None, asked, cells, has_right=False))
        )
        by_right, by_priority = _from_cohort(queue, asked, cells, usage)
        ordered = [*_ordered(by_right, queue), *_ordered(by_priority, queue), *_ordered(same, queue)]
        if not ordered:
            return []
        may_not_borrow = queue.spec.policies.borrow == NEVER
        under = all(queue.usage.get(cell, 0) < queue.limits(cell).nominal for cell in cells)
        attempts: tuple[bool, ...] = (True, False)
        if not (by_right or by_priority) or (may_not_borrow and not under):
            attempts = (True,)
        elif may_not_borrow and not by_right:
            attempts = (False, True)
        for borrows in attempts:
            found: list[PreemptionTarget] = []
            for one in ordered:
                if not _is_valid(one, queue, cells, borrows=borrows):
                    continue
                one.queue.stop(one.one)
                found.append(PreemptionTarget(one.one, one.queue, one.reason))
                if _fits(queue, usage, borrows=borrows):
                    return _restored(_filled_back(queue, found, usage, borrows=borrows))
            _restored(found)
        return []

    def _fair(
        self, queue: QueueNode, asked: QueuedWorkload, cells: frozenset[Cell], usage: Amounts, fairness: FairSharing
    ) -> list[PreemptionTarget]:
        candidates = _fair_candidates(queue, asked, cells)
        if not candidates:
            return []
        candidates.sort(key=_order)
        queue.add(usage.items())
        is_own = self._version >= _WITHIN_NOMINAL and not any(queue.exceeds(cell) for cell in cells)
        found, fits, again = _first(self._contest(queue, candidates), usage, fairness, is_own=is_own)
        if again and len(fairness.strategies) > 1:
            fits = _second(self._contest(queue, again), usage, found)
        queue.remove(usage.items())
        if not fits:
            _restored(found)
            return []
        return _restored(_filled_back(queue, found, usage, borrows=True))

    def _contest(self, queue: QueueNode, candidates: Iterable[QueuedWorkload]) -> Contest:
        return Contest(queue, candidates, prunes_zero=self._version < _WITHIN_NOMINAL)


def _first(
    contest: Contest, usage: Amounts, fairness: FairSharing, *, is_own: bool
) -> tuple[list[PreemptionTarget], bool, list[QueuedWorkload]]:
    """Preempt by the first strategy; return also the candidates that it spares."""
    found: list[PreemptionTarget] = []
    again: list[QueuedWorkload] = []
    if not (is_own or contest.is_open()):
        return found, False, again
    queue = contest.queue
    is_final = fairness.strategies[0] == FINAL_SHARE

    def takes(one: QueuedWorkload, owner: QueueNode, reason: str) -> bool:
        owner.stop(one)
        found.append(PreemptionTarget(one, owner, reason))
        queue.remove(usage.items())
        fits = _fits(queue, usage, borrows=True)
        queue.add(usage.items())
        return fits

    for owner in contest:
        if owner is queue or is_own:
            if takes(contest.pop(owner), owner, IN_QUEUE if owner is queue else RECLAIMED):
                return found, True, []
            continue
        own, old = contest.shares(owner)
        while contest.has(owner):
            one = contest.pop(owner)
            if own <= old and own <= contest.share_without(owner, _usage(one)) if is_final else own < old:
                if takes(one, owner, FAIR):
                    return found, True, []
                break
            again.append(one)
    return found, False, again


def _second(contest: Contest, usage: Amounts, found: list[PreemptionTarget]) -> bool:
    """Preempt at most one workload of each queue by the rule that looks at the shares before."""
    queue = contest.queue
    for owner in contest:
        own, old = contest.shares(owner)
        one = contest.pop(owner)
        if own < old:
            owner.stop(one)
            found.append(PreemptionTarget(one, owner, FAIR))
            queue.remove(usage.items())
            fits = _fits(queue, usage, borrows=True)
            queue.add(usage.items())
            if fits:
                return True
        contest.drop(owner)
    return False


def _fair_candidates(queue: QueueNode, asked: QueuedWorkload, cells: frozenset[Cell]) -> list[QueuedWorkload]:
    policies = queue.spec.policies
    found: list[QueuedWorkload] = []
    if policies.within != NEVER:
        found += [one for one in queue.running.values() if _allowed(asked, one, policies.within) and _uses(one, cells)]
    if queue.parent is not None and policies.reclaim != NEVER:
        for other in queue.root.below():
            if other is not queue and any(other.exceeds(cell) for cell in cells):
                own = other.running.values()
                found += [one for one in own if _allowed(asked, one, policies.reclaim) and _uses(one, cells)]
    return found


def _allowed(asked: QueuedWorkload, one: QueuedWorkload, policy: str) -> bool:
    is_lower = asked.priority > one.priority
    if policy == LOWER:
        return is_lower
    if policy == NEWER_EQUAL:
        return is_lower or (asked.priority == one.priority and asked.created < one.created)
    return policy == ANY


def _uses(one: QueuedWorkload, cells: frozenset[Cell]) -> bool:
    if one.running is None:
        return False
    for cell, _ in one.running.usage:  # noqa: SIM110 - the innermost loop
        if cell in cells:
            return True
    return False


def _usage(one: QueuedWorkload) -> Sequence[tuple[Cell, int]]:
    return one.running.usage if one.running is not None else ()


def _order(one: QueuedWorkload) -> tuple[int, float, str]:
    """Return its place among candidates: the lower priority first, then what got its quota last."""
    return (one.priority, -one.running.since if one.running is not None else 0.0, one.name)


def _ordered(candidates: Iterable[_EvictionChoice], queue: QueueNode) -> list[_EvictionChoice]:
    return sorted(candidates, key=lambda each: (each.queue is queue, *_order(each.one)))


def _of(
    owner: QueueNode,
    queue: QueueNode,
    above: QueueNode | None,
    asked: QueuedWorkload,
    cells: frozenset[Cell],
    *,
    has_right: bool,
) -> Iterator[_EvictionChoice]:
    """Yield the candidates of a queue."""
    policies = queue.spec.policies
    policy = policies.within if owner is queue else policies.reclaim
    for one in owner.running.values():
        if not _allowed(asked, one, policy) or not _uses(one, cells):
            continue
        if owner is queue:
            yield _EvictionChoice(one, owner, IN_QUEUE, None, only_within=False)
        elif has_right:
            yield _EvictionChoice(one, owner, RECLAIMED, above, only_within=False)
        else:
            is_above = policies.threshold is not None and one.priority > policies.threshold
            only = policies.borrow == NEVER or one.priority >= asked.priority or is_above
            yield _EvictionChoice(one, owner, RECLAIMED if only else WHILE_BORROWING, above, only)


def _from_cohort(
    queue: QueueNode, asked: QueuedWorkload, cells: frozenset[Cell], usage: Amounts
) -> tuple[list[_EvictionChoice], list[_EvictionChoice]]:
    """Return the candidates whose quota is closer to the preemptor than to them, and the others."""
    by_right: list[_EvictionChoice] = []
    by_priority: list[_EvictionChoice] = []
    if queue.parent is None or queue.spec.policies.reclaim == NEVER:
        return by_right, by_priority
    has_right, rest = _held(queue, usage)
    below: QueueNode | None = None
    for cohort in queue:
        found = by_right if has_right else by_priority
        for owner in _over(cohort, below, cells):
            if owner is not queue:
                found += _of(owner, queue, cohort, asked, cells, has_right=has_right)
        fits, rest = _held(cohort, rest)
        has_right = has_right or fits
        below = cohort
    return by_right, by_priority


def _over(cohort: QueueNode, skipped: QueueNode | None, cells: frozenset[Cell]) -> Iterator[QueueNode]:
    """Yield the queues below a cohort that use more than they have, but not those in cohorts that do not."""
    for child in cohort.cohorts:
        if child is not skipped and not child.is_within(cells):
            yield from _over(child, skipped, cells)
    for owner in cohort.queues:
        if not owner.is_within(cells):
            yield owner


def _held(node: QueueNode, requests: Amounts) -> tuple[bool, Amounts]:
    """Return whether a node's quota holds requests, and what of them it passes on to the cohort above."""
    fits = all(node.quota.get(cell, 0) >= node.usage.get(cell, 0) + amount for cell, amount in requests.items())
    return fits, {cell: max(0, amount - node.spare(cell)) for cell, amount in requests.items()}


def _is_valid(one: _EvictionChoice, queue: QueueNode, cells: frozenset[Cell], *, borrows: bool) -> bool:
    if one.queue is queue:
        return True
    if borrows and one.only_within:
        return False
    if one.queue.is_within(cells):
        return False
    for cohort in one.queue:
        if cohort is one.above:
            break
        if cohort.is_within(cells):
            return False
    return True


def _fits(queue: QueueNode, usage: Amounts, *, borrows: bool) -> bool:
    return all(
        (borrows or not queue.exceeds(cell, amount)) and amount <= queue.available(cell)
        for cell, amount in usage.items()
    )


def _filled_back(
    queue: QueueNode, found: list[PreemptionTarget], usage: Amounts, *, borrows: bool
) -> list[PreemptionTarget]:
    """Add back those that need not be preempted, the last ones first."""
    for index in range(len(found) - 2, -1, -1):
        target = found[index]
        target.queue.start(target.one)
        if _fits(queue, usage, borrows=borrows):
            found[index] = found[-1]
            found.pop()
        else:
            target.queue.stop(target.one)
    return found


def _restored(found: list[PreemptionTarget]) -> list[PreemptionTarget]:
    for target in found:
        target.queue.start(target.one)
    return found
