"""RayJob: a line that its head runs, and the group of workers that holds the GPUs."""

from reconciler.core.documents import read
from reconciler.core.training.container import Container, environment
from reconciler.core.training.job import Kind, Pods, TrainingJob
from reconciler.core.training.pods import only_container
from reconciler.core.training.reader import Reader

_CLUSTER = ("spec", "rayClusterSpec")
_GROUPS = (*_CLUSTER, "workerGroupSpecs")


def ray_job(reader: Reader) -> TrainingJob | None:
    """Read a RayJob with its own cluster and one group of workers; without workers the head itself trains.

    KubeRay hands the entrypoint to a shell, so it is read as one. Variables come from the head's container and from
    `runtimeEnvYAML`, which wins.
    """
    if not reader.mapping(*_CLUSTER):
        path = (*reader.root, "spec")
        hint = "give rayClusterSpec: the workers of a running cluster (clusterSelector) are not this job's"
        reader.problem("sizing.shape", path, "has no cluster of its own", hint)
        return None
    entrypoint = reader.mapping("spec").get("entrypoint")
    if not isinstance(entrypoint, str) or not entrypoint.strip():
        reader.problem(
            "sizing.shape", (*reader.root, "spec", "entrypoint"), "has no entrypoint", "give the launch line"
        )
        return None
    head = only_container(reader, (*reader.root, *_CLUSTER, "headGroupSpec", "template"))
    pods = _workers(reader)
    if head is None or pods is None:
        return None
    return TrainingJob(
        document=reader.document,
        kind=Kind.RAY_JOB,
        root=reader.root,
        pods=pods or (_head(reader, head),),
        command=("/bin/sh", "-c", entrypoint),
        args=(),
        env=_environment(reader, head),
        line=(*reader.root, "spec", "entrypoint"),
        seen_by=(head.path,) if pods else (),
        meets=bool(pods),
        suspended=reader.flag("spec", "suspend"),
    )


def _head(reader: Reader, container: Container) -> Pods:
    return Pods(
        role="head",
        replicas=1,
        container=container,
        template=(*reader.root, *_CLUSTER, "headGroupSpec", "template"),
    )


def _workers(reader: Reader) -> tuple[Pods, ...] | None:
    """Return the one group of workers; () where there is none, None where it cannot be told which one trains."""
    groups = reader.items(*_GROUPS)
    at = (*reader.root, *_GROUPS)
    if len(groups) > 1:
        message = f"has {len(groups)} groups of workers"
        reader.problem("sizing.shape", (*at, 1), message, "keep one group: the one that trains")
        return None
    if not groups:
        return ()
    if reader.count(*_GROUPS, 0, "numOfHosts") > 1:
        message, hint = "a worker of several hosts cannot be sized", "leave numOfHosts out, and give replicas"
        reader.problem("sizing.shape", (*at, 0, "numOfHosts"), message, hint)
        return None
    template = (*at, 0, "template")
    container = only_container(reader, template)
    if container is None:
        return None
    name = reader.mapping(*_GROUPS, 0).get("groupName")
    least = reader.count(*_GROUPS, 0, "minReplicas", default=0)
    replicas = max(reader.count(*_GROUPS, 0, "replicas", default=least), least)
    role = name if isinstance(name, str) else "workers"
    return (Pods(role=role, replicas=replicas, container=container, template=template),)


def _environment(reader: Reader, head: Container) -> tuple[tuple[str, str | None], ...]:
    text = reader.mapping("spec").get("runtimeEnvYAML")
    found = dict(head.env)
    for document in read("runtimeEnvYAML", text.encode()).documents if isinstance(text, str) else ():
        variables = document.data.get("env_vars")
        entries = variables.items() if isinstance(variables, dict) else ()
        found |= dict(environment([{"name": name, "value": value} for name, value in entries]))
    return tuple(found.items())
