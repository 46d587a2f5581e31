"""The status of each job: what its own status says, refined by its queue, its pods and the evidence."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.evidence.runs import FinishedRun
from reconciler.core.kinds.kind import Kinds
from reconciler.core.kinds.pods import is_paused, is_suspended
from reconciler.core.kinds.progress import ENDED, Phase, Progress, Workers, holds
from reconciler.core.manifests.ownership import is_owned
from reconciler.core.objects import ObjectKey
from reconciler.core.observe.runs import key_of
from reconciler.core.status.live import ClusterObjects
from reconciler.core.status.pods import (
    Waiting,
    count_pods,
    is_preempted,
    is_syncing,
    restarts_of,
    why_pods_crash,
)
from reconciler.core.status.waiting import has_queue_of_kueue, why_waiting, worker_cluster
from reconciler.core.summary import ObjectSummary, summarize
from reconciler.core.values import mapping, plural, text

Body = Mapping[str, Any]


class JobStatus(Struct, frozen=True, kw_only=True):
    """Where one job is. `reason` and `message` say why it is there, as far as anything says so."""

    cluster: str
    key: ObjectKey
    phase: Phase
    queue: str = ""
    gpus: int = 0
    workers: Workers = Workers()
    restarts: int | None = None
    started_at: str = ""
    finished_at: str = ""
    reason: str = ""
    message: str = ""


def live_status(kinds: Kinds, cluster: str, job: Body, state: ClusterObjects) -> JobStatus:
    """Return the status of a job that exists."""
    row = summarize(kinds, cluster=cluster, body=job, path="", digest="")
    reader = kinds.of(job).progress
    progress = reader(job) if reader is not None else Progress(phase=Phase.UNKNOWN)
    status = JobStatus(
        cluster=cluster,
        key=key_of(job),
        phase=progress.phase,
        queue=row.queue,
        gpus=row.gpus,
        workers=_workers(row, progress, job, state),
        restarts=_restarts(progress, job, state),
        started_at=progress.started_at,
        finished_at=progress.finished_at,
        message=progress.message,
    )
    if mapping(job.get("metadata")).get("deletionTimestamp"):
        message = f"the job is deleted; {plural(_left(status), 'pod')} left"
        return replace(status, phase=Phase.TERMINATING, reason="Deleted", message=message)
    if progress.phase in ENDED:
        return replace(status, reason="" if progress.phase is Phase.SUCCEEDED else progress.phase.value)
    return _unfinished(status, job, row, state)


def _workers(row: ObjectSummary, progress: Progress, job: Body, state: ClusterObjects) -> Workers:
    """Count pods, those that ended and are gone too; without pods the job's own status counts."""
    pods = state.pods_of(job) if state.pods is not None else ()
    own = replace(progress.workers, wanted=row.pods or progress.workers.wanted)
    if not pods:
        return own
    counted = count_pods(pods, own.wanted)
    return replace(counted, succeeded=max(counted.succeeded, own.succeeded), failed=max(counted.failed, own.failed))


def _restarts(progress: Progress, job: Body, state: ClusterObjects) -> int | None:
    if state.pods is None:
        return progress.restarts
    return (progress.restarts or 0) + restarts_of(state.pods_of(job))


def _unfinished(status: JobStatus, job: Body, row: ObjectSummary, state: ClusterObjects) -> JobStatus:
    pods = state.pods_of(job) if state.pods is not None else ()
    workload = state.workload_of(job) if state.workloads is not None else None
    if workload is not None and mapping(workload.get("spec")).get("active") is False:
        phase = Phase.TERMINATING if _left(status) else Phase.TERMINATED
        return _with(status, phase, why_waiting(job, row, state))
    if status.phase in {Phase.SUSPENDED, Phase.TERMINATING} and (is_suspended(job) or is_paused(job)):
        return _suspended(status, job, row, state)
    if is_syncing(pods):
        return replace(status, phase=Phase.SYNCING, reason="Workspace", message="the workspace is copied")
    if status.phase is Phase.RUNNING or (status.workers.running and status.workers.running >= status.workers.wanted):
        return _with(status, Phase.RUNNING, why_pods_crash(pods) or worker_cluster(job, state))
    waiting = why_waiting(job, row, state) or worker_cluster(job, state)
    return _starting(status, waiting, was_preempted=is_preempted(pods))


def _starting(status: JobStatus, waiting: Waiting | None, *, was_preempted: bool) -> JobStatus:
    """Return the status of a job some of whose pods do not run."""
    if was_preempted and not status.workers.running:
        return _with(status, Phase.PREEMPTED, waiting)
    # KAI holds pods, not jobs: they are pending until the whole gang can start.
    is_held = bool(status.queue) and not status.workers.running
    is_held = is_held and waiting is not None and waiting.reason not in _STARTING
    return _with(status, Phase.QUEUED if is_held else status.phase, waiting)


def _left(status: JobStatus) -> int:
    return status.workers.pending + status.workers.running


_STARTING = frozenset({"Image", "Config", "Crash", "Volume", "WorkerCluster"})
"""Reasons of pods that have a node already, or whose volume no queue can give, or that another cluster starts."""


def _suspended(status: JobStatus, job: Body, row: ObjectSummary, state: ClusterObjects) -> JobStatus:
    """Tell a job that Kueue holds from one that the repository suspends."""
    if left := _left(status):
        return replace(status, phase=Phase.TERMINATING, reason="Suspended", message=f"{plural(left, 'pod')} left")
    if is_paused(job):
        return replace(status, phase=Phase.SUSPENDED, reason="Suspended", message="parallelism is 0")
    if not has_queue_of_kueue(job):
        return replace(status, phase=Phase.SUSPENDED, reason="Suspended", message="suspend is true")
    waiting = why_waiting(job, row, state)
    workload = state.workload_of(job) if state.workloads is not None else None
    evicted = holds(workload, "Evicted") if workload is not None else None
    if evicted is not None and text(evicted.get("reason")) == "Preempted":
        return _with(status, Phase.PREEMPTED, Waiting(reason="Priority", message=text(evicted.get("message"))))
    return _with(status, Phase.QUEUED, waiting)


def _with(status: JobStatus, phase: Phase, waiting: Waiting | None) -> JobStatus:
    if waiting is None:
        return replace(status, phase=phase)
    return replace(status, phase=phase, reason=waiting.reason, message=waiting.message)


def absent_status(cluster: str, key: ObjectKey, run: FinishedRun | None, state: ClusterObjects) -> JobStatus:
    """Return the status of a job that the repository renders and the cluster does not have."""
    if run is not None:
        return JobStatus(
            cluster=cluster,
            key=key,
            phase=Phase(run.result),
            started_at=run.started_at,
            finished_at=run.finished_at,
            message="ended, and is gone from the cluster",
        )
    failure = state.unread.get((key.group, key.kind))
    if failure:
        return JobStatus(cluster=cluster, key=key, phase=Phase.UNKNOWN, reason="Unread", message=failure)
    message = "the cluster does not have it; it has not been applied yet"
    return JobStatus(cluster=cluster, key=key, phase=Phase.PENDING, reason="NotApplied", message=message)


def gone_status(before: JobStatus) -> JobStatus:
    """Return the status of a job that was there a moment ago."""
    if before.phase in ENDED:
        return replace(before, message="ended, and is gone from the cluster")
    return replace(before, phase=Phase.TERMINATED, workers=Workers(), reason="Deleted", message="the job is deleted")


def job_statuses(
    kinds: Kinds,
    cluster: str,
    state: ClusterObjects,
    rendered: Iterable[ObjectKey],
    runs: Mapping[ObjectKey, FinishedRun],
) -> tuple[JobStatus, ...]:
    """Return the jobs that are ours or that the repository renders, sorted by namespace and name."""
    wanted = set(rendered)
    live = {key_of(job): job for job in state.jobs}
    found = [live_status(kinds, cluster, job, state) for key, job in live.items() if key in wanted or is_owned(job)]
    found += [absent_status(cluster, key, runs.get(key), state) for key in wanted if key not in live]
    return tuple(sorted(found, key=lambda status: (status.key.namespace, status.key.name, status.key.kind)))
