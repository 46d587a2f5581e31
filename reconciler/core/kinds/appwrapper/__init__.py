"""CodeFlare's AppWrapper (`workload.codeflare.dev`): objects that are queued together."""

from collections.abc import Iterator

from reconciler.core.kinds.kind import Body, Kind
from reconciler.core.kinds.progress import ENDED, Phase, Progress, conditions, status_of
from reconciler.core.objects import FieldPath
from reconciler.core.values import mapping, sequence, text


def _components(body: Body) -> Iterator[tuple[FieldPath, Body]]:
    for index, component in enumerate(sequence(mapping(body.get("spec")).get("components"))):
        template = mapping(component).get("template")
        if type(template) is dict:
            yield ("spec", "components", index, "template"), template


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


def _progress(body: Body) -> Progress:
    phase = _PHASES.get(text(status_of(body).get("phase")), Phase.UNKNOWN)
    times = [text(one.get("lastTransitionTime")) for one in conditions(body).values()]
    return Progress(phase=phase, finished_at=max(times, default="") if phase in ENDED else "")


KINDS = (Kind(group="workload.codeflare.dev", kind="AppWrapper", components=_components, progress=_progress),)
