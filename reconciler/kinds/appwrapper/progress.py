"""The progress of an AppWrapper."""

from reconciler.kinds.facts import Body
from reconciler.kinds.progress import ENDED, Phase, Progress, conditions, status_of
from reconciler.kube.values import text

_PHASES = {
    "": Phase.PENDING,
    "Suspended": Phase.SUSPENDED,
    "Resuming": Phase.STARTING,
    "Running": Phase.RUNNING,
    "Resetting": Phase.STARTING,
    "Suspending": Phase.TERMINATING,
    "Succeeded": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Terminating": Phase.TERMINATING,
}


def app_wrapper_progress(body: Body) -> Progress:
    """Read an AppWrapper, which has a phase and no counts."""
    phase = _PHASES.get(text(status_of(body).get("phase")), Phase.UNKNOWN)
    times = [text(one.get("lastTransitionTime")) for one in conditions(body).values()]
    return Progress(phase=phase, finished_at=max(times, default="") if phase in ENDED else "")
