"""Look at the running jobs of a cluster: which hang, which are slow, and what those that ended left on their GPUs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.clock import Clock
from reconciler.errors import ConfigError
from reconciler.health.events import EventTarget, notify_job, record_event
from reconciler.health.fast_lane import LaneRound
from reconciler.health.fleet_reading import find_owner, pods_on
from reconciler.health.state_store import LaneState
from reconciler.kinds.kind import Kinds
from reconciler.kinds.progress import Phase
from reconciler.kinds.workloads import POD
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.values import NOT_JSON, text
from reconciler.live.observe.placed import controller_of, placed_jobs, row_of, succeeded_owners
from reconciler.live.observe.preflights import incomplete_preflights
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.inflight.detect import JobSeries
from reconciler.nodehealth.inflight.notes import JobNote, JobNoteKind, left_by, notes
from reconciler.nodehealth.inflight.postflight import JobErrors, newest
from reconciler.nodehealth.inflight.watch import ObservedJobs, WatchedJob, look

MAX_COUNT = 100
"""The number of jobs that are remembered of a node: the most that a policy can ask for."""

_DEPTH = 5  # a Job of a JobSet of a TrainJob in an AppWrapper, and one more


class ProvenNodes(Struct, frozen=True, kw_only=True):
    """The workloads that ended well on each node in probation, by UID; and what could not be read."""

    jobs: Mapping[str, tuple[str, ...]] = {}
    problems: tuple[str, ...] = ()


def ended_well(cluster: LiveCluster, kinds: Kinds, done: LaneRound) -> ProvenNodes:
    """Return what was known, with the workloads that have ended well since. A list that fails counts nothing.

    Only the pods of nodes in probation are listed.
    """
    jobs: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, node in sorted(done.evaluation.state.nodes.items()):
        if node.phase is not HealthPhase.PROBATION:
            continue
        known = done.state.proven.get(name, ())
        try:
            owners = succeeded_owners(kinds, pods_on(cluster, name), node.since)
            new = [uid for one in owners for uid in _succeeded(cluster, kinds, one)]
        except ClusterError as error:
            problems.append(f"{name}: the jobs of its probation cannot be counted: {error.message}")
            new = []
        if known or new:
            jobs[name] = tuple(dict.fromkeys((*known, *new)))[:MAX_COUNT]
    return ProvenNodes(jobs=jobs, problems=tuple(problems))


def _succeeded(cluster: LiveCluster, kinds: Kinds, owner: Mapping[str, Any]) -> Iterator[str]:
    """Yield the UID of the whole workload of an owner if all of it succeeded."""
    namespace = text(owner.get("namespace"))
    for _ in range(_DEPTH):
        row, body = row_of(kinds, owner), find_owner(cluster, namespace, owner)
        if body is None or row.life.progress is None:
            return
        above = controller_of(body)
        if row_of(kinds, above).life.progress is None:
            if row.life.progress(body).phase is Phase.SUCCEEDED:
                yield text(owner.get("uid"))
            return
        owner = above


LOOK_SECONDS = 60.0
"""The time between two looks: agents report less often."""

ERRORS = "GPUErrors"
"""The reason of events on jobs that ended."""

INCOMPLETE = "PreflightIncomplete"
"""The reason of events on jobs whose ranks wait for each other."""

_PHASES = ("Running", "Pending")


class JobWatch(Struct, frozen=True, kw_only=True):
    """The jobs of a cluster as they are kept between two looks. Losing it costs a new warm-up."""

    looked_at: float = 0.0
    jobs: tuple[WatchedJob, ...] = ()


class JobsRound(Struct, frozen=True, kw_only=True, eq=False):
    """One look: what is kept, what is said now, what ended jobs left, and the pods there are.

    late: jobs that began to wait for preflight checks of some of their ranks. proven: what ended well on nodes in
    probation.
    """

    watch: JobWatch
    observed: ObservedJobs
    notes: tuple[JobNote, ...]
    left: tuple[JobErrors, ...] = ()
    late: tuple[JobNote, ...] = ()
    pods: Sequence[Body] = ()
    proven: ProvenNodes = ProvenNodes()

    def state(self, before: LaneState) -> LaneState:
        """Return the state of the lanes with what was found."""
        errors = newest(before.job_errors, self.left, self.watch.looked_at)
        return replace(before, jobs=self.notes, job_errors=errors, proven=dict(self.proven.jobs))


def read_series(path: str, content: bytes) -> tuple[JobSeries, ...]:
    """Return the series in a file: what is kept of watched jobs, or a list of series. Raises `ConfigError`."""
    try:
        if content.lstrip().startswith(b"["):
            return msgspec.json.decode(content, type=tuple[JobSeries, ...])
        return tuple(one.series for one in msgspec.json.decode(content, type=JobWatch).jobs)
    except NOT_JSON as error:
        raise ConfigError(
            f"{path}: not a recorded series of jobs: {error}", hint="the controller keeps jobs-CLUSTER.json"
        ) from None


def look_at_jobs(cluster: LiveCluster, kinds: Kinds, watch: JobWatch, done: LaneRound) -> JobsRound | None:
    """Look at the running jobs; None while the last look is recent."""
    if 0 <= done.now - watch.looked_at < LOOK_SECONDS:
        return None
    resource = cluster.resource(*POD)
    pods = [pod for phase in _PHASES for pod in cluster.list(resource, fields=f"status.phase={phase}").objects]
    observed = look(watch.jobs, placed_jobs(kinds, pods), done.reading.reports, done.now)
    late = incomplete_preflights(pods, done.now)
    said = (*notes(done.state.jobs, observed, done.reading.reports, done.now), *late)
    kept = JobWatch(looked_at=done.now, jobs=observed.jobs)
    left = left_by(observed, done.reading.reports)
    known = {one.uid for one in done.state.jobs if one.kind is JobNoteKind.PREFLIGHT}
    new = tuple(one for one in late if one.uid not in known)
    proven = ended_well(cluster, kinds, done)
    return JobsRound(watch=kept, observed=observed, notes=said, left=left, late=new, pods=pods, proven=proven)


def notify_owners(cluster: LiveCluster, made: JobsRound, clock: Clock) -> None:
    """Tell the owners of jobs what is new: an event on the job, and on the pods that it is about."""
    said = {(one.uid, one.kind): one for one in made.notes}
    for job in made.observed.begun:
        problem = job.problem
        note = said.get((job.job.uid, JobNoteKind(problem.kind.value))) if problem is not None else None
        if problem is not None and note is not None:
            pods = [pod for pod in made.pods if controller_of(pod).get("uid") == job.job.uid]
            notify_job(cluster, _about(note), pods, problem, text=note.text, clock=clock)
    for late in made.late:
        record_event(cluster, _about(late), reason=INCOMPLETE, message=late.text, is_warning=True, clock=clock)
    for job in made.observed.ended:
        if (note := said.get((job.job.uid, JobNoteKind.ERRORS))) is not None:
            record_event(cluster, _about(note), reason=ERRORS, message=note.text, is_warning=True, clock=clock)


def _about(note: JobNote) -> EventTarget:
    return EventTarget(
        api_version=note.api_version, kind=note.object_kind, name=note.name, uid=note.uid, namespace=note.namespace
    )
