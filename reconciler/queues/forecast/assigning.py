"""Flavors for a workload, as Kueue's flavor assigner finds them (pkg/scheduler/flavorassigner/flavorassigner.go).

Each group of resources takes the first flavor that fits, or the best one in the order of the policy of the queue.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from reconciler.queues.flavors import Version
from reconciler.queues.forecast.tree import QueueNode
from reconciler.queues.forecast.values import (
    NEVER,
    PREEMPT_FIRST,
    TRY_NEXT,
    Amounts,
    Cell,
    FitMode,
    FlavorGroup,
    PodSetAsk,
    QueuedWorkload,
    Shortfall,
    written,
)

_NO_FIT, _NO_CANDIDATES, _PREEMPT, _RECLAIM, _FIT = range(5)
_RANKED: Version = (0, 17)
"""The first version that ranks a flavor without candidates below all others, and reads `preference` the right way."""

Tried = tuple[Mapping[str, int], ...]
"""The last flavor that was tried, by pod set and resource; -1 if that was the last one of all."""

Simulate = Callable[[Cell, int], tuple[str, int]]
"""Returns whether a workload could preempt others for an amount (else empty), and how high it borrows then."""


class FlavorAssignment(NamedTuple):
    """Flavors and modes by pod set and resource. borrowing: the height of the cohort from which it borrows."""

    mode: FitMode
    flavors: tuple[Mapping[str, tuple[str, FitMode]], ...]
    counts: tuple[int, ...]
    usage: Amounts
    borrowing: int
    tried: Tried
    reasons: tuple[Shortfall, ...] = ()

    @property
    def short(self) -> frozenset[Cell]:
        """The cells for which others have to be preempted."""
        pairs = (pair for flavors in self.flavors for pair in flavors.items())
        return frozenset((flavor, name) for name, (flavor, mode) in pairs if mode is FitMode.PREEMPT)


class _FlavorRank(NamedTuple):
    mode: int
    level: int


class _FlavorChoice(NamedTuple):
    rank: _FlavorRank
    flavors: dict[str, tuple[str, FitMode, int]]


class Assigner:
    """Finds flavors for one workload in its queue."""

    def __init__(
        self, queue: QueueNode, asked: QueuedWorkload, version: Version, simulate: Simulate, *, is_fair: bool
    ) -> None:
        self._queue, self._asked, self._version, self._simulate = queue, asked, version, simulate
        policies = queue.spec.policies
        self._policies = policies
        self._preempts_borrowing = policies.borrow != NEVER or (is_fair and policies.reclaim != NEVER)
        self._group_of = {name: group for group in queue.spec.groups for name in group.resources}

    def assign(self, tried: Tried | None, counts: Sequence[int] | None = None) -> FlavorAssignment:
        """Return the assignment for all pods, or for fewer of them; starts after the flavors tried before."""
        usage: Amounts = {}
        found: list[Mapping[str, tuple[str, FitMode]]] = []
        marks: list[Mapping[str, int]] = []
        borrowing, worst = 0, FitMode.FIT
        reasons: list[Shortfall] = []
        numbers = tuple(counts) if counts is not None else tuple(one.pods for one in self._asked.sets)
        for index, (pods, count) in enumerate(zip(self._asked.sets, numbers, strict=True)):
            requests = {name: each * count for name, each in pods.requests}
            if "pods" in self._group_of:
                requests["pods"] = count
            flavors, why = self._pod_set(pods, requests, usage, tried[index] if tried and index < len(tried) else {})
            if flavors is None:
                tried_now = (*marks, {})
                return FlavorAssignment(FitMode.NO_FIT, tuple(found), numbers, usage, borrowing, tried_now, tuple(why))
            reasons += why
            for name, (flavor, mode, level) in flavors.items():
                borrowing = max(borrowing, level)
                usage[flavor, name] = usage.get((flavor, name), 0) + requests[name]
                worst = min(
                    worst, mode if why else FitMode.FIT
                )  # as Kueue: if the flavor as a whole counts as one that fits
            found.append({name: (flavor, mode) for name, (flavor, mode, _) in flavors.items()})
            marks.append(self._marks)
        return FlavorAssignment(worst, tuple(found), numbers, usage, borrowing, tuple(marks), tuple(reasons))

    def _pod_set(
        self, pods: PodSetAsk, requests: Mapping[str, int], taken: Amounts, tried: Mapping[str, int]
    ) -> tuple[dict[str, tuple[str, FitMode, int]] | None, list[Shortfall]]:
        flavors: dict[str, tuple[str, FitMode, int]] = {}
        reasons: list[Shortfall] = []
        self._marks: dict[str, int] = {}
        for name, amount in requests.items():
            group = self._group_of.get(name)
            if name in flavors or (group is None and not amount):
                continue
            if group is None:
                return None, [Shortfall(f"ClusterQueue {self._queue.name} does not cover {name}", is_final=True)]
            wanted = {each: requests[each] for each in requests if each in group.resources}
            choice, last, why = self._flavor(group, pods, wanted, taken, tried.get(name, -1) + 1)
            if not choice.flavors:
                return None, why
            if choice.rank.mode != _FIT:
                reasons += why
            flavors |= choice.flavors
            self._marks |= dict.fromkeys(choice.flavors, last)
        return flavors, reasons

    def _flavor(
        self, group: FlavorGroup, pods: PodSetAsk, wanted: Mapping[str, int], taken: Amounts, first: int
    ) -> tuple[_FlavorChoice, int, list[Shortfall]]:
        """Return the best flavor of a group, the last one that was tried, and why the others are none."""
        best, last, reasons = _FlavorChoice(_FlavorRank(_NO_FIT, 1 << 30), {}), -1, list[Shortfall]()
        excluded = dict(pods.excluded)
        for index in range(first, len(group.flavors)):
            flavor = group.flavors[index]
            last = index
            if flavor in excluded:
                reasons.append(Shortfall(f"{flavor} takes no such pods ({excluded[flavor]})", is_final=True))
                continue
            choice, why = self._tried(flavor, wanted, taken)
            reasons += why
            if not self._tries_next(choice.rank):
                best = choice
                break
            if self._is_better(choice.rank, best.rank):
                best = choice
        return best, -1 if last == len(group.flavors) - 1 else last, reasons

    def _tried(self, flavor: str, wanted: Mapping[str, int], taken: Amounts) -> tuple[_FlavorChoice, list[Shortfall]]:
        """Return how a flavor can be had: as the worst of its resources."""
        rank, flavors, reasons = _FlavorRank(_FIT, 0), {}, list[Shortfall]()
        for name, amount in wanted.items():
            cell = (flavor, name)
            one, why = self._fits(cell, taken.get(cell, 0) + amount)
            if why is not None:
                reasons.append(why)
            if self._is_better(rank, one):
                rank = one
            if rank.mode == _NO_FIT:
                return _FlavorChoice(rank, {}), reasons
            mode = FitMode.FIT if one.mode == _FIT else FitMode.PREEMPT
            flavors[name] = (flavor, mode, one.level)
        return _FlavorChoice(rank, flavors), reasons

    def _fits(self, cell: Cell, amount: int) -> tuple[_FlavorRank, Shortfall | None]:
        queue = self._queue
        most = queue.potential(cell)
        flavor, name = cell
        if amount > most:
            most_text = written(name, most)
            return _FlavorRank(_NO_FIT, 0), Shortfall(
                f"{queue.name} has at most {most_text} {name} of {flavor}", is_final=True
            )
        level, may_reclaim = queue.borrowing_level(cell, amount)
        free = queue.available(cell)
        if amount <= free:
            return _FlavorRank(_FIT, level), None
        why = Shortfall(f"{written(name, amount - queue.free(cell))} more {name} of {flavor}")
        if queue.limits(cell).nominal >= amount or may_reclaim or self._preempts_borrowing:
            whom, level = self._simulate(cell, amount)
            return _FlavorRank({"": _NO_CANDIDATES, "preempt": _PREEMPT, "reclaim": _RECLAIM}[whom], level), why
        return _FlavorRank(_NO_FIT, level), why

    def _tries_next(self, rank: _FlavorRank) -> bool:
        if rank.mode in (_NO_FIT, _NO_CANDIDATES):
            return True
        preempts = rank.mode in (_PREEMPT, _RECLAIM) and self._policies.can_preempt == TRY_NEXT
        return preempts or (rank.level > 0 and self._policies.can_borrow == TRY_NEXT)

    def _is_better(self, one: _FlavorRank, other: _FlavorRank) -> bool:
        if _NO_FIT in (one.mode, other.mode):
            return one.mode != _NO_FIT
        is_new = self._version >= _RANKED
        if is_new and (one.mode == _NO_CANDIDATES) != (other.mode == _NO_CANDIDATES):
            return one.mode != _NO_CANDIDATES
        preference = self._policies.preference
        by_level = preference == PREEMPT_FIRST if is_new else preference not in ("", PREEMPT_FIRST)
        if by_level and one.level != other.level:
            return one.level < other.level
        if one.mode != other.mode:
            return one.mode > other.mode
        return one.level < other.level
