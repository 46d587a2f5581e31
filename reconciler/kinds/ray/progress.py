"""The progress of a RayJob, and of a RayService."""

from reconciler.kinds.facts import Body
from reconciler.kinds.progress import ENDED, Phase, Progress, Workers, holds, status_of
from reconciler.kube.values import count, mapping, text

_DEPLOYMENT = {
    "Initializing": Phase.STARTING,
    "Waiting": Phase.STARTING,
    "Retrying": Phase.STARTING,
    "Running": Phase.RUNNING,
    "Complete": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Suspending": Phase.TERMINATING,
    "Suspended": Phase.SUSPENDED,
    "": Phase.PENDING,
}
_JOB = {"FAILED": Phase.FAILED, "STOPPED": Phase.TERMINATED, "SUCCEEDED": Phase.SUCCEEDED}


_BROKEN = frozenset({"UNHEALTHY", "DEPLOY_FAILED"})  # of an application of Ray Serve


def ray_job_progress(body: Body) -> Progress:
    """Read a RayJob: how its cluster is, and how the job in it ended."""
    status = status_of(body)
    phase = _DEPLOYMENT.get(text(status.get("jobDeploymentStatus")), Phase.UNKNOWN)
    if phase is Phase.SUCCEEDED:  # the cluster is done; the job may have failed
        phase = _JOB.get(text(status.get("jobStatus")), Phase.UNKNOWN)
    if phase is Phase.FAILED and text(status.get("reason")) == "DeadlineExceeded":
        phase = Phase.TIMED_OUT
    cluster = mapping(status.get("rayClusterStatus"))
    wanted, ready = count(cluster.get("desiredWorkerReplicas"), 0), count(cluster.get("readyWorkerReplicas"), 0)
    return Progress(
        phase=phase,
        workers=Workers(wanted=wanted, pending=max(wanted - ready, 0), running=ready, ready=ready),
        restarts=count(status.get("failed"), 0),
        started_at=text(status.get("startTime")),
        finished_at=text(status.get("endTime")) if phase in ENDED else "",
        message=text(status.get("message")),
    )


def ray_service_progress(body: Body) -> Progress:
    """Read a RayService: its applications, and whether it serves."""
    active = mapping(status_of(body).get("activeServiceStatus"))
    for name, application in sorted(mapping(active.get("applicationStatuses")).items()):
        word, message = (text(mapping(application).get(field)) for field in ("status", "message"))
        if word in _BROKEN:
            detail = f": {message}" if message else ""
            return Progress(phase=Phase.FAILED, message=f"application {name} is {word}{detail}")
    if holds(body, "Ready") is not None or text(status_of(body).get("serviceStatus")) == "Running":
        return Progress(phase=Phase.RUNNING)
    return Progress(phase=Phase.STARTING if status_of(body) else Phase.PENDING)
