"""Volcano (`batch.volcano.sh`): jobs of several tasks."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.kind import Body, Kind
from reconciler.core.kinds.pods import of_spec, replicated
from reconciler.core.kinds.progress import ENDED, Phase, Progress, Workers, status_of
from reconciler.core.values import count, mapping, sequence, text


def _pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for index, task in enumerate(map(mapping, sequence(spec.get("tasks")))):
        yield from replicated(task, f"{prefix}tasks[{index}].")


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


def _progress(body: Body) -> Progress:
    spec, status = mapping(body.get("spec")), status_of(body)
    state = mapping(status.get("state"))
    phase = _PHASES.get(text(state.get("phase")), Phase.UNKNOWN)
    workers = Workers(
        wanted=sum(pods.replicas for pods in _pods(spec, "")),
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


KINDS = (Kind(group="batch.volcano.sh", kind="Job", pods=of_spec(_pods), progress=_progress),)
