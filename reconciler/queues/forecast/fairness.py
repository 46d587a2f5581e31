"""Fair sharing: whose workloads are preempted first, and which queue's workload is considered first.

Kueue: pkg/scheduler/preemption/fairsharing/ordering.go and pkg/scheduler/fair_sharing_iterator.go.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from reconciler.queues.forecast.tree import DominantShare, QueueNode
from reconciler.queues.forecast.values import Cell, QueuedWorkload

_LOWEST = (-1, 0.0)
_Key = tuple[int, float]


class Contest:
    """Yields the queues that lose the next workload to a preemptor: whoever borrows most for its weight."""

    def __init__(self, queue: QueueNode, candidates: Iterable[QueuedWorkload], *, prunes_zero: bool) -> None:
        self.queue = queue
        self._prunes_zero = prunes_zero
        self._above = {*queue}
        self._left: dict[str, list[QueuedWorkload]] = {}
        for one in candidates:
            self._left.setdefault(one.queue, []).append(one)
        for ones in self._left.values():
            ones.reverse()
        self._pruned: set[QueueNode] = set()

    def __iter__(self) -> Iterator[QueueNode]:
        """Yield queues until no candidate is left; after each one, `pop` or `drop` is called."""
        if self.queue.parent is None:
            while self.queue not in self._pruned and self.has(self.queue):
                yield self.queue
            return
        root = self.queue.root
        while root not in self._pruned:
            found = self._next(root)
            if found is not None:
                yield found

    def has(self, queue: QueueNode) -> bool:
        """Return whether a queue has candidates."""
        return bool(self._left.get(queue.name))

    def is_open(self) -> bool:
        """Return whether a queue may lose workloads: the preemptor's own, or one whose share is no smaller.

        A share shrinks with what its queue loses. So where all are smaller, no strategy takes anything.
        """
        if self.has(self.queue):
            return True
        owners = (owner for owner in self.queue.root.below() if self.has(owner))
        return any(own <= old for own, old in map(self.shares, owners))

    def pop(self, queue: QueueNode) -> QueuedWorkload:
        """Return the next candidate of a queue, which is then none any more."""
        return self._left[queue.name].pop()

    def drop(self, queue: QueueNode) -> None:
        """Look no further at a queue."""
        self._pruned.add(queue)

    def shares(self, owner: QueueNode) -> tuple[_Key, _Key]:
        """Return the shares of preemptor and owner where they meet: just below the lowest cohort that has both."""
        meeting = next(cohort for cohort in owner if cohort in self._above)
        return _below(self.queue, meeting).share().key, _below(owner, meeting).share().key

    def share_without(self, owner: QueueNode, usage: Iterable[tuple[Cell, int]]) -> _Key:
        """Return the share of an owner there if it used less."""
        meeting = next(cohort for cohort in owner if cohort in self._above)
        amounts = tuple(usage)
        owner.remove(amounts)
        found = _below(owner, meeting).share().key
        owner.add(amounts)
        return found

    def _next(self, cohort: QueueNode) -> QueueNode | None:
        best, best_key = self._queue_in(cohort)
        inner, inner_key = self._cohort_in(cohort)
        if inner is None and best is None:
            self._pruned.add(cohort)
            return None
        return self._next(inner) if inner is not None and inner_key >= best_key else best

    def _queue_in(self, cohort: QueueNode) -> tuple[QueueNode | None, _Key]:
        best, best_key = None, _LOWEST
        for queue in cohort.queues:
            if queue in self._pruned:
                continue
            share = queue.share() if self.has(queue) else None
            if share is None or (queue is not self.queue and self._is_idle(share)):
                self._pruned.add(queue)
            elif share.key > best_key or (best is not None and share.key == best_key and self._is_before(queue, best)):
                best, best_key = queue, share.key
        return best, best_key

    def _cohort_in(self, cohort: QueueNode) -> tuple[QueueNode | None, _Key]:
        inner, inner_key = None, _LOWEST
        for child in cohort.cohorts:
            if child in self._pruned:
                continue
            share = child.share()
            if child not in self._above and self._is_idle(share):
                self._pruned.add(child)
            elif share.key >= inner_key:
                inner, inner_key = child, share.key
        return inner, inner_key

    def _is_idle(self, share: DominantShare) -> bool:
        return share.ratio == 0 if self._prunes_zero else not share.borrowed

    def _is_before(self, queue: QueueNode, other: QueueNode) -> bool:
        def key(node: QueueNode) -> tuple[bool, int, float, str]:
            one = self._left[node.name][-1]
            since = one.running.since if one.running is not None else 0.0
            return (node is self.queue, one.priority, -since, one.name)

        return key(queue) < key(other)


def _below(node: QueueNode, meeting: QueueNode) -> QueueNode:
    """Return the node on the way up from a queue to a cohort that is just below that."""
    at = node
    while at.parent is not meeting and at.parent is not None:
        at = at.parent
    return at


class FairEntry(NamedTuple):
    """The head of a queue and what it would use."""

    asked: QueuedWorkload
    queue: QueueNode
    usage: Mapping[Cell, int]


def winner(
    root: QueueNode,
    entries: Mapping[str, FairEntry],
    shares: Callable[[FairEntry], Mapping[QueueNode, DominantShare]],
    *,
    own_first: bool,
) -> FairEntry:
    """Return the head that is considered next: at each level that of the member with the lowest share with it."""
    found = _tournament(root, entries, shares, own_first=own_first)
    if found is None:
        raise ValueError("no entry is below the root")
    return found


def _tournament(
    cohort: QueueNode,
    entries: Mapping[str, FairEntry],
    shares: Callable[[FairEntry], Mapping[QueueNode, DominantShare]],
    *,
    own_first: bool,
) -> FairEntry | None:
    found = [_tournament(child, entries, shares, own_first=own_first) for child in cohort.cohorts]
    ones = [one for one in (*found, *(entries.get(queue.name) for queue in cohort.queues)) if one is not None]

    def key(one: FairEntry) -> tuple[bool, _Key, int, float]:
        share = shares(one)[cohort]
        borrows = own_first and any(one.usage.get(cell, 0) > 0 for cell in share.borrowed)
        return (borrows, share.key, -one.asked.priority, one.asked.created)

    return min(ones, key=key, default=None)


def shares_with(entry: FairEntry) -> dict[QueueNode, DominantShare]:
    """Return the shares on the way up from a queue if its head ran, by the cohort in which each is compared."""
    found: dict[QueueNode, DominantShare] = {}
    entry.queue.add(entry.usage.items())
    share = entry.queue.share()
    for cohort in entry.queue:
        found[cohort] = share
        share = cohort.share()
    entry.queue.remove(entry.usage.items())
    return found
