"""CodeFlare's AppWrapper (`workload.codeflare.dev`): objects that are queued together."""

import re
from collections.abc import Iterator

from reconciler.kinds.aspects import Life, Pods
from reconciler.kinds.facts import Body, Controlled, PodSet
from reconciler.kinds.immutable import differing, every
from reconciler.kinds.kind import Kind
from reconciler.kinds.kueue.labels import frozen_labels, is_started
from reconciler.kinds.progress import ENDED, Phase, Progress, conditions, status_of
from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import later
from reconciler.kube.values import count, mapping, metadata_map, sequence, text, value_at

_SUSPEND = ("spec", "suspend")
_USER = ("workload.codeflare.dev/user", "workload.codeflare.dev/userid")
_STEP = later(r"\[(\d{1,4})\]|([^.\[\]]+)", re.ASCII)  # of a path such as template.spec.tasks[0].template


def _components(body: Body) -> Iterator[tuple[FieldPath, Body]]:
    for index, component in enumerate(sequence(mapping(body.get("spec")).get("components"))):
        template = mapping(component).get("template")
        if type(template) is dict:
            yield ("spec", "components", index, "template"), template


def _declared(body: Body, path: FieldPath) -> list[PodSet]:
    """Return the pods that `podSets` of a component declares, each by the path of its template."""
    component, template = mapping(value_at(body, path[:-1])), mapping(value_at(body, path))
    found = []
    for pod_set in map(mapping, sequence(component.get("podSets"))):
        where = text(pod_set.get("path")).removeprefix("template.").removeprefix("template")
        steps = tuple(int(index) if index else name for index, name in _STEP.findall(where))
        node = mapping(value_at(template, steps))
        if node:
            found.append(PodSet(count(pod_set.get("replicas"), 1), node, f"{where}." if where else ""))
    return found


def _frozen(before: Body, after: Body) -> list[str]:
    """Return the components that differ: its webhook refuses every change in them, also while it is suspended.

    Source: appwrapper 1.2, internal/webhook/appwrapper_webhook.go (validateAppWrapperUpdate).
    """
    old, new = (sequence(mapping(body.get("spec")).get("components")) for body in (before, after))
    if len(old) != len(new):
        return ["spec.components"]
    fields = []
    for index, (left, right) in enumerate(zip(map(mapping, old), map(mapping, new), strict=True)):
        place = f"spec.components[{index}]"
        if left.get("template") != right.get("template"):
            fields.append(f"{place}.template")
        if _pod_sets(left) != _pod_sets(right):
            fields.append(f"{place}.podSets")
    labels = [metadata_map(body, "labels") for body in (before, after)]
    fields += [f'metadata.labels["{name}"]' for name in _USER if labels[0].get(name, "") != labels[1].get(name, "")]
    return [*fields, *differing(before, after, "spec.managedBy")]


def _pod_sets(component: Body) -> list[tuple[int, str]]:
    found = map(mapping, sequence(component.get("podSets")))
    return [(count(one.get("replicas"), 1), text(one.get("path"))) for one in found]


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


KINDS = (
    Kind(
        group="workload.codeflare.dev",
        kind="AppWrapper",
        pods=Pods(components=_components, declared=_declared, suspend=_SUSPEND),
        life=Life(
            immutable=every(frozen_labels, _frozen),
            controlled=(
                Controlled(
                    path=("spec", "components", "*", "podSetInfos"),
                    by="Kueue",
                    source="pkg/controller/jobs/appwrapper/appwrapper_controller.go (RunWithPodSetsInfo)",
                    when="while it runs in a queue",
                    applies=is_started(_SUSPEND),
                ),
            ),
            progress=app_wrapper_progress,
        ),
    ),
)
