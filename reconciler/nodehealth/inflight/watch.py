"""Running jobs as the reports of their nodes show them: one sample a look, and what the detectors say about each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.nodehealth.fleet.failures import SKEW
from reconciler.nodehealth.inflight.detect import (
    GpuActivity,
    JobLimits,
    JobProblem,
    JobSample,
    JobSeries,
    extended,
    find_hang,
    find_slowdown,
)
from reconciler.nodehealth.report import GpuUse, NodeReport

Errors = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Counters by node, slot and name."""


class PlacedJob(Struct, frozen=True, kw_only=True):
    """A running job and its GPUs by node. `shared`: nodes on which other pods use GPUs as well."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    gpus: Mapping[str, int]
    shared: tuple[str, ...] = ()


class WatchedJob(Struct, frozen=True, kw_only=True):
    """The record of a running job. since: the first look, with the counters `first`. ended_at: 0, it runs."""

    job: PlacedJob
    series: JobSeries
    since: float
    first: Errors = {}
    last: Errors = {}
    problem: JobProblem | None = None
    ended_at: float = 0.0


class ObservedJobs(Struct, frozen=True, kw_only=True):
    """One look at all jobs. begun: those with a new problem. ended: those that ended, with their last counters.

    Of a job that ended the reports of its nodes are awaited, so it stays among `jobs` for a while.
    """

    jobs: tuple[WatchedJob, ...] = ()
    begun: tuple[WatchedJob, ...] = ()
    ended: tuple[WatchedJob, ...] = ()

    @property
    def problems(self) -> tuple[WatchedJob, ...]:
        """The jobs with a problem."""
        return tuple(one for one in self.jobs if one.problem is not None and not one.ended_at)


def look(
    known: Sequence[WatchedJob],
    placed: Iterable[PlacedJob],
    reports: Mapping[str, NodeReport],
    now: float,
    limits: JobLimits = JobLimits(),  # noqa: B008 - a frozen value
) -> ObservedJobs:
    """Look at the running jobs. A job that runs elsewhere than before starts a series of its own."""
    before = {one.job.uid: one for one in known if not one.ended_at}
    jobs, begun, stays = list[WatchedJob](), list[WatchedJob](), set[str]()
    for job in placed:
        old = before.get(job.uid)
        if old is not None and old.job.gpus == job.gpus:
            stays.add(job.uid)
        else:
            old = _begin(job, reports, now)
        observed = _seen(replace(old, job=job), reports, now, limits)
        jobs.append(observed)
        if observed.problem is not None and (old.problem is None or old.problem.kind != observed.problem.kind):
            begun.append(observed)
    gone = [_gone(one, reports, now) for one in known if one.ended_at or one.job.uid not in stays]
    awaited = [one for one in gone if not _is_complete(one, reports, now)]
    ended = tuple(one for one in gone if one not in awaited)
    return ObservedJobs(jobs=(*jobs, *awaited), begun=tuple(begun), ended=ended)


def _gone(job: WatchedJob, reports: Mapping[str, NodeReport], now: float) -> WatchedJob:
    """Return a job that ended, with the counters of its GPUs as the newest reports have them."""
    last = dict(job.last)
    for node, slots in job.first.items():
        rows = reports[node].activity if node in reports else ()
        last[node] = {**last.get(node, {}), **{one.slot: one.errors for one in rows if one.slot in slots}}
    return replace(job, last=last, ended_at=job.ended_at or now)


def _is_complete(job: WatchedJob, reports: Mapping[str, NodeReport], now: float) -> bool:
    """Say whether every node has reported since the job ended; nobody waits longer than ten minutes."""
    if now - job.ended_at > _PATIENCE:
        return True
    return all(node in reports and reports[node].measured_at >= job.ended_at for node in job.first)


def _begin(job: PlacedJob, reports: Mapping[str, NodeReport], now: float) -> WatchedJob:
    series = JobSeries(namespace=job.namespace, name=job.name)
    errors = _errors(job, reports)
    return WatchedJob(job=job, series=series, since=now, first=errors, last=errors)


def _seen(job: WatchedJob, reports: Mapping[str, NodeReport], now: float, limits: JobLimits) -> WatchedJob:
    errors = _errors(job.job, reports)
    first = {node: job.first.get(node) or slots for node, slots in errors.items()}
    job = replace(job, first={**job.first, **first}, last={**job.last, **errors})
    sample = sample_of(job.job, reports, now)
    if sample is None:
        return job  # what is not measured ends no problem, and begins none
    series, problem = judged(extended(job.series, sample), job.problem, limits)
    return replace(job, series=series, problem=problem)


def judged(series: JobSeries, before: JobProblem | None, limits: JobLimits) -> tuple[JobSeries, JobProblem | None]:
    """Return what the detectors say, and the series with what is normal in it. A problem keeps its start."""
    problem = find_hang(series, limits) or find_slowdown(series, limits)
    if problem is not None and before is not None and problem.kind == before.kind:
        problem = replace(problem, since=before.since)
    return series.marked(problem.since if problem is not None else 0.0), problem


def sample_of(job: PlacedJob, reports: Mapping[str, NodeReport], now: float) -> JobSample | None:
    """Return the sample of a job; None while a report is missing or old, or nobody knows which GPUs are its own."""
    rows: list[GpuActivity] = []
    traffic: list[float | None] = []
    for node, count in sorted(job.gpus.items()):
        report = reports.get(node)
        if report is None or report.is_overdue(now) or report.measured_at > now + SKEW:
            return None
        uses = own_gpus(job, node, count, report)
        known = [row for one in uses if (row := _row(node, one)) is not None]
        if len(known) != count:
            return None
        rows += known
        traffic += [one.traffic for one in uses]
    known_traffic = [one for one in traffic if one is not None]
    total = sum(known_traffic) if rows and len(known_traffic) == len(traffic) else None
    return JobSample(at=now, gpus=tuple(rows), bytes_per_second=total) if rows else None


def own_gpus(job: PlacedJob, node: str, count: int, report: NodeReport) -> tuple[GpuUse, ...]:
    """Return the GPUs of a job on a node: all, or those in use if they are as many. Else nobody knows: none."""
    if len(report.activity) == count:
        return report.activity
    if node in job.shared:
        return ()
    occupied = tuple(one for one in report.activity if one.occupied)
    return occupied if len(occupied) == count else ()


def _row(node: str, use: GpuUse) -> GpuActivity | None:
    if use.watts is None or use.utilization is None:
        return None
    return GpuActivity(node=node, slot=use.slot, watts=use.watts, utilization=use.utilization)


_PATIENCE = 600.0


def _errors(job: PlacedJob, reports: Mapping[str, NodeReport]) -> dict[str, dict[str, Mapping[str, float]]]:
    """Return the counters of the job's GPUs now, on the nodes where it is known which ones these are."""
    return {node: dict(_counters(job, node, count, reports)) for node, count in job.gpus.items() if node in reports}


def _counters(
    job: PlacedJob, node: str, count: int, reports: Mapping[str, NodeReport]
) -> Iterator[tuple[str, Mapping[str, float]]]:
    yield from ((one.slot, one.errors) for one in own_gpus(job, node, count, reports[node]))


# Replay.


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
