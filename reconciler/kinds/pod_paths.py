"""Pods at declared paths (`repo.config.pod_paths`), and pod templates from parts of one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from reconciler.kinds.facts import PodSet
from reconciler.kinds.immutable import value_of
from reconciler.kinds.pods import bounds
from reconciler.kube.values import count, mapping, text
from reconciler.repo.config.pod_paths import PodPath

_MAX_FOUND = 1000  # of one path; objects with more are mistakes


def reader(*paths: PodPath) -> Callable[[Mapping[str, Any], str], Iterable[PodSet]]:
    """Return a `Pods.read` that reads these paths."""

    def read(body: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
        for path in paths:
            for place, holder in walk(body, path.at):
                yield from _pods(path, body, holder, f"{prefix}{place}.".lstrip("."))

    return read


def _pods(path: PodPath, body: Mapping[str, Any], holder: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    times = 1
    for field in path.times:
        times *= count(value_of(body, field), 1)
    least, most = _amount(holder, path.least), _amount(holder, path.most)
    replicas = count(value_of(holder, path.replicas), 1 if least is None else least)
    if most is not None:
        replicas = max(min(replicas, most), least or 0)
    for place, node in walk(holder, path.template):
        template = as_template(node)
        if template is None:
            continue
        scale = bounds(replicas, least, most)
        yield PodSet(replicas, template, f"{prefix}{place}." if place else prefix, None, "", *scale).times(times)


def _amount(holder: Mapping[str, Any], field: str) -> int | None:
    value = value_of(holder, field) if field else None
    return count(value, 0) if type(value) is int else None


def as_template(node: Any) -> dict[str, Any] | None:
    """Return a pod template for a template, a pod's spec, a container, or resources; None for anything else."""
    if type(node) is not dict:
        return None
    if type(node.get("spec")) is dict:
        return node
    if type(node.get("containers")) is list:
        return {"metadata": {}, "spec": node}
    if type(node.get("resources")) is dict:
        return with_containers(node)
    if type(node.get("limits")) is dict or type(node.get("requests")) is dict:
        return with_containers({"resources": node})
    return None


def with_containers(*containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod template of these containers."""
    return {"metadata": {}, "spec": {**spec, "containers": [dict(container) for container in containers]}}


def with_devices(resource: str, amount: int) -> dict[str, Any]:
    """Return a pod template of one container with these devices."""
    return with_containers({"resources": {"limits": {resource: amount}}} if amount else {})


def walk(body: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the mappings at a path, each with the path that leads to it."""
    found: list[tuple[str, Any]] = [("", body)]
    for part in path.split(".") if path else ():
        found = [step for place, node in found for step in _steps(place, node, part)][:_MAX_FOUND]
    yield from ((place, node) for place, node in found if type(node) is dict)


def _steps(place: str, node: Any, part: str) -> Iterator[tuple[str, Any]]:
    children = mapping(node)
    if part == "*":
        yield from ((f"{place}.{text(key)}".lstrip("."), child) for key, child in children.items())
        return
    name = part.removesuffix("[]")
    child = children.get(name)
    place = f"{place}.{name}".lstrip(".")
    if part == name:
        yield place, child
    elif type(child) is list:
        yield from ((f"{place}[{index}]", item) for index, item in enumerate(child))
