"""Replay: what the detectors say about a recorded series, sample by sample, as they did while it was recorded."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.health.inflight.detect import JobLimits, JobProblem
from reconciler.core.health.inflight.series import JobSeries, extended
from reconciler.core.health.inflight.watch import judged


class JobFinding(Struct, frozen=True, kw_only=True):
    """A problem of a job: when it was found, and when the job worked again; None: not before the record ends."""

    at: float
    problem: JobProblem
    ended_at: float | None = None


def replay_series(recorded: JobSeries, limits: JobLimits) -> tuple[JobFinding, ...]:
    """Return the problems in a series. Equal series give equal results."""
    return tuple(_findings(recorded, limits))


def _findings(recorded: JobSeries, limits: JobLimits) -> Iterator[JobFinding]:
    series, current = replace(recorded, samples=(), disturbed_since=0.0), None
    problem: JobProblem | None = None
    for sample in sorted(recorded.samples, key=lambda one: one.at):
        series, problem = judged(extended(series, sample), problem, limits)
        if current is not None and (problem is None or problem.kind != current.problem.kind):
            yield replace(current, ended_at=sample.at)
            current = None
        if problem is not None and current is None:
            current = JobFinding(at=sample.at, problem=problem)
    if current is not None:
        yield current
