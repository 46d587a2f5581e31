"""Notes about jobs for their owners: a problem of a running job, and the errors of an ended one."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from reconciler.kube.values import plural
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.inflight.detect import RunningJob, decide
from reconciler.nodehealth.inflight.postflight import JobErrors, job_errors, xids_of
from reconciler.nodehealth.inflight.watch import ObservedJobs, WatchedJob
from reconciler.nodehealth.report import NodeReport

KEPT_SECONDS = 86400.0
_MAX_COUNT = 200


class JobNoteKind(StrEnum):
    """The subject of a note. Those of ended jobs are kept for a day, the others as long as they are true."""

    HUNG = "hung"
    SLOW = "slow"
    ERRORS = "errors"
    PREFLIGHT = "preflight"

    @property
    def is_lasting(self) -> bool:
        """True if it outlives the look that found it."""
        return self is JobNoteKind.ERRORS


class JobNote(Struct, frozen=True, kw_only=True):
    """One thing about one job. since: when it began, or when the job ended."""

    kind: JobNoteKind
    api_version: str
    object_kind: str
    namespace: str
    name: str
    uid: str
    since: float
    text: str


def notes(
    known: Iterable[JobNote], observed: ObservedJobs, reports: Mapping[str, NodeReport], now: float
) -> tuple[JobNote, ...]:
    """Return what is said about jobs after a look, the newest first, of at most 200 jobs."""
    lasting = [one for one in known if one.kind.is_lasting and 0 <= now - one.since < KEPT_SECONDS]
    found = [problem_note(one, now) for one in observed.problems]
    found += [note for one in observed.ended if (note := errors_note(one, reports)) is not None]
    keys = {(one.uid, one.kind) for one in found}
    rows = [*found, *(one for one in lasting if (one.uid, one.kind) not in keys)]
    return tuple(sorted(rows, key=lambda one: (-one.since, one.namespace, one.name))[:_MAX_COUNT])


def problem_note(job: WatchedJob, now: float) -> JobNote:
    """Return what is decided about the problem of a running job, with what it costs."""
    problem = job.problem
    assert problem is not None  # noqa: S101 - the caller chose jobs with one
    running = RunningJob(gpus=sum(job.job.gpus.values()), affected_for=max(now - problem.since, 0.0))
    return _note(job, JobNoteKind(problem.kind.value), problem.since, decide(problem, running).reason)


def errors_note(job: WatchedJob, reports: Mapping[str, NodeReport]) -> JobNote | None:
    """Return what a job left on its GPUs; None if nothing is worth a word, or nobody knows its GPUs."""
    errors = job_errors(job, reports)
    bad = [(one, finding) for one in errors if (finding := one.finding()).status is not CheckStatus.PASS]
    parts = [f"{one.node} {one.slot}: {finding.message}" for one, finding in bad[:_SHOWN]]
    parts += [f"{plural(len(bad) - _SHOWN, 'more GPU')}"] if len(bad) > _SHOWN else []
    parts += [f"{one.slot}: {one.message}" for one in xids_of(job, reports)[:_SHOWN]]
    return _note(job, JobNoteKind.ERRORS, job.ended_at, "; ".join(parts)) if parts else None


_SHOWN = 3


def _note(job: WatchedJob, kind: JobNoteKind, since: float, text: str) -> JobNote:
    placed = job.job
    return JobNote(
        kind=kind,
        api_version=placed.api_version,
        object_kind=placed.kind,
        namespace=placed.namespace,
        name=placed.name,
        uid=placed.uid,
        since=since,
        text=text,
    )


def left_by(observed: ObservedJobs, reports: Mapping[str, NodeReport]) -> tuple[JobErrors, ...]:
    """Return what the jobs that ended left on their GPUs."""
    return tuple(one for job in observed.ended for one in job_errors(job, reports))
