"""Jobs of Kubernetes itself, alone or in a JobSet."""

from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.training.container import Container
from reconciler.core.training.job import Kind, Pods, TrainingJob
from reconciler.core.training.pods import can_meet, launching_container
from reconciler.core.training.reader import Reader


def job(reader: Reader) -> TrainingJob | None:
    """Read a Job; its pods are as many as run at the same time."""
    template: FieldPath = (*reader.root, "spec", "template")
    container = launching_container(reader, template)
    if container is None:
        return None
    pods = Pods(role="pod", replicas=_parallel(reader.mapping("spec")), container=container, template=template)
    return _training(reader, Kind.JOB, pods, container)


def job_set(reader: Reader) -> TrainingJob | None:
    """Read a JobSet: one of its jobs starts the training; others (data servers, evaluators) stay as they are."""
    replicated = reader.items("spec", "replicatedJobs")
    at: FieldPath = (*reader.root, "spec", "replicatedJobs")
    starting = [index for index in range(len(replicated)) if len(replicated) == 1 or _starts(reader, (*at, index))]
    if len(starting) != 1:
        message = f"{len(starting) or 'none'} of {len(replicated)} replicated jobs start a training"
        hint = "exactly one of them may hold the launch line"
        reader.problem("sizing.containers", (*at, starting[1]) if starting else at, message, hint)
        return None
    below = ("spec", "replicatedJobs", starting[0])
    template: FieldPath = (*reader.root, *below, "template", "spec", "template")
    container = launching_container(reader, template)
    if container is None:
        return None
    jobs, parallel = reader.count(*below, "replicas"), _parallel(reader.mapping(*below, "template", "spec"))
    if jobs > 1 and parallel > 1:
        message = f"{jobs} jobs of {parallel} pods: nobody can tell which of them is a node"
        hint = "use either replicas or parallelism for the nodes"
        reader.problem("sizing.shape", (*reader.root, *below, "replicas"), message, hint)
        return None
    name = reader.mapping(*below).get("name")
    role = name if isinstance(name, str) else "job"
    return _training(
        reader,
        Kind.JOB_SET,
        Pods(role=role, replicas=jobs * parallel, container=container, template=template),
        container,
    )


def _starts(reader: Reader, at: FieldPath) -> bool:
    """Whether a container of a replicated job starts a training."""
    quiet = Reader(reader.document, reader.launches)
    container = launching_container(quiet, (*at, "template", "spec", "template"))
    return container is not None and reader.launches(container)


def _parallel(spec: dict[str, Any]) -> int:
    parallelism = spec.get("parallelism", 1)
    completions = spec.get("completions", parallelism)
    return min(parallelism, completions) if type(parallelism) is int and type(completions) is int else 1


def _training(reader: Reader, kind: Kind, pods: Pods, container: Container) -> TrainingJob:
    wrapper = reader.document.data.get("spec")
    wrapped = bool(reader.root) and isinstance(wrapper, dict) and wrapper.get("suspend") is True
    return TrainingJob(
        document=reader.document,
        kind=kind,
        root=reader.root,
        pods=(pods,),
        command=container.command,
        args=container.args,
        env=container.env,
        meets=can_meet(container),
        suspended=reader.flag("spec", "suspend") or wrapped,
    )
