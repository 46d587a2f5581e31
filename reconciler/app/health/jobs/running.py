"""Look at the running jobs of a cluster: which hang, which are slow, and what those that ended left on their GPUs."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.health.fast_lane import LaneRound
from reconciler.app.health.jobs.probation import ProvenNodes, ended_well
from reconciler.app.health.state_store import LaneState
from reconciler.app.health.telling import Told, tell, tell_job
from reconciler.core.health.inflight.notes import JobNote, JobNoteKind, left_by, notes
from reconciler.core.health.inflight.postflight import JobErrors, newest
from reconciler.core.health.inflight.series import JobSeries
from reconciler.core.health.inflight.watch import JobsSeen, WatchedJob, look
from reconciler.core.kinds.kind import Kinds
from reconciler.core.kinds.workloads import POD
from reconciler.core.observe.placed import controller_of, placed_jobs
from reconciler.core.observe.preflights import incomplete_preflights
from reconciler.core.values import NOT_JSON
from reconciler.errors import ConfigError
from reconciler.ports.clock import Clock
from reconciler.ports.cluster import Body, LiveCluster

LOOK_SECONDS = 60.0
"""The time between two looks: agents report less often."""

ERRORS = "GPUErrors"
"""The reason of events on jobs that ended."""

INCOMPLETE = "PreflightIncomplete"
"""The reason of events on jobs whose ranks wait for each other."""

_PHASES = ("Running", "Pending")


class JobWatch(Struct, frozen=True, kw_only=True):
    """What is kept of the jobs of a cluster between two looks. Losing it costs a new warm-up."""

    looked_at: float = 0.0
    jobs: tuple[WatchedJob, ...] = ()


class JobsRound(Struct, frozen=True, kw_only=True, eq=False):
    """One look: what is kept, what is said now, what ended jobs left, and the pods there are.

    late: jobs that began to wait for preflight checks of some of their ranks. proven: what ended well on nodes in
    probation.
    """

    watch: JobWatch
    seen: JobsSeen
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
    seen = look(watch.jobs, placed_jobs(kinds, pods), done.reading.reports, done.now)
    late = incomplete_preflights(pods, done.now)
    said = (*notes(done.state.jobs, seen, done.reading.reports, done.now), *late)
    kept = JobWatch(looked_at=done.now, jobs=seen.jobs)
    left = left_by(seen, done.reading.reports)
    known = {one.uid for one in done.state.jobs if one.kind is JobNoteKind.PREFLIGHT}
    new = tuple(one for one in late if one.uid not in known)
    proven = ended_well(cluster, kinds, done)
    return JobsRound(watch=kept, seen=seen, notes=said, left=left, late=new, pods=pods, proven=proven)


def tell_owners(cluster: LiveCluster, made: JobsRound, clock: Clock) -> None:
    """Tell the owners of jobs what is new: an event on the job, and on the pods that it is about."""
    said = {(one.uid, one.kind): one for one in made.notes}
    for job in made.seen.begun:
        problem = job.problem
        note = said.get((job.job.uid, JobNoteKind(problem.kind.value))) if problem is not None else None
        if problem is not None and note is not None:
            pods = [pod for pod in made.pods if controller_of(pod).get("uid") == job.job.uid]
            tell_job(cluster, _about(note), pods, problem, text=note.text, clock=clock)
    for late in made.late:
        tell(cluster, _about(late), reason=INCOMPLETE, message=late.text, is_warning=True, clock=clock)
    for job in made.seen.ended:
        if (note := said.get((job.job.uid, JobNoteKind.ERRORS))) is not None:
            tell(cluster, _about(note), reason=ERRORS, message=note.text, is_warning=True, clock=clock)


def _about(note: JobNote) -> Told:
    return Told(
        api_version=note.api_version, kind=note.object_kind, name=note.name, uid=note.uid, namespace=note.namespace
    )
