"""`outlook`: the placement of a cluster before and after a change, from its evidence."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.kube.objects import ObjectKey
from reconciler.kube.times import unix_time
from reconciler.placement.fleet import ClusterNodes, Excluded, PlacementEvidence
from reconciler.placement.jobs import QueuedJob, job_of_use
from reconciler.placement.placing import ClusterPlacement, ends_of, place_jobs
from reconciler.repo.evidence.usage import ADMITTED, RUNNING, WAITING, Usage


class Intent(Struct, frozen=True, kw_only=True):
    """The demands of a change on a cluster: jobs that need nodes, and workloads that give theirs back.

    known: jobs of the repository that it does not change, by key: where those that wait may run.
    """

    jobs: tuple[QueuedJob, ...] = ()
    gone: frozenset[ObjectKey] = frozenset()
    known: Mapping[ObjectKey, QueuedJob] = field(default_factory=dict)


class Outlook(Struct, frozen=True, kw_only=True):
    """Both sides of a change; nodes that take no work; and what contradicts the evidence."""

    before: ClusterPlacement
    after: ClusterPlacement
    excluded: tuple[Excluded, ...] = ()
    notes: tuple[str, ...] = ()


Places = Sequence[Sequence[tuple[str, int]]]


class _Held(NamedTuple):
    job: QueuedJob
    started: str
    places: Places


def outlook(
    known: PlacementEvidence, strategy: str, intent: Intent, *, changed: PlacementEvidence | None = None
) -> Outlook:
    """Place what waits and what is new by a strategy. changed: the evidence as a scenario would have it."""
    after = known if changed is None else changed
    running, waiting = _demand(known.usage, intent)
    left, queued = (running, waiting) if after.usage is known.usage else _demand(after.usage, intent)
    left = [one for one in left if one.job.key not in intent.gone]
    new = {job.key for job in intent.jobs} | intent.gone
    queued = [job for job in queued if job.key not in new]
    jobs = [*queued, *_as_queued(known.usage, intent.jobs)]
    every = [*(one.job for one in running), *waiting, *jobs]
    later, fleet, notes = _placed(after, strategy, left, jobs, every)
    is_same = after is known and left == running and jobs == waiting
    earlier = later if is_same else _placed(known, strategy, running, waiting, every)[0]
    return Outlook(before=earlier, after=later, excluded=tuple(fleet.excluded), notes=(*notes, *known.usage.coverage))


def _placed(
    known: PlacementEvidence,
    strategy: str,
    running: Sequence[_Held],
    jobs: Sequence[QueuedJob],
    every: Sequence[QueuedJob],
) -> tuple[ClusterPlacement, ClusterNodes, list[str]]:
    """Place jobs on whole GPUs, and those with slices on what nodes offer of their resource; GPUs are whole ones."""
    whole = [one for one in running if not one.job.slices]
    placed, fleet, notes = _placed_alike(known, strategy, whole, [job for job in jobs if not job.slices], every)
    found = [*placed.jobs]
    for resource in sorted({job.slices for job in jobs} - {""}):
        part = _of_slices(known, resource)
        asking = [job for job in jobs if job.slices == resource]
        if not any(node.gpus for node in part.inventory.nodes):
            asking = [replace(job, unknown=f"no node of the evidence offers {resource}") for job in asking]
        holding = [one for one in running if one.job.slices == resource]
        found += _placed_alike(part, strategy, holding, asking, every)[0].jobs
    return replace(placed, jobs=tuple(found)), fleet, notes


def _of_slices(known: PlacementEvidence, resource: str) -> PlacementEvidence:
    """Return the evidence with slices of one resource in place of GPUs. How busy slices are is not measured."""
    nodes = tuple(
        replace(node, gpus=number, allocatable_gpus=number, product=resource, memory_mib=0)
        for node in known.inventory.nodes
        for number in (node.slices.get(resource, 0),)
    )
    return replace(known, inventory=replace(known.inventory, nodes=nodes), utilisation=None)


def _placed_alike(
    known: PlacementEvidence,
    strategy: str,
    running: Sequence[_Held],
    jobs: Sequence[QueuedJob],
    every: Sequence[QueuedJob],
) -> tuple[ClusterPlacement, ClusterNodes, list[str]]:
    fleet = ClusterNodes(known, (pods.site for job in every for pods in job.pods))
    notes = fleet.occupy((one.job, one.places) for one in running)
    fleet.space.cursor = _cursor(fleet, running)
    ends = ends_of(fleet, running, known.usage.observed_at)
    return place_jobs(fleet, [one.job for one in running], jobs, strategy, ends), fleet, notes


def _cursor(fleet: ClusterNodes, running: Sequence[_Held]) -> int:
    """Return the node that a pod got last, as the evidence in Git says: where a rotation goes on."""
    last = max(running, key=lambda one: (unix_time(one.started), one.job.key), default=None)
    names = [name for nodes in last.places for name, _ in nodes] if last is not None else []
    return max((fleet.index[name] for name in names if name in fleet.index), default=-1)


def _demand(usage: Usage, intent: Intent) -> tuple[list[_Held], list[QueuedJob]]:
    """Return the workloads that hold nodes, and those that want some: first those that have quota already."""
    held, admitted = [], []
    for one in usage.workloads:
        if one.state not in (RUNNING, ADMITTED) or not one.pod_sets:
            continue
        job = job_of_use(one, intent.known.get(one.key))
        if any(pods.nodes for pods in one.pod_sets):
            held.append(_Held(job, one.started_at or one.admitted_at, tuple(pods.nodes for pods in one.pod_sets)))
        elif job.amount:
            admitted.append(job)
    waiting = (job_of_use(one, intent.known.get(one.key)) for one in usage.workloads if one.state == WAITING)
    waits = sorted((job for job in waiting if job.amount), key=lambda job: (job.since, job.key))
    return held, [*admitted, *waits]


def _as_queued(usage: Usage, jobs: Sequence[QueuedJob]) -> list[QueuedJob]:
    """Return changed jobs with the time at which they were submitted, if they wait already."""
    since = {one.key: one.created_at for one in usage.workloads if one.state == WAITING}
    return [replace(job, since=since[job.key]) if since.get(job.key) else job for job in jobs]
