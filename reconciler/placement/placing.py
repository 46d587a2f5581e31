"""Placing jobs, one after the other: whole or not at all, in the fewest domains, nodes with warnings last."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.times import unix_time
from reconciler.kube.values import plural
from reconciler.placement.fleet import ClusterNodes, mix_of, prefers
from reconciler.placement.jobs import PodAsk, QueuedJob
from reconciler.placement.reasons import why_not
from reconciler.placement.space import UNMEASURED, WHOLE, Ask, NodeChoice, NodeRoom, PlacementStrategy, Space
from reconciler.placement.strategies import STRATEGIES, Waste

_MOST_NAMES = 3
_MOST_ASKED = 20  # jobs of which it is asked whether they would fit now


class JobPlacement(Struct, frozen=True, kw_only=True):
    """A job and its nodes, with the number of pods on each; or why it has none.

    racks: domains of the lowest level of the topology above nodes. notes: what a reviewer should know.
    """

    job: QueuedJob
    nodes: tuple[tuple[str, int], ...] = ()
    racks: int = 0
    why: str = ""
    strategy: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_placed(self) -> bool:
        """True if all its pods have nodes."""
        return bool(self.nodes)


class ClusterPlacement(Struct, frozen=True, kw_only=True):
    """Jobs as a strategy places them. Amounts are GPUs: of all nodes, in use before and after, unusable for the mix."""

    strategy: str
    jobs: tuple[JobPlacement, ...]
    gpus: float
    used: float
    allocated: float
    stranded: float
    racks: int


class Ends(Struct, frozen=True, kw_only=True):
    """The times at which running workloads end, each with their pods. now: the time of the evidence."""

    now: float
    at: tuple[tuple[float, tuple[tuple[int, Ask, int], ...]], ...] = ()
    is_complete: bool = True  # every running workload has an end that is known


def place_jobs(
    fleet: ClusterNodes, running: Iterable[QueuedJob], jobs: Sequence[QueuedJob], strategy: str, ends: Ends | None
) -> ClusterPlacement:
    """Place jobs by a strategy on what is free of a fleet; of several ways that it knows, take what allocates most."""
    row = STRATEGIES[strategy]
    mix = mix_of(fleet, (*running, *jobs))
    waste = Waste(mix)
    found: list[tuple[int, float, int, list[JobPlacement], Space]] = []
    for way in row.make(mix):
        space = fleet.space.copy()
        placed = _Placing(fleet, space, way, strategy, mix, ends).all(jobs)
        allocated = sum(one.job.amount for one in placed if one.is_placed)
        found.append((-allocated, waste.stranded(space), len(found), placed, space))
    _, stranded, _, placed, space = min(found, key=lambda one: one[:3])
    free = sum(fleet.space.free.values())
    return ClusterPlacement(
        strategy=strategy,
        jobs=tuple(placed),
        gpus=fleet.capacity / WHOLE,
        used=(fleet.capacity - free) / WHOLE,
        allocated=(fleet.capacity - sum(space.free.values())) / WHOLE,
        stranded=stranded / WHOLE,
        racks=len({place for node, room in enumerate(space.rooms) if (place := _rack(fleet, node)) and _is_used(room)}),
    )


def _rack(fleet: ClusterNodes, node: int) -> tuple[str, ...]:
    return fleet.place(node, len(fleet.rack_levels))


def _is_used(room: NodeRoom) -> bool:
    return sum(room.slots) < WHOLE * len(room.slots)


class _Placing:
    """One way of a strategy at work on a space."""

    def __init__(  # noqa: PLR0917 - what all its jobs share
        self,
        fleet: ClusterNodes,
        space: Space,
        way: PlacementStrategy,
        name: str,
        mix: Mapping[Ask, int],
        ends: Ends | None,
    ) -> None:
        self._fleet, self._space, self._way, self._name, self._mix, self._ends = fleet, space, way, name, mix, ends
        self._others: dict[str, PlacementStrategy] = {}
        self._reasons: dict[tuple[PodAsk, str], str] = {}

    def all(self, jobs: Sequence[QueuedJob]) -> list[JobPlacement]:
        """Place jobs in their order, without those that queues hold.

        With priorities, those behind one that waits are placed only if they cannot delay it.
        """
        by_priority = STRATEGIES[self._name].by_priority
        order = sorted(
            (job for job in jobs if not job.held),
            key=lambda job: (-job.priority, job.since or "~", job.key) if by_priority else (job.since or "~",),
        )
        placed: list[JobPlacement] = []
        head: QueuedJob | None = None
        asked = 0
        for job in order:
            if head is None:
                found = self._place(job)
                head = job if by_priority and not found.is_placed and not job.unknown and self._may_fit(job) else None
            else:
                found = self._backfill(job, head)
            is_behind = job.is_changed and head is None and not found.is_placed and not job.unknown
            asked += is_behind
            is_behind &= asked <= _MOST_ASKED
            placed.append(replace(found, why=f"{found.why}{self._behind(job, placed)}") if is_behind else found)
        held = (JobPlacement(job=job, why=job.held, strategy=self._strategy(job)[1]) for job in jobs if job.held)
        return [*placed, *held]

    def _behind(self, job: QueuedJob, placed: Sequence[JobPlacement]) -> str:
        """Return who gets the room first, if a job has some now."""
        space = self._fleet.space.copy()
        trial = _Placing(self._fleet, space, self._way, self._name, self._mix, None)
        now = trial._place(job)
        groups = {group for pods in job.pods if pods.gpus for group in self._fleet.ask(pods).groups}
        names = [
            one.job.key.name
            for one in placed
            if any(space.rooms[self._fleet.index[name]].group in groups for name, _ in one.nodes)
        ]
        if not now.is_placed or not names:
            return ""
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        return f"; the room that there is now goes to what waits already: {', '.join(names[:_MOST_NAMES])}{more}"

    def _may_fit(self, job: QueuedJob) -> bool:
        """Return whether a job would fit if nothing ran: one that never will keeps nobody waiting."""
        rooms = self._space.rooms
        empty = (NodeRoom(one.name, one.group, UNMEASURED, UNMEASURED, (WHOLE,) * len(one.slots)) for one in rooms)
        trial = _Placing(self._fleet, Space(empty), self._way, self._name, self._mix, None)
        return trial._place(job).is_placed

    def _backfill(self, job: QueuedJob, head: QueuedJob) -> JobPlacement:
        """Place a job behind a head that waits, if it ends before the head can start, or leaves it its room (EASY)."""
        behind = f"behind {head.key.name}, which has a higher priority and waits"
        ends = self._ends
        if ends is None or not ends.is_complete:
            return JobPlacement(job=job, why=f"waits {behind}; when that starts is unknown", strategy=self._name)
        start = self._shadow(head, ends)
        before = [*self._space.rooms]
        found = self._place(job)
        if not found.is_placed:
            return found
        ended = job.seconds is not None and start is not None and ends.now + job.seconds <= start
        if ended or (start is not None and self._fits_at(head, start, ends)):
            note = f"backfilled {behind}" + (
                ", and ends before that can start" if ended else ", and leaves it its room"
            )
            return JobPlacement(job=job, nodes=found.nodes, racks=found.racks, strategy=found.strategy, notes=(note,))
        self._restore(before)
        return JobPlacement(job=job, why=f"waits {behind}: it would delay that", strategy=self._name)

    def _shadow(self, head: QueuedJob, ends: Ends) -> float | None:
        """Return when enough of what runs has ended for a job to start."""
        return next((time for time, _ in ends.at if self._fits_at(head, time, ends)), None)

    def _fits_at(self, head: QueuedJob, start: float, ends: Ends) -> bool:
        """Return whether a job fits at a time, when what ends until then has ended."""
        space = self._space.copy()
        for time, pods in ends.at:
            if time <= start:
                for node, ask, count in pods:
                    space.release(node, ask, count)
        trial = _Placing(self._fleet, space, self._way, self._name, self._mix, None)
        return trial._place(head).is_placed

    def _place(self, job: QueuedJob) -> JobPlacement:
        """Place all pods of a job, or none."""
        strategy, name = self._strategy(job)
        if job.unknown:
            return JobPlacement(job=job, why=f"unknown: {job.unknown}", strategy=name)
        before, cursor, nodes = [*self._space.rooms], self._space.cursor, dict[int, int]()
        for pods in job.pods:
            if not self._pods(pods, strategy, name, nodes):
                if nodes:
                    self._restore(before)
                    self._space.cursor = cursor
                return JobPlacement(job=job, why=self._why(pods, name), strategy=name)
        rooms = self._space.rooms
        racks = {rack for node in nodes if (rack := _rack(self._fleet, node))}
        return JobPlacement(
            job=job,
            nodes=tuple((rooms[node].name, count) for node, count in sorted(nodes.items())),
            racks=len(racks),
            strategy=name,
            notes=tuple(self._notes(job, nodes)),
        )

    def _why(self, pods: PodAsk, strategy: str) -> str:
        """Return why pods do not fit. There is less and less room: what was true of equal pods before is still."""
        key = (pods, strategy)
        if key not in self._reasons:
            self._reasons[key] = why_not(self._fleet, self._space, pods, self._fleet.ask(pods))
        return self._reasons[key]

    def _strategy(self, job: QueuedJob) -> tuple[PlacementStrategy, str]:
        """Return the strategy of a job: its own, or that of the cluster."""
        name = job.strategy if job.strategy in STRATEGIES else self._name
        if name == self._name:
            return self._way, name
        if name not in self._others:
            self._others[name] = STRATEGIES[name].make(self._mix)[0]
        return self._others[name], name

    def _restore(self, before: Sequence[NodeRoom]) -> None:
        for node, (old, new) in enumerate(zip(before, self._space.rooms, strict=True)):
            if old is not new:
                self._space.put(node, old)

    def _pods(self, pods: PodAsk, strategy: PlacementStrategy, name: str, taken: dict[int, int]) -> bool:
        """Place equal pods; return whether that is possible."""
        ask, levels = self._fleet.ask(pods), self._fleet.rack_levels
        if not pods.gpus and not pods.site.hosts:
            return True  # where pods without GPUs run is not told
        if pods.prefers or (levels and (pods.pods > 1 or pods.topology is not None)):
            return self._gang(pods, ask, strategy, taken)
        for _ in range(pods.pods):
            found = (
                self._space.after(self._space.cursor, ask)
                if STRATEGIES[name].rotates
                else self._space.find(strategy, ask)
            )
            if found is None:
                return False
            self._take(found, ask, taken)
        return True

    def _gang(self, pods: PodAsk, ask: Ask, strategy: PlacementStrategy, taken: dict[int, int]) -> bool:
        """Place pods in one domain that is as small as possible, else in few; on preferred nodes first."""
        nodes = [*self._space.nodes_of(ask.groups)]
        for chosen in self._preferred(nodes, pods):
            for domain in self._domains(chosen, pods, ask):
                for _ in range(pods.pods):
                    found = self._space.best_of(strategy, ask, domain)
                    if found is None:
                        break
                    self._take(found, ask, taken)
                return True
        return False

    def _preferred(self, nodes: Sequence[int], pods: PodAsk) -> Iterator[list[int]]:
        """Yield more and more of the nodes: those that the pods prefer and that are healthy first."""
        rooms, terms = self._space.rooms, pods.prefers
        ranks = {node: (rooms[node].rank, prefers(terms, self._fleet.labels(node)) if terms else 0) for node in nodes}
        for most in sorted(set(ranks.values())):
            yield [node for node in nodes if ranks[node] <= most]

    def _domains(self, nodes: Sequence[int], pods: PodAsk, ask: Ask) -> Iterator[list[int]]:
        """Yield nodes that have room for all pods: of the smallest domain that has, else of the fewest."""
        fits = {node: count for node in nodes if (count := self._space.fits(node, ask))}
        if sum(fits.values()) < pods.pods:
            return
        levels, request = self._fleet.rack_levels, pods.topology
        is_required = request is not None and request.mode == "required"
        least = (
            levels.index(request.level) + 1 if request is not None and is_required and request.level in levels else 0
        )
        for depth in range(len(levels), max(least, 1) - 1, -1):
            rooms = self._rooms(fits, depth)
            enough = [(count, place) for place, count in rooms.items() if count >= pods.pods]
            if enough:
                _, chosen = min(enough)
                yield [node for node in fits if self._fleet.place(node, depth) == chosen]
                return
        if not least:
            yield self._fewest(fits, pods.pods)

    def _fewest(self, fits: Mapping[int, int], pods: int) -> list[int]:
        """Return the nodes of the fewest racks that have room for pods together, the largest first."""
        depth, left, chosen = len(self._fleet.rack_levels), pods, list[int]()
        for count, place in sorted(((-count, place) for place, count in self._rooms(fits, depth).items())):
            if left <= 0:
                break
            left += count
            chosen += (node for node in fits if self._fleet.place(node, depth) == place)
        return chosen

    def _rooms(self, fits: Mapping[int, int], depth: int) -> dict[tuple[str, ...], int]:
        rooms: dict[tuple[str, ...], int] = {}
        for node, count in fits.items():
            place = self._fleet.place(node, depth)
            rooms[place] = rooms.get(place, 0) + count
        return rooms

    def _take(self, choice: NodeChoice, ask: Ask, taken: dict[int, int]) -> None:
        self._space.take(choice, ask)
        taken[choice.node] = taken.get(choice.node, 0) + 1

    def _notes(self, job: QueuedJob, nodes: Iterable[int]) -> Iterator[str]:
        """Yield what speaks against the nodes of a job, although it gets them."""
        rooms = [self._space.rooms[node] for node in nodes]
        warned = [room.name for room in rooms if room.rank and room.rank[0] > 1]
        busy = [room for room in rooms if room.rank and room.rank[1]]
        if warned:
            yield f"health checks warn on {', '.join(warned[:3])}: no healthy node has room"
        if busy:
            yield f"{plural(len(busy), 'node')} above the utilisation goal of {self._fleet.known.goal} %"
        hosts = [host for pods in job.pods for host in pods.site.hosts]
        if hosts:
            yield f"pinned to {', '.join(hosts[:3])}: if such a node fails, the job waits"
        terms = [pods.prefers for pods in job.pods if pods.prefers]
        if terms and not all(any(not prefers(one, self._fleet.labels(node)) for one in terms) for node in nodes):
            yield "not on the nodes that it prefers: they have no room"


def ends_of(
    fleet: ClusterNodes, running: Sequence[tuple[QueuedJob, str, Sequence[Sequence[tuple[str, int]]]]], now: str
) -> Ends | None:
    """Return when running jobs end, by their start and duration; None if the evidence has no time."""
    present = unix_time(now)
    if not present:
        return None
    found: dict[float, list[tuple[int, Ask, int]]] = {}
    is_complete = True
    for job, started, places in running:
        begin = unix_time(started)
        if not begin or job.seconds is None:
            is_complete = False
            continue
        pods = found.setdefault(max(present, begin + job.seconds), [])
        for one, nodes in zip(job.pods, places, strict=True):
            ask = Ask(one.cpu, one.memory, one.gpus, one.share, ())
            pods += ((fleet.index[name], ask, count) for name, count in nodes if name in fleet.index)
    return Ends(
        now=present, at=tuple((time, tuple(pods)) for time, pods in sorted(found.items())), is_complete=is_complete
    )
