"""The progress of the jobs of the training operator and of TrainJobs."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.facts import Body
from reconciler.kinds.pods import is_suspended
from reconciler.kinds.progress import Phase, Progress, Workers, by_conditions, holds, status_of, total
from reconciler.kube.values import count, mapping, sequence


def operator_job_progress(body: Body) -> Progress:
    """Read a job of the training operator, which counts the pods of each role. A pod that runs is ready."""
    spec, status = mapping(body.get("spec")), status_of(body)
    roles = [mapping(role) for name in spec if name.endswith("ReplicaSpecs") for role in mapping(spec[name]).values()]
    replicas = [mapping(row) for row in mapping(status.get("replicaStatuses")).values()]
    active = total(replicas, "active")
    is_running = holds(body, "Running") is not None
    workers = _workers(sum(count(role.get("replicas"), 1) for role in roles), active, replicas, is_running=is_running)
    progress = by_conditions(body, workers=workers, succeeded="Succeeded")
    if progress.finished_at:
        return progress
    if is_suspended(body):
        return replace(progress, phase=Phase.TERMINATING if active else Phase.SUSPENDED)
    if holds(body, "Restarting") is not None and not is_running:
        return replace(progress, phase=Phase.STARTING)
    return progress


def _workers(wanted: int, active: int, rows: Iterable[Mapping[str, Any]], *, is_running: bool) -> Workers:
    replicas = list(rows)
    running = active if is_running else 0
    return Workers(
        wanted=wanted,
        pending=active - running,
        running=running,
        ready=running,
        succeeded=total(replicas, "succeeded"),
        failed=total(replicas, "failed"),
    )


def train_job_progress(body: Body) -> Progress:
    """Read a TrainJob, whose status counts the Jobs that it made."""
    spec, status = mapping(body.get("spec")), status_of(body)
    jobs = [mapping(row) for row in sequence(status.get("jobsStatus"))]
    workers = Workers(
        wanted=count(mapping(spec.get("trainer")).get("numNodes"), 1),
        pending=max(total(jobs, "active") - total(jobs, "ready"), 0),
        running=total(jobs, "ready"),
        ready=total(jobs, "ready"),
        succeeded=total(jobs, "succeeded"),
        failed=total(jobs, "failed"),
    )
    progress = by_conditions(body, workers=workers, succeeded="Complete")
    is_stopped = is_suspended(body) and not progress.finished_at
    return replace(progress, phase=Phase.SUSPENDED) if is_stopped else progress
