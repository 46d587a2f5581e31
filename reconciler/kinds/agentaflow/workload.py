"""`GPUWorkload`: what contradicts itself in it, whatever the cluster is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.kinds.agentaflow.wishes import strategy_problem
from reconciler.kinds.fields import Fields
from reconciler.kinds.rendered import has_errors
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Parsed, Problem
from reconciler.kube.values import mapping, plural, sequence, text
from reconciler.kube.yaml import Document
from reconciler.sizing.devices import container_devices

FAMILY = "agentaflow"
"""The start of the rules of problems and reasons."""

COUNT: FieldPath = ("spec", "gpuRequirements", "gpuCount")
LEAST: FieldPath = ("spec", "gpuRequirements", "minGPUMemory")
TEMPLATE: FieldPath = ("spec", "podTemplate")
POD: FieldPath = (*TEMPLATE, "spec")
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class GpuWorkloadIntent(Struct, frozen=True, kw_only=True, eq=False):
    """The intent: the fields of the document, and the container that gets the GPUs."""

    fields: Fields
    main: int

    @property
    def containers(self) -> Sequence[Mapping[str, Any]]:
        """The containers of its pods."""
        return containers_of(self.fields)

    @property
    def devices(self) -> Mapping[str, int]:
        """The devices that its main container names itself."""
        return container_devices(self.containers[self.main])

    @property
    def memory_mib(self) -> int:
        """The memory that a GPU needs."""
        amounts = (self.fields.plain("spec", "gpuMemoryRequired"), self.fields.plain(*LEAST) or 0)
        return int(max(amounts))

    @property
    def is_shared(self) -> bool:
        """True if it may have a part of a GPU."""
        return self.fields.plain("spec", "gpuRequirements", "exclusiveAccess") is False


def containers_of(fields: Fields) -> list[Mapping[str, Any]]:
    """Return the containers of a workload's pods."""
    return [mapping(one) for one in sequence(fields.plain(*POD, "containers"))]


def workload_intent(document: Document) -> Parsed[GpuWorkloadIntent]:
    """Read a GPUWorkload."""
    fields = Fields(document, FAMILY)
    with_gpus = [index for index, one in enumerate(containers_of(fields)) if container_devices(one)]
    work = GpuWorkloadIntent(fields=fields, main=with_gpus[0] if with_gpus else 0)
    problems = [*_pods(fields), *_choices(fields)]
    if not has_errors(problems):
        problems += [*_gpus(work, with_gpus), *_visible(work)]
    return Parsed(intent=None if has_errors(problems) else work, problems=tuple(problems))


def _pods(fields: Fields) -> Iterator[Problem]:
    if not containers_of(fields):
        yield fields.problem("containers", POD, "its pods have no container", "add spec.podTemplate.spec.containers")
    if fields.plain(*POD, "restartPolicy") == "Always":
        path: FieldPath = (*POD, "restartPolicy")
        yield fields.problem("restart", path, "Always is for pods that never end", "use Never or OnFailure")


def _choices(fields: Fields) -> Iterator[Problem]:
    path: FieldPath = ("spec", "schedulingStrategy")
    wrong = strategy_problem(fields.plain(*path))
    if wrong is not None:
        yield fields.problem("strategy", path, *wrong)
    if fields.plain("status") is not None:
        hint = "remove it; `reconciler status` reads phases from live objects"
        yield fields.warning("ignored", ("status",), "has no effect in a source", hint)


def _gpus(work: GpuWorkloadIntent, with_gpus: Sequence[int]) -> Iterator[Problem]:
    """Check the GPUs that containers name themselves: those of the main one are the workload's, others have none."""
    fields, wanted = work.fields, work.fields.plain(*COUNT)
    devices = work.devices
    path: FieldPath = (*POD, "containers", work.main, "resources")
    if len(devices) > 1:
        message = f"a container has devices of several kinds: {', '.join(devices)}"
        yield fields.problem("contradiction", path, message, "keep one of them")
    elif devices and wanted and next(iter(devices.values())) != wanted:
        (resource, amount), name = next(iter(devices.items())), text(work.containers[work.main].get("name"))
        message = f"{plural(wanted, 'GPU')} contradict the {amount} {resource} of container {name}"
        yield fields.problem("contradiction", COUNT, message, "make them equal, or remove one of them")
    for index in with_gpus[1:]:
        name = text(work.containers[index].get("name"))
        main = text(work.containers[work.main].get("name"))
        message = f"container {main} has the GPUs of the workload, so {name} cannot have any"
        path = (*POD, "containers", index, "resources")
        yield fields.problem("contradiction", path, message, "remove its GPUs")


def _visible(work: GpuWorkloadIntent) -> Iterator[Problem]:
    """Warn of variables that choose devices by number, which the device plugin does."""
    for index, container in enumerate(work.containers):
        for number, one in enumerate(map(mapping, sequence(container.get("env")))):
            if one.get("name") in _VISIBLE:
                path = (*POD, "containers", index, "env", number)
                message = f"{one['name']} chooses GPUs by number, but a container sees only those that it was given"
                yield work.fields.warning("visible-devices", path, message, "remove it")
