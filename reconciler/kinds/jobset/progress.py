"""The progress of a JobSet."""

from msgspec.structs import replace

from reconciler.kinds.facts import Body
from reconciler.kinds.pods import is_suspended
from reconciler.kinds.progress import Phase, Progress, Workers, by_conditions, status_of, total
from reconciler.kube.values import count, mapping, sequence, text


def job_set_progress(body: Body) -> Progress:
    """Read a JobSet, whose status counts its Jobs. A Job is ready when all of its pods are."""
    status, pods = status_of(body), _pods_per_job(body)
    jobs = [mapping(row) for row in sequence(status.get("replicatedJobsStatus"))]

    def counted(field: str) -> int:
        return sum(count(job.get(field), 0) * pods.get(text(job.get("name")), 1) for job in jobs)

    active, ready = counted("active"), counted("ready")
    workers = Workers(
        pending=max(active - ready, 0),
        running=ready,
        ready=ready,
        succeeded=counted("succeeded"),
        failed=total(jobs, "failed"),
    )
    progress = by_conditions(body, workers=workers, succeeded="Completed")
    progress = replace(progress, restarts=count(status.get("restarts"), 0))
    is_stopped = is_suspended(body) and not progress.finished_at
    return replace(progress, phase=Phase.TERMINATING if active else Phase.SUSPENDED) if is_stopped else progress


def _pods_per_job(body: Body) -> dict[str, int]:
    """Return the number of pods that run at once in each Job of a replicated job."""
    rows = [mapping(row) for row in sequence(mapping(body.get("spec")).get("replicatedJobs"))]
    jobs = ((text(row.get("name")), mapping(mapping(row.get("template")).get("spec"))) for row in rows)
    return {name: count(spec.get("parallelism"), 1) for name, spec in jobs}
