"""The progress of a job of Volcano."""

from reconciler.kinds.facts import Body
from reconciler.kinds.progress import ENDED, Phase, Progress, Workers, status_of
from reconciler.kube.values import count, mapping, sequence, text

_PHASES = {
    "": Phase.PENDING,
    "Pending": Phase.STARTING,
    "Running": Phase.RUNNING,
    "Restarting": Phase.STARTING,
    "Completing": Phase.RUNNING,
    "Completed": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Aborting": Phase.TERMINATING,
    "Aborted": Phase.SUSPENDED,
    "Terminating": Phase.TERMINATING,
    "Terminated": Phase.TERMINATED,
}


def volcano_job_progress(body: Body) -> Progress:
    """Read a job, whose status counts its pods."""
    tasks = map(mapping, sequence(mapping(body.get("spec")).get("tasks")))
    status = status_of(body)
    state = mapping(status.get("state"))
    phase = _PHASES.get(text(state.get("phase")), Phase.UNKNOWN)
    workers = Workers(
        wanted=sum(count(task.get("replicas"), 1) for task in tasks),
        pending=count(status.get("pending"), 0),
        running=count(status.get("running"), 0),
        ready=count(status.get("running"), 0),
        succeeded=count(status.get("succeeded"), 0),
        failed=count(status.get("failed"), 0),
    )
    return Progress(
        phase=phase,
        workers=workers,
        restarts=count(status.get("retryCount"), 0),
        finished_at=text(state.get("lastTransitionTime")) if phase in ENDED else "",
        message=text(state.get("message")),
    )
