"""Files and variables that a container gets from ConfigMaps."""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from reconciler.kube.objects import FieldPath
from reconciler.kube.values import mapping, sequence, text, value_at
from reconciler.sizing.training_jobs.job import TrainingJob

FindConfigMap = Callable[[str], Mapping[str, Any] | None]
"""Return the body of a ConfigMap in the job's namespace, by name; None if the repository has none."""


class _Key(NamedTuple):
    """A key of a ConfigMap."""

    config_map: str
    key: str


def mounted_file(data: Any, container: FieldPath, path: str, find: FindConfigMap) -> tuple[bool, bytes | None]:
    """Return whether the container mounts a ConfigMap of the repository at a path, and the file there.

    `data` is the body of the job. A ConfigMap that the repository does not have counts as not mounted.
    """
    pod = mapping(value_at(data, container[:-2]))
    mounts = [mapping(item) for item in sequence(mapping(value_at(data, container)).get("volumeMounts"))]
    mounts = [mount for mount in mounts if _below(path, text(mount.get("mountPath"))) is not None]
    if not mounts:
        return False, None
    mount = max(mounts, key=lambda one: len(text(one.get("mountPath"))))
    inside, part = _below(path, text(mount.get("mountPath"))) or "", text(mount.get("subPath"))
    wanted = "/".join(filter(None, (part, inside)))
    bodies = [(key, find(key.config_map)) for key in _keys(pod, text(mount.get("name")), wanted)]
    found = [(key, body) for key, body in bodies if body is not None]
    return bool(found), next((content for key, body in found if (content := _content(body, key.key)) is not None), None)


def environment(job: TrainingJob, find: FindConfigMap) -> tuple[tuple[str, str | None], ...]:
    """Return the variables of the job, with the values that come from ConfigMaps of the repository."""
    return container_environment(mapping(job.get(*job.lead.container.path)), job.env, find)


def container_environment(
    container: Mapping[str, Any], env: Iterable[tuple[str, str | None]], find: FindConfigMap
) -> tuple[tuple[str, str | None], ...]:
    """Return the variables of a container, whose literal values are in `env`, with those from ConfigMaps."""
    items = {item.get("name"): item for item in map(mapping, sequence(container.get("env")))}
    own = [(name, _value(items.get(name), find) if value is None else value) for name, value in env]
    names = {name for name, _ in own}
    whole = {name: value for name, value in _whole_maps(container, find) if name not in names}
    return (*whole.items(), *own)


def variable_path(job: TrainingJob, name: str) -> FieldPath:
    """Return the place of a variable of the job; the container if it comes from a whole ConfigMap."""
    path = job.lead.container.path
    items = sequence(job.get(*path, "env"))
    index = next((index for index, item in enumerate(items) if mapping(item).get("name") == name), None)
    return path if index is None else (*path, "env", index)


def _below(path: str, folder: str) -> str | None:
    """Return a path relative to a folder or file that it is in; None if it is elsewhere."""
    folder = folder.rstrip("/")
    if not folder or not f"{path}/".startswith(f"{folder}/"):
        return None
    return path[len(folder) :].strip("/")


def _keys(pod: Mapping[str, Any], volume: str, path: str) -> Iterator[_Key]:
    """Yield the keys that are mounted as a path of a volume."""
    volumes = (mapping(item) for item in sequence(pod.get("volumes")))
    found = next((one for one in volumes if one.get("name") == volume), {})
    projected = [mapping(item) for item in sequence(mapping(found.get("projected")).get("sources"))]
    for source in (found, *projected):
        held = mapping(source.get("configMap"))
        if name := text(held.get("name")):
            items = [mapping(item) for item in sequence(held.get("items"))]
            named = next((text(item.get("key")) for item in items if item.get("path") == path), "")
            yield _Key(name, named if items else path)


def _content(body: Mapping[str, Any], key: str) -> bytes | None:
    value, binary = mapping(body.get("data")).get(key), mapping(body.get("binaryData")).get(key)
    if isinstance(value, str):
        return value.encode()
    try:
        return base64.b64decode(binary, validate=True) if isinstance(binary, str) else None
    except (binascii.Error, ValueError):
        return None


def _value(item: Mapping[str, Any] | None, find: FindConfigMap) -> str | None:
    reference = mapping(mapping(mapping(item).get("valueFrom")).get("configMapKeyRef"))
    body = find(text(reference.get("name"))) if reference.get("name") else None
    value = mapping(body.get("data")).get(text(reference.get("key"))) if body is not None else None
    return value if isinstance(value, str) else None


def _whole_maps(container: Mapping[str, Any], find: FindConfigMap) -> Iterator[tuple[str, str]]:
    for item in map(mapping, sequence(container.get("envFrom"))):
        name = text(mapping(item.get("configMapRef")).get("name"))
        body = find(name) if name else None
        for key, value in mapping(body.get("data")).items() if body is not None else ():
            if isinstance(value, str):
                yield f"{text(item.get('prefix'))}{key}", value
