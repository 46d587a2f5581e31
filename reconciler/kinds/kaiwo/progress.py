"""The progress of workloads of Kaiwo where its operator runs: what it says itself."""

from collections.abc import Iterator

from reconciler.kinds.facts import Body
from reconciler.kinds.progress import ENDED, Phase, Progress, status_of
from reconciler.kube.values import mapping, sequence, text

_PHASES = {
    "": Phase.PENDING,
    "NEW": Phase.PENDING,
    "DOWNLOADING": Phase.SYNCING,
    "PENDING": Phase.PENDING,
    "STARTING": Phase.STARTING,
    "READY": Phase.RUNNING,
    "RUNNING": Phase.RUNNING,
    "COMPLETE": Phase.SUCCEEDED,
    "ERROR": Phase.ERROR,
    "FAILED": Phase.FAILED,
    "TERMINATING": Phase.TERMINATING,
    "TERMINATED": Phase.TERMINATED,
}


def kaiwo_progress(body: Body) -> Progress:
    """Read a KaiwoJob or KaiwoService."""
    status = status_of(body)
    phase = _PHASES.get(text(status.get("status")), Phase.UNKNOWN)
    return Progress(
        phase=phase,
        started_at=text(status.get("startTime")),
        finished_at=text(status.get("completionTime")) if phase in ENDED else "",
        message=next(_messages(body), "") if phase not in (Phase.RUNNING, Phase.SUCCEEDED) else "",
    )


def _messages(body: Body) -> Iterator[str]:
    """Yield what the conditions say that are not met."""
    for condition in map(mapping, sequence(status_of(body).get("conditions"))):
        if condition.get("status") == "False" and text(condition.get("message")):
            yield text(condition.get("message"))
