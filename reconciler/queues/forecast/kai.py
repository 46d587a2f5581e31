"""`forecast_kai`: the rounds of KAI's scheduler over jobs with GPUs at rest, until they change nothing.

In a round it places jobs on free GPUs, then takes GPUs back from queues above their share, then preempts jobs of lower
priority of the same queue. What is evicted waits again. Only GPUs are compared: KAI 0.12 (pkg/scheduler/actions,
plugins/proportion), without its moves of running pods that make room on a node (consolidation).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key
from math import floor, inf
from typing import NamedTuple

from msgspec import Struct

from reconciler.queues.forecast.values import PreemptedWorkload

RECLAIM, PREEMPT = "Reclaim", "Preempt"
_ROUNDS = 10


class KaiQueueSpec(NamedTuple):
    """A queue of KAI: its quota, limit (infinite: none) and weight over its quota. `parent` is empty at the top."""

    name: str
    parent: str = ""
    quota: float = inf
    limit: float = inf
    weight: float = 1.0
    priority: int = 100


class KaiJob(NamedTuple):
    """A job that starts with all its pods. `nodes` has the node of each pod while it runs."""

    name: str
    queue: str
    pods: int
    gpus: int
    priority: int = 50
    created: float = 0.0
    is_preemptible: bool = True
    nodes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The GPUs of all its pods."""
        return self.pods * self.gpus

    @property
    def order(self) -> tuple[int, float, str]:
        """Its place in its queue."""
        return (-self.priority, self.created, self.name)


class KaiOutcome(Struct, kw_only=True):
    """The result of a forecast: the jobs that run at the end, those that are evicted, and why others wait."""

    placed: dict[str, tuple[str, ...]]
    preempted: dict[str, PreemptedWorkload]
    reasons: dict[str, str]


class _KaiQueue:
    def __init__(self, spec: KaiQueueSpec, index: int) -> None:
        self.spec, self.index = spec, index
        self.parent: _KaiQueue | None = None
        self.children: list[_KaiQueue] = []
        self.used = self.held = self.asked = 0.0  # of all jobs that run, of those not preemptible, of all jobs
        self.fair = 0.0

    def up(self) -> "Iterator[_KaiQueue]":
        """Yield the queue and all above it."""
        at: _KaiQueue | None = self
        while at is not None:
            yield at
            at = at.parent

    @property
    def wanted(self) -> float:
        return min(self.spec.limit, self.asked)

    @property
    def allocatable(self) -> float:
        if self.spec.quota == inf:
            return self.spec.limit
        return min(self.spec.limit, max(self.spec.quota, self.fair))

    def share(self, total: float, more: float = 0.0) -> float:
        """Return what it uses of what it may use."""
        allocatable = min(self.allocatable, total) if self.allocatable == inf else self.allocatable
        used = self.used + more
        return used * _NO_SHARE if not allocatable else used / allocatable


_NO_SHARE = 1000.0


def forecast_kai(
    queues: Iterable[KaiQueueSpec], jobs: Iterable[KaiJob], nodes: dict[str, int], usable: Callable[[KaiJob, str], bool]
) -> KaiOutcome:
    """Return what happens to jobs on nodes with so many GPUs each; `usable` says which of them a job may use."""
    return _Rounds(queues, jobs, nodes, usable).run()


class _Rounds:
    def __init__(
        self,
        queues: Iterable[KaiQueueSpec],
        jobs: Iterable[KaiJob],
        nodes: dict[str, int],
        usable: Callable[[KaiJob, str], bool],
    ) -> None:
        self._queues = {spec.name: _KaiQueue(spec, index) for index, spec in enumerate(queues)}
        for queue in self._queues.values():
            above = self._queues.get(queue.spec.parent)
            if above is not None:
                queue.parent = above
                above.children.append(queue)
        self._roots = [queue for queue in self._queues.values() if queue.parent is None]
        self._free, self._usable, self._total = dict(nodes), usable, float(sum(nodes.values()))
        self._waiting: dict[str, KaiJob] = {}
        self._evicted: dict[str, KaiJob] = {}  # in this round, as the next ones
        self._promised: dict[str, KaiJob] = {}  # jobs for which others are evicted, or that move to other nodes
        self._running: dict[str, KaiJob] = {}
        for job in jobs:
            leaf = self._queues.get(job.queue)
            if leaf is None or leaf.children:
                continue
            for each in leaf.up():
                each.asked += job.total
            if job.nodes:
                self._take(job, job.nodes)
            else:
                self._waiting[job.name] = job
        self._outcome = KaiOutcome(placed={}, preempted={}, reasons={})

    def run(self) -> KaiOutcome:
        """Run rounds until one changes nothing."""
        for _ in range(_ROUNDS):
            self._divide(self._total, self._roots)
            before = set(self._running)
            for attempt in (self._place, self._reclaim, self._preempt):
                self._in_order(attempt)
            for job in self._promised.values():  # nobody keeps for them what others give back
                self._release(self._running[job.name])
            self._waiting |= self._promised | self._evicted
            self._promised.clear()
            self._evicted.clear()
            if set(self._running) == before:
                break
        self._outcome.placed = {name: job.nodes for name, job in self._running.items()}
        for name, job in self._waiting.items():
            self._outcome.reasons[name] = self._reason(job)
        return self._outcome

    def _divide(self, total: float, queues: Sequence[_KaiQueue]) -> None:
        """Give each queue its fair share: its quota, and of the rest by its weight, as far as its jobs ask for it."""
        rest = total
        for queue in queues:
            queue.fair = min(total if queue.spec.quota == inf else queue.spec.quota, queue.wanted)
            rest -= queue.fair
        left: dict[int, list[tuple[float, _KaiQueue]]] = {}
        levels = sorted({queue.spec.priority for queue in queues}, reverse=True)
        for level in levels:
            rest, left[level] = _divided(rest, [queue for queue in queues if queue.spec.priority == level])
        for level in levels:
            for _, queue in sorted(left[level], key=lambda one: (-one[0], one[1].index)):
                if rest <= 0:
                    break
                given = min(1.0, rest)
                queue.fair += given
                rest -= given
        for queue in queues:
            if queue.children:
                self._divide(queue.fair, queue.children)

    def _in_order(self, attempt: Callable[[KaiJob], bool]) -> None:
        for job in self._ordered(tuple(self._waiting.values())):
            if attempt(job):
                self._waiting.pop(job.name, None)

    def _ordered(self, jobs: Iterable[KaiJob]) -> Iterator[KaiJob]:
        """Yield jobs: always the first of the queue that is next."""
        left: dict[str, list[KaiJob]] = {}
        for job in sorted(jobs, key=lambda one: one.order, reverse=True):
            left.setdefault(job.queue, []).append(job)
        while left:
            queue = self._next(self._roots, left)
            job = left[queue.spec.name].pop()
            if not left[queue.spec.name]:
                del left[queue.spec.name]
            yield job

    def _next(self, queues: Sequence[_KaiQueue], left: dict[str, list[KaiJob]]) -> _KaiQueue:
        heads = {id(queue): head for queue in queues if (head := self._head(queue, left)) is not None}
        ready = [queue for queue in queues if id(queue) in heads]

        def compare(one: _KaiQueue, other: _KaiQueue) -> int:
            return -1 if self._rank(one, heads[id(one)].total) < self._rank(other, heads[id(other)].total) else 1

        best = min(ready, key=cmp_to_key(compare))
        return self._next(best.children, left) if best.children else best

    def _head(self, queue: _KaiQueue, left: dict[str, list[KaiJob]]) -> KaiJob | None:
        if not queue.children:
            return left[queue.spec.name][-1] if queue.spec.name in left else None
        below = [child for child in queue.children if self._head(child, left) is not None]
        return self._head(self._next(below, left), left) if below else None

    def _rank(self, queue: _KaiQueue, gpus: float) -> tuple[float, ...]:
        return (
            queue.used + gpus > queue.spec.quota,
            -queue.spec.priority,
            not queue.allocatable and queue.used + gpus > 0,
            queue.share(self._total, gpus),
            queue.share(self._total),
            queue.allocatable,
            queue.index,
        )

    def _place(self, job: KaiJob) -> bool:
        """Start a job on free GPUs if its queues allow it."""
        found = self._fits(job, job.pods) if self._is_allowed(job, job.total) else None
        if found is None:
            return False
        self._take(job, found)
        return True

    def _is_allowed(self, job: KaiJob, gpus: float) -> bool:
        for queue in self._queues[job.queue].up():
            if queue.used + gpus > queue.spec.limit:
                return False
            if not job.is_preemptible and queue.held + gpus > queue.spec.quota:
                return False
        return True

    def _fits(self, job: KaiJob, pods: int) -> tuple[str, ...] | None:
        """Return a node for each pod, the fullest that has room; None if there is none for all of them."""
        free = {name: gpus for name, gpus in self._free.items() if self._usable(job, name)}
        chosen = []
        for _ in range(pods):
            best = min((name for name, gpus in free.items() if gpus >= job.gpus), key=free.__getitem__, default=None)
            if best is None:
                return None
            free[best] -= job.gpus
            chosen.append(best)
        return tuple(chosen)

    def _take(self, job: KaiJob, nodes: tuple[str, ...]) -> None:
        for name in nodes:
            self._free[name] = self._free.get(name, 0) - job.gpus
        self._running[job.name] = job._replace(nodes=nodes)
        self._count(job, 1)

    def _release(self, job: KaiJob) -> None:
        for name in job.nodes:
            self._free[name] += job.gpus
        del self._running[job.name]
        self._count(job, -1)

    def _count(self, job: KaiJob, sign: int) -> None:
        for queue in self._queues[job.queue].up():
            queue.used += sign * job.total
            queue.held += 0 if job.is_preemptible else sign * job.total

    def _reclaim(self, job: KaiJob) -> bool:
        queue = self._queues[job.queue]
        if queue.used + job.total > queue.fair:
            return False
        if not job.is_preemptible and queue.held + job.total > queue.spec.quota:
            return False
        victims = [one for one in self._victims() if one.queue != job.queue]
        found = self._solved(job, self._by_share(victims), lambda gone, gpus: self._may_reclaim(job, gpus, gone))
        return self._settled(job, found, RECLAIM)

    def _preempt(self, job: KaiJob) -> bool:
        above = self._queues[job.queue].up()
        if not job.is_preemptible and any(queue.held + job.total > queue.spec.quota for queue in above):
            return False
        victims = [one for one in self._victims() if one.queue == job.queue and one.priority < job.priority]
        ordered = sorted(victims, key=lambda one: one.order, reverse=True)
        return self._settled(job, self._solved(job, ordered, lambda _gone, _gpus: True), PREEMPT)

    def _victims(self) -> Iterator[KaiJob]:
        return (one for one in self._running.values() if one.is_preemptible)

    def _by_share(self, victims: Iterable[KaiJob]) -> list[KaiJob]:
        """Return victims in order: always the last job of the queue that is furthest above its share then."""
        left: dict[str, list[KaiJob]] = {}
        for job in sorted(victims, key=lambda one: one.order):
            left.setdefault(job.queue, []).append(job)
        gone: dict[str, float] = {}
        ordered = []
        while left:
            queue = self._last(self._roots, left, gone)
            job = left[queue.spec.name].pop()
            if not left[queue.spec.name]:
                del left[queue.spec.name]
            gone[queue.spec.name] = gone.get(queue.spec.name, 0.0) + job.total
            ordered.append(job)
        return ordered

    def _last(self, queues: Sequence[_KaiQueue], left: dict[str, list[KaiJob]], gone: dict[str, float]) -> _KaiQueue:
        """Return the queue without children that loses the next job."""
        leaves = {id(queue): leaf for queue in queues if (leaf := self._leaf(queue, left, gone)) is not None}

        def rank(queue: _KaiQueue) -> tuple[float, ...]:
            name = leaves[id(queue)].spec.name
            return self._rank_of_victims(queue, gone.get(name, 0.0) + left[name][-1].total)

        return leaves[id(max((queue for queue in queues if id(queue) in leaves), key=rank))]

    def _leaf(self, queue: _KaiQueue, left: dict[str, list[KaiJob]], gone: dict[str, float]) -> _KaiQueue | None:
        if not queue.children:
            return queue if queue.spec.name in left else None
        has = any(self._leaf(child, left, gone) is not None for child in queue.children)
        return self._last(queue.children, left, gone) if has else None

    def _rank_of_victims(self, queue: _KaiQueue, gone: float) -> tuple[float, ...]:
        return (
            queue.used > queue.spec.quota,
            -queue.spec.priority,
            not queue.allocatable and queue.used > 0,
            queue.share(self._total, -gone),
            queue.share(self._total),
            queue.allocatable,
            queue.index,
        )

    def _solved(
        self, job: KaiJob, victims: Sequence[KaiJob], is_valid: Callable[[Sequence[KaiJob], float], bool]
    ) -> list[KaiJob] | None:
        """Return the jobs whose GPUs let a job start; None if there are none. A pod more is tried at each step."""
        recorded, found = list[KaiJob](), None
        for pods in range(1, job.pods + 1):
            found = self._solved_for(job, pods, recorded, victims, is_valid)
            recorded = recorded if found is None else found
        return found

    def _solved_for(
        self,
        job: KaiJob,
        pods: int,
        recorded: list[KaiJob],
        victims: Sequence[KaiJob],
        is_valid: Callable[[Sequence[KaiJob], float], bool],
    ) -> list[KaiJob] | None:
        def is_solved(gone: Sequence[KaiJob]) -> bool:
            lost = self._would_lose(job, pods, gone)
            return lost is not None and is_valid(lost, pods * job.gpus)

        if recorded and is_solved(recorded):
            return recorded
        known = {one.name for one in recorded}
        added: list[KaiJob] = []
        for victim in (one for one in victims if one.name not in known):
            added.append(victim)
            for node in dict.fromkeys(victim.nodes):
                gone = [*recorded, *(one for one in added if node in one.nodes)]
                if is_solved(gone):
                    return gone
        return None

    def _lost(self, job: KaiJob, gone: Sequence[KaiJob]) -> list[KaiJob] | None:
        """Place a job and those that were taken away for it, in the order of the queues.

        Returns those that find no place; None, and all is as before, if the job finds none.
        """
        before = dict(self._free), dict(self._running), {q: (q.used, q.held) for q in self._queues.values()}
        for one in gone:
            self._release(one)
        names = {job.name, *(one.name for one in gone)}
        waiting = {one.name: one for one in (*self._waiting.values(), *gone)} | {job.name: job}
        lost: list[KaiJob] = []
        for one in self._ordered(waiting.values()):
            if one.name in names and not self._place(one._replace(nodes=())):
                lost.append(one)
                if one.name == job.name:
                    break
        if any(one.name == job.name for one in lost):
            self._restore(*before)
            return None
        return lost

    def _restore(
        self, free: dict[str, int], running: dict[str, KaiJob], used: "dict[_KaiQueue, tuple[float, float]]"
    ) -> None:
        self._free, self._running = free, running
        for queue, (amount, held) in used.items():
            queue.used, queue.held = amount, held

    def _would_lose(self, job: KaiJob, pods: int, gone: Sequence[KaiJob]) -> list[KaiJob] | None:
        """Return the jobs that would find no place; None if the first pods of a job would not. Nothing changes."""
        before = dict(self._free), dict(self._running), {q: (q.used, q.held) for q in self._queues.values()}
        lost = self._lost(job._replace(pods=pods), gone)
        self._restore(*before)
        return lost

    def _settled(self, job: KaiJob, found: list[KaiJob] | None, reason: str) -> bool:
        """Evict the victims and start the job. A victim that fits on its nodes stays; one that moves waits again."""
        lost = self._lost(job, found) if found is not None else None
        if found is None or lost is None:
            return False
        self._promised[job.name] = job
        for one in found:
            if one.name in self._running and sorted(self._running[one.name].nodes) != sorted(one.nodes):
                self._promised[one.name] = one._replace(nodes=())
        for one in lost:
            self._promised.pop(one.name, None)
            self._evicted[one.name] = one._replace(nodes=())
            self._outcome.preempted.setdefault(one.name, PreemptedWorkload(job.name, reason))
        return True

    def _may_reclaim(self, job: KaiJob, gpus: float, gone: Sequence[KaiJob]) -> bool:
        """Return whether queues may lose jobs to a queue: it is within its quota, or they are above their share."""
        mine = list(self._queues[job.queue].up())[::-1]
        rest = {queue.spec.name: queue.used for queue in self._queues.values()}
        lost: set[str] = set()
        for one in gone:
            theirs = list(self._queues[one.queue].up())[::-1]
            own, other = next(pair for pair in zip(mine, theirs, strict=False) if pair[0] is not pair[1])
            is_over_share = rest[other.spec.name] > other.allocatable
            is_starved = own.used + gpus <= own.spec.quota and rest[other.spec.name] > other.spec.quota
            if not (is_over_share or is_starved):
                return False
            for queue in theirs:
                rest[queue.spec.name] -= one.total
                lost.add(queue.spec.name)
        for queue in self._queues[job.queue].up():
            ratio = _saturation(rest[queue.spec.name] + gpus, queue.fair)
            for name in lost:
                other = self._queues[name]
                is_sibling = other.parent is queue.parent and other is not queue and other.fair > 0
                if is_sibling and 1 < ratio >= _saturation(rest[name], other.fair):
                    return False
            if not job.is_preemptible and queue.held + gpus > queue.spec.quota:
                return False
        return True

    def _reason(self, job: KaiJob) -> str:
        for queue in self._queues[job.queue].up():
            if queue.used + job.total > queue.spec.limit:
                return f"the limit of queue {queue.spec.name}"
            if not job.is_preemptible and queue.held + job.total > queue.spec.quota:
                return f"the quota of queue {queue.spec.name}, beyond which no job runs that cannot be preempted"
        free = sum(self._free.values())
        return f"{job.total - free:g} more GPUs" if free < job.total else "GPUs on the same nodes"


def _divided(total: float, queues: Sequence[_KaiQueue]) -> tuple[float, list[tuple[float, _KaiQueue]]]:
    """Divide GPUs over quotas by weight, in rounds; return the rest, and the parts of a GPU that queues did not get."""
    parts: dict[int, tuple[float, _KaiQueue]] = {}
    while total > 0:
        asking = [queue for queue in queues if queue.wanted > queue.fair and queue.spec.weight]
        weights = sum(queue.spec.weight for queue in asking)
        again, now = False, total
        for queue in asking:
            part, wanted = now * queue.spec.weight / weights, queue.wanted - queue.fair
            given = wanted if wanted <= part else float(floor(part))
            if wanted <= part:
                parts.pop(id(queue), None)
            elif part > given:
                parts[id(queue)] = (part - given, queue)
            queue.fair += given
            total -= given
            again = again or (wanted < part and given > 0)
        if not again:
            break
    return total, list(parts.values())


def _saturation(used: float, fair: float) -> float:
    return used / fair if fair else inf if used > 0 else 0.0
