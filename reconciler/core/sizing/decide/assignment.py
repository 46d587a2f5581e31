"""Choose GPU products for several jobs together, so that they fit the GPUs that are free, at the lowest cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, prod

from msgspec import Struct

Pool = tuple[str, str]
"""A queue (empty: the nodes) and a GPU product (empty: all together), of which so many GPUs are free."""

_MOST_COMBINATIONS = 20_000  # that are searched completely; beyond, the largest differences come first
_MAX_NAMED = 3
_EQUAL = 1e-9  # costs that are closer are equal: the job that sorts first gets the cheaper product


class CardOption(Struct, frozen=True, kw_only=True):
    """What a job takes on one GPU product, and what it costs there to train as much."""

    product: str
    gpus: int
    cost: float


class Applicant(Struct, frozen=True, kw_only=True):
    """A job that may run on several products, in a queue and those above it.

    `kept` is the product that it was given before, which it keeps.
    """

    job: str
    queues: tuple[str, ...] = ()
    options: tuple[CardOption, ...]
    kept: str = ""

    @property
    def ranked(self) -> tuple[CardOption, ...]:
        """The options, cheapest first."""
        return tuple(sorted(self.options, key=lambda one: (one.cost, one.gpus, one.product)))

    @property
    def gap(self) -> float:
        """What it costs not to get the cheapest option."""
        costs = [one.cost for one in self.ranked]
        return costs[1] - costs[0] if len(costs) > 1 else inf


class Assigned(Struct, frozen=True, kw_only=True):
    """The option of a job. `fits` is false if no product has enough free GPUs. `because` says what is taken by whom."""

    option: CardOption
    fits: bool
    because: str = ""


def assign(applicants: Iterable[Applicant], free: Mapping[Pool, int]) -> dict[str, Assigned]:
    """Return the product of each job: as many jobs as possible fit, and those together cost least.

    Jobs keep what they were given. A pool that `free` lacks has no limit. The order of the jobs does not matter. Few
    jobs are searched completely. Of many, those with the most to lose choose first; then single moves and exchanges
    are made while they improve the result.
    """
    jobs = sorted(applicants, key=lambda one: (-one.gap, one.job))
    room = _Room(free)
    chosen: dict[str, CardOption | None] = {}
    for one in jobs:
        kept = next((option for option in one.options if option.product == one.kept), None)
        if kept is not None:
            room.take(one, kept)
            chosen[one.job] = kept
    undecided = [one for one in jobs if one.job not in chosen]
    if prod(len(one.options) + 1 for one in undecided) <= _MOST_COMBINATIONS:
        chosen |= _search(undecided, room)
    else:
        chosen |= _improve(undecided, room, _take_in_order(undecided, room))
    return {one.job: _explained(one, jobs, chosen, free) for one in sorted(jobs, key=lambda one: one.job)}


class _Room:
    """The GPUs that are still free, by pool."""

    def __init__(self, free: Mapping[Pool, int]) -> None:
        self._free = dict(free)

    def fits(self, one: Applicant, option: CardOption) -> bool:
        return all(self._free.get(pool, option.gpus) >= option.gpus for pool in _pools(one, option))

    def take(self, one: Applicant, option: CardOption | None, *, sign: int = 1) -> None:
        if option is None:
            return
        for pool in _pools(one, option):
            if pool in self._free:
                self._free[pool] -= sign * option.gpus

    def give(self, one: Applicant, option: CardOption | None) -> None:
        self.take(one, option, sign=-1)


def _pools(one: Applicant, option: CardOption) -> Iterator[Pool]:
    yield "", option.product
    for queue in one.queues:
        yield queue, option.product
        yield queue, ""


_Choice = dict[str, CardOption | None]
_Loss = tuple[int, float]
"""How many jobs got nothing, and what the others cost."""


def _loss(options: Iterable[CardOption | None]) -> _Loss:
    listed = list(options)
    return listed.count(None), sum(one.cost for one in listed if one is not None)


def _search(jobs: Sequence[Applicant], room: _Room) -> _Choice:
    """Return the best choice of all."""
    best: tuple[_Loss, _Choice] = ((len(jobs) + 1, 0.0), {})
    least = [one.ranked[0].cost for one in jobs]
    chosen: _Choice = {}

    def visit(at: int, lost: int, cost: float) -> None:
        nonlocal best
        if (lost, cost + sum(least[at:]) + _EQUAL) >= best[0]:
            return
        if at == len(jobs):
            best = ((lost, cost), dict(chosen))
            return
        one = jobs[at]
        for option in one.ranked:
            if room.fits(one, option):
                room.take(one, option)
                chosen[one.job] = option
                visit(at + 1, lost, cost + option.cost)
                room.give(one, option)
        chosen[one.job] = None
        visit(at + 1, lost + 1, cost)

    visit(0, 0, 0.0)
    for one in jobs:
        room.take(one, best[1][one.job])
    return best[1]


def _take_in_order(jobs: Iterable[Applicant], room: _Room) -> _Choice:
    """Give each job in turn the cheapest option that fits."""
    chosen: _Choice = {}
    for one in jobs:
        chosen[one.job] = next((option for option in one.ranked if room.fits(one, option)), None)
        room.take(one, chosen[one.job])
    return chosen


def _improve(jobs: Sequence[Applicant], room: _Room, chosen: _Choice) -> _Choice:
    """Move single jobs, and pairs of jobs, while that lowers the loss."""
    while any(_moved(one, other, room, chosen) for one in jobs for other in jobs):
        pass
    return chosen


def _moved(one: Applicant, other: Applicant, room: _Room, chosen: _Choice) -> bool:
    """Give two jobs (or one, if they are the same) better options, if there are any; return whether there were."""
    pair = (one,) if one is other else (one, other)
    before = [chosen[each.job] for each in pair]
    for each in pair:
        room.give(each, chosen[each.job])
    best, loss = before, _loss(before)
    for first in one.ranked:
        if not room.fits(one, first):
            continue
        room.take(one, first)
        for second in (*other.ranked, None) if other is not one else (None,):
            after: list[CardOption | None] = [first] if other is one else [first, second]
            lost, cost = _loss(after)
            if (lost, cost + _EQUAL) < loss and (second is None or room.fits(other, second)):
                best, loss = after, (lost, cost)
        room.give(one, first)
    for each, option in zip(pair, best, strict=True):
        room.take(each, option)
        chosen[each.job] = option
    return best is not before


def _explained(one: Applicant, jobs: Sequence[Applicant], chosen: _Choice, free: Mapping[Pool, int]) -> Assigned:
    option = chosen[one.job]
    if option is None:
        return Assigned(option=one.ranked[0], fits=False, because="no product has enough free GPUs")
    fits = not any(_taken(pool, jobs, chosen) > free.get(pool, inf) for pool in _pools(one, option))
    cheaper = one.ranked[: one.ranked.index(option)]
    reasons = (_why_not(one, other, option, jobs, chosen) for other in cheaper)
    return Assigned(option=option, fits=fits, because="; ".join(reasons))


def _taken(pool: Pool, jobs: Iterable[Applicant], chosen: _Choice) -> int:
    return sum(
        option.gpus for each in jobs if (option := chosen[each.job]) is not None and pool in _pools(each, option)
    )


def _why_not(one: Applicant, other: CardOption, given: CardOption, jobs: Iterable[Applicant], chosen: _Choice) -> str:
    """Return who takes the GPUs of a cheaper product."""
    holders = sorted(
        (-option.gpus, each.job)
        for each in jobs
        if each.job != one.job and (option := chosen[each.job]) is not None and option.product == other.product
    )
    names = [f"{job} ({-gpus})" for gpus, job in holders[:_MAX_NAMED]]
    more = [f"{len(holders) - _MAX_NAMED} more"] if len(holders) > _MAX_NAMED else []
    what = f"{other.gpus} x {other.product} ({other.cost / given.cost:.2g} times the cost)"
    return f"{what} are taken by {', '.join([*names, *more])}" if holders else f"{what} are not free"
