"""Training in a RayJob: the head runs the launch line, and one group of workers has the GPUs."""

from reconciler.kube.values import text
from reconciler.kube.yaml import read
from reconciler.sizing.training_jobs.container import Container, parse_environment
from reconciler.sizing.training_jobs.job import (
    Allocation,
    Editor,
    JobFormat,
    PodCounts,
    TrainingJob,
    TrainingPods,
    as_written,
)
from reconciler.sizing.training_jobs.reader import JobReader

_CLUSTER = ("spec", "rayClusterSpec")
_HEAD = (*_CLUSTER, "headGroupSpec")
_GROUPS = (*_CLUSTER, "workerGroupSpecs")


class _RayJobFormat(JobFormat):
    kind = "RayJob"
    starts_processes = True

    def set_replicas(self, editor: Editor, job: TrainingJob, allocation: Allocation) -> PodCounts:
        """Write exactly as many workers as nodes, and tell Ray their GPUs if the job does."""
        group = job.lead.template[:-1]
        has_workers = group != (*job.root, *_HEAD)
        if has_workers:
            reason = allocation.because("workers", allocation.spread)
            for field in ("replicas", "minReplicas", "maxReplicas"):
                editor.set((*group, field), allocation.workers, reason)
        gpus = (*group, "rayStartParams", "num-gpus")
        if editor.get(gpus) is not None:
            value = as_written(editor.get(gpus), allocation.per_worker)
            editor.set(gpus, value, allocation.because("gpus", allocation.spread))
        return {job.lead.template: allocation.workers} if has_workers else {}


_FORMAT = _RayJobFormat()


def ray_job_training(reader: JobReader) -> TrainingJob | None:
    """Read a RayJob with its own cluster and one group of workers; without workers the head itself trains.

    KubeRay runs the entrypoint in a shell. Variables come from the head's container and from `runtimeEnvYAML`, which
    takes precedence.
    """
    if not reader.mapping(*_CLUSTER):
        hint = "set rayClusterSpec: the workers of a running cluster (clusterSelector) do not belong to this job"
        reader.problem("sizing.shape", (*reader.root, "spec"), "has no cluster of its own", hint)
        return None
    entrypoint = reader.get("spec", "entrypoint")
    line = (*reader.root, "spec", "entrypoint")
    if not isinstance(entrypoint, str) or not entrypoint.strip():
        reader.problem("sizing.shape", line, "has no entrypoint", "set it to the launch line")
        return None
    template = (*reader.root, *_HEAD, "template")
    head = reader.only_container(template)
    workers = _workers(reader)
    if head is None or workers is None:
        return None
    return TrainingJob(
        document=reader.document,
        format=_FORMAT,
        root=reader.root,
        pods=workers or (TrainingPods(role="head", replicas=1, container=head, template=template),),
        command=("/bin/sh", "-c", entrypoint),
        args=(),
        env=_environment(reader, head),
        line=line,
        seen_by=(head.path,) if workers else (),
        has_rendezvous=bool(workers),
        suspended=reader.flag("spec", "suspend"),
    )


def _workers(reader: JobReader) -> tuple[TrainingPods, ...] | None:
    """Return the only group of workers; () if there is none, None if it is ambiguous which group trains."""
    groups = reader.items(*_GROUPS)
    path = (*reader.root, *_GROUPS)
    if len(groups) > 1:
        message = f"has {len(groups)} groups of workers"
        reader.problem("sizing.shape", (*path, 1), message, "keep only the group that trains")
        return None
    if not groups:
        return ()
    if reader.count(*_GROUPS, 0, "numOfHosts") > 1:
        message, hint = "a worker of several hosts cannot be sized", "remove numOfHosts, and set replicas"
        reader.problem("sizing.shape", (*path, 0, "numOfHosts"), message, hint)
        return None
    template = (*path, 0, "template")
    container = reader.only_container(template)
    if container is None:
        return None
    minimum = reader.count(*_GROUPS, 0, "minReplicas", default=0)
    replicas = max(reader.count(*_GROUPS, 0, "replicas", default=minimum), minimum)
    role = text(reader.get(*_GROUPS, 0, "groupName")) or "workers"
    return (TrainingPods(role=role, replicas=replicas, container=container, template=template),)


def _environment(reader: JobReader, head: Container) -> tuple[tuple[str, str | None], ...]:
    runtime = reader.get("spec", "runtimeEnvYAML")
    variables = dict(head.env)
    for document in read("runtimeEnvYAML", runtime.encode()).documents if isinstance(runtime, str) else ():
        own = document.data.get("env_vars")
        entries = own.items() if isinstance(own, dict) else ()
        variables |= dict(parse_environment([{"name": name, "value": value} for name, value in entries]))
    return tuple(variables.items())
