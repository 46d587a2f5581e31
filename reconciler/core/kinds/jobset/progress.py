"""How far a JobSet is."""

from msgspec.structs import replace

from reconciler.core.kinds.pods import is_suspended
from reconciler.core.kinds.progress import Body, Phase, Progress, Workers, by_conditions, status_of, total
from reconciler.core.values import count, mapping, sequence


def job_set_progress(body: Body) -> Progress:
    """Read a JobSet, whose status counts its Jobs."""
    spec, status = mapping(body.get("spec")), status_of(body)
    jobs = [mapping(row) for row in sequence(status.get("replicatedJobsStatus"))]
    active, ready = total(jobs, "active"), total(jobs, "ready")
    workers = Workers(
        wanted=sum(count(mapping(one).get("replicas"), 1) for one in sequence(spec.get("replicatedJobs"))),
        pending=max(active - ready, 0),
        running=ready,
        ready=ready,
        succeeded=total(jobs, "succeeded"),
        failed=total(jobs, "failed"),
    )
    progress = by_conditions(body, workers=workers, succeeded="Completed")
    progress = replace(progress, restarts=count(status.get("restarts"), 0))
    is_stopped = is_suspended(body) and not progress.finished_at
    return replace(progress, phase=Phase.TERMINATING if active else Phase.SUSPENDED) if is_stopped else progress
