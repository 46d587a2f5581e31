"""The fields that sizing sets besides the number of pods: resources, variables, labels and annotations."""

from collections.abc import Iterator
from typing import Any

import msgspec

from reconciler.index.sized.patch import DocumentPatch, ListItem, SizingReasons, same
from reconciler.kube.objects import FieldPath
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import plural
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decision import Decision
from reconciler.sizing.training_jobs import TrainingJob
from reconciler.sizing.training_jobs.job import as_written

_SECTIONS = ("requests", "limits")
CPUS_PER_GPU = 2
"""CPUs per process for data loading, as in the autoconf controller."""


def set_resources(patch: DocumentPatch, resources: FieldPath, reasons: SizingReasons, settings: SizingSettings) -> None:
    """Set GPUs and CPUs of one node as equal requests and limits."""
    key, gpus = reasons.chosen.gpu.vendor.resource, reasons.per_worker
    reason = reasons.because("gpus", f"{reasons.spread}; {reasons.memory}")
    for section in _SECTIONS:
        path = (*resources, section, key)
        patch.set(path, as_written(patch.get(path), gpus), reason)
    if settings.patch_cpu_request:
        cpus = CPUS_PER_GPU * max(1, gpus)
        reason = reasons.because("cpu", f"{CPUS_PER_GPU} CPUs per GPU x {plural(gpus, 'GPU')} = {cpus}")
        for section in _SECTIONS:
            path = (*resources, section, "cpu")
            patch.set(path, as_written(patch.get(path), cpus), reason)


NUM_GPUS = "AUTOCONF_NUM_GPUS"
NUM_PROCESSES = "AUTOCONF_NUM_PROCESSES"
NUM_MACHINES = "AUTOCONF_NUM_MACHINES"
BATCH = "AUTOCONF_PER_DEVICE_BATCH_SIZE"
ACCUMULATION = "AUTOCONF_GRADIENT_ACCUMULATION_STEPS"

Variable = tuple[str, str, Reason]


def variables(job: TrainingJob, reasons: SizingReasons) -> Iterator[Variable]:
    """Yield name, value and reason of each variable of the autoconf controller, in its order.

    `AUTOCONF_BATCH_SIZE` is the batch of a step over all GPUs, without accumulation. Kinds whose queue decides the
    nodes get no numbers of nodes. The last variable is our own; it is set if the number of steps has to change.
    """
    layout, training = reasons.chosen.layout, reasons.question.training
    nodes, memory, batch = reasons.spread, reasons.memory, reasons.batch
    if not job.format.total_gpus:
        yield NUM_GPUS, str(reasons.per_worker), reasons.because("gpus", nodes)
    yield "AUTOCONF_TOTAL_GPUS", str(layout.gpus), reasons.because("gpus", f"{nodes}; {memory}")
    yield (
        NUM_PROCESSES,
        str(max(1, layout.gpus)),
        reasons.because("processes", f"one process per GPU: {layout.gpus}"),
    )
    if not job.format.total_gpus:
        yield NUM_MACHINES, str(layout.workers), reasons.because("workers", nodes)
    yield BATCH, str(layout.batch), reasons.because("batch", batch)
    read = "from the launch line"
    yield "AUTOCONF_TOKENS_PER_SAMPLE", str(training.sequence), reasons.because("sequence", read)
    yield (
        "AUTOCONF_MODEL_NAME",
        training.architecture.autoconf or training.architecture.name,
        reasons.because("model", f"{training.model}, {read}"),
    )
    yield "AUTOCONF_METHOD", training.method.value, reasons.because("method", read)
    yield "AUTOCONF_GPU_MODEL", reasons.chosen.gpu.product, reasons.because("gpu", memory)
    step = layout.batch * layout.gpus
    text = f"{layout.batch} per GPU x {plural(layout.gpus, 'GPU')} = {step}"
    yield "AUTOCONF_BATCH_SIZE", str(step), reasons.because("batch", text)
    if layout.accumulation != reasons.question.accumulation or any(name == ACCUMULATION for name, _ in job.env):
        yield ACCUMULATION, str(layout.accumulation), reasons.because("batch", batch)


OURS = frozenset(
    (
        *(NUM_GPUS, "AUTOCONF_TOTAL_GPUS", NUM_PROCESSES, NUM_MACHINES, BATCH, "AUTOCONF_TOKENS_PER_SAMPLE"),
        *("AUTOCONF_MODEL_NAME", "AUTOCONF_METHOD", "AUTOCONF_GPU_MODEL", "AUTOCONF_BATCH_SIZE", ACCUMULATION),
    )
)


def set_variables(patch: DocumentPatch, path: FieldPath, wanted: list[Variable]) -> None:
    """Set the variables in the list at `path`: existing ones change in place, new ones are appended.

    A variable may refer to those before it (`$(NAME)`), so nothing is moved. Variables of ours that are no longer set
    are removed.
    """
    before = patch.get(path)
    items: list[ListItem] = []
    missing = {name: (value, reason) for name, value, reason in wanted}
    for index, item in enumerate(before if isinstance(before, list) else []):
        name = item.get("name") if isinstance(item, dict) else None
        if name not in OURS:
            items.append((item, index))
        elif name in missing:
            value, reason = missing.pop(name)
            entry = {"name": name, "value": value}
            items.append((entry, index if same(item, entry) else reason))
    items += [({"name": name, "value": value}, reason) for name, (value, reason) in missing.items()]
    patch.set_rows(path, items)


SIZING = "gpureconciler.io/sizing"
"""Our annotation: engines with versions, the GPU, the predicted peak with its range, confidence, reason."""

_LABELS = ("metadata", "labels")
_ANNOTATIONS = ("metadata", "annotations")


def set_done(patch: DocumentPatch, decision: Decision, settings: SizingSettings, origins: tuple[Origin, ...]) -> None:
    """Set the done label and the annotations: the job was sized, or has no recommendation."""
    labels = settings.labels
    patch.remove((*_LABELS, labels.waiting_key), Reason(rule="sizing.label", text="the answer has arrived"))
    done = "the job was sized" if decision.chosen else "there is no recommendation for the job"
    reason = Reason(rule="sizing.label", text=done, origins=origins)
    patch.set((*_LABELS, labels.done_key), labels.done_value, reason)
    annotated = Reason(rule="sizing.annotation", text=decision.text, origins=origins)
    patch.set((*_ANNOTATIONS, labels.annotation_key), recommendation(decision), annotated)
    patch.set((*_ANNOTATIONS, SIZING), details(decision), annotated)


def set_waiting(patch: DocumentPatch, request: str, settings: SizingSettings) -> None:
    """Set the waiting label: `request` is the id of the pending question."""
    reason = Reason(rule="sizing.label", text=f"request {request} is pending")
    patch.set((*_LABELS, settings.labels.waiting_key), request, reason)


def recommendation(decision: Decision) -> str:
    """Return the JSON of the autoconf controller: workers and GPUs per worker, or an error."""
    if decision.chosen is None:
        return _json({"error": "No recommendation"})
    layout = decision.chosen.layout
    return _json({"recommendation": {"workers": layout.workers, "gpus": layout.gpus_per_worker}})


def details(decision: Decision) -> str:
    """Return the details of a decision as compact JSON, with GiB rounded to two digits."""
    content: dict[str, Any] = {
        "goal": decision.goal.value,
        "reason": decision.reason,
        "confidence": decision.confidence.value,
        "engines": dict(decision.engines),
    }
    if decision.chosen is not None:
        layout, gpu, estimate = decision.chosen.layout, decision.chosen.gpu, decision.chosen.estimate
        content |= {"gpu": gpu.product, "gpus": layout.gpus, "workers": layout.workers}
        content |= {"batch": layout.batch, "accumulation": layout.accumulation, "memory_gib": round(gpu.memory_gib, 2)}
        if estimate is not None:
            content |= {f"{name}_gib": round(getattr(estimate, f"{name}_gib"), 2) for name in ("peak", "low", "high")}
        if decision.run is not None:
            content |= {"tokens": round(decision.run.tokens), "gpu_hours": round(decision.run.gpu_hours, 2)}
    return _json(content)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
