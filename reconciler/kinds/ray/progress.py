"""The progress of a RayJob."""

from reconciler.kinds.facts import Body
from reconciler.kinds.progress import ENDED, Phase, Progress, Workers, status_of
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
