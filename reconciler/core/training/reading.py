"""From a document to its training job, or to the problems that keep it from being sized."""

from collections.abc import Callable

from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath, split_api_version
from reconciler.core.problems import Parsed
from reconciler.core.training.container import container_of, environment
from reconciler.core.training.job import Kind, Pods, TrainingJob
from reconciler.core.training.kubeflow import pytorch_job, train_job
from reconciler.core.training.plain import job, job_set
from reconciler.core.training.ray import ray_job
from reconciler.core.training.reader import Launches, Reader

_Read = Callable[[Reader], TrainingJob | None]


def training_job(document: Document, launches: Launches) -> Parsed[TrainingJob]:
    """Read the training job of a document that its schema has accepted.

    `launches` tells whether a container's words start a training. No intent without a problem: what cannot be sized
    is said with its place (rules `sizing.kind`, `sizing.wrapped`, `sizing.replica-specs`, `sizing.master`,
    `sizing.containers`, `sizing.worker-differs`, `sizing.shape`).
    """
    reader = Reader(document, launches)
    if _group_kind(document.data) == ("workload.codeflare.dev", "AppWrapper"):
        _enter_wrapper(reader)
    found = None if reader.problems else _read(reader)
    return Parsed(intent=None if reader.problems else found, problems=tuple(reader.problems))


def is_training_kind(document: Document) -> bool:
    """Whether a document is of a kind that can be sized; an AppWrapper counts, whatever it wraps."""
    known = _group_kind(document.data)
    return known in _READERS or known == ("workload.codeflare.dev", "AppWrapper")


def _read(reader: Reader) -> TrainingJob | None:
    read = _READERS.get(_group_kind(reader.mapping()))
    if read is None:
        kind = reader.mapping().get("kind")
        hint = f"kinds that can be sized: {', '.join(kind.value for kind in Kind)}, and an AppWrapper of one of them"
        reader.problem("sizing.kind", (*reader.root, "kind"), f"a {kind} is no training job", hint)
        return None
    return read(reader)


def _enter_wrapper(reader: Reader) -> None:
    """Move to the one job that an AppWrapper holds; what else it wraps (Services, volumes) does not matter."""
    paths: list[FieldPath] = []
    for index, component in enumerate(reader.items("spec", "components")):
        template = component.get("template") if isinstance(component, dict) else None
        if isinstance(template, dict) and _group_kind(template) in _READERS:
            paths.append(("spec", "components", index, "template"))
    if len(paths) == 1:
        reader.root = paths[0]
        return
    at: FieldPath = paths[1] if paths else ("spec", "components")
    message = f"wraps {len(paths)} training jobs" if paths else "wraps no training job"
    reader.problem("sizing.wrapped", at, message, "an AppWrapper that is sized holds exactly one")


def _group_kind(data: object) -> tuple[str, str]:
    values = (data.get("apiVersion"), data.get("kind")) if isinstance(data, dict) else ("", "")
    version, kind = (value if isinstance(value, str) else "" for value in values)
    return split_api_version(version)[0], kind


def _torchrun_job(reader: Reader) -> TrainingJob | None:
    """Read a TorchrunJob: its command is one string, its pods come from its queue, which starts a process a GPU."""
    spec = reader.mapping("spec")
    for field in ("minNodes", "maxNodes"):
        if field in reader.mapping("spec", "distributed"):
            message, hint = "an elastic job takes the nodes that it finds", f"remove {field}, or the watch label"
            reader.problem("sizing.shape", ("spec", "distributed", field), message, hint)
            return None
    command = spec.get("command")
    text = command if isinstance(command, str) else ""
    path: FieldPath = ("spec",)
    container = container_of({"env": spec.get("env")}, path)
    return TrainingJob(
        document=reader.document,
        kind=Kind.TORCHRUN_JOB,
        pods=(Pods(role="trainer", replicas=reader.count("spec", "numNodes"), container=container),),
        command=("/bin/sh", "-c", text),
        args=(),
        env=environment(spec.get("env")),
        line=("spec", "command"),
        suspended=reader.flag("spec", "suspend"),
    )


_READERS: dict[tuple[str, str], _Read] = {
    ("kubeflow.org", "PyTorchJob"): pytorch_job,
    ("batch", "Job"): job,
    ("jobset.x-k8s.io", "JobSet"): job_set,
    ("trainer.kubeflow.org", "TrainJob"): train_job,
    ("ray.io", "RayJob"): ray_job,
    ("torchrun.ai", "TorchrunJob"): _torchrun_job,
}
