"""Pods and devices in objects of a kind that nobody knows: no figure includes them, and that has to be said."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.devices import is_gpu, may_be_gpu
from reconciler.core.kinds.facts import PodSet
from reconciler.core.summary.object_summary import Uncounted
from reconciler.core.values import mapping, sequence

_MAX_FOUND = 3  # of one object: the first ones tell enough
_AMOUNTS = frozenset(("limits", "requests"))
_GENERIC = frozenset(("gpu", "gpus"))
_CONTAINERS = frozenset(("containers", "initContainers"))


def find_uncounted(body: Mapping[str, Any], counted: Sequence[PodSet]) -> tuple[Uncounted, ...]:
    """Return what an object requests outside the templates that were counted; at most the first ones."""
    known = {id(pods.template) for pods in counted}
    found: dict[Uncounted, None] = {}
    for one in _walk({key: value for key, value in body.items() if key not in _NOT_SPEC}, "", known):
        found.setdefault(one)
        if len(found) == _MAX_FOUND:
            break
    return tuple(found)


_NOT_SPEC = frozenset(("apiVersion", "kind", "metadata", "status"))


def _walk(node: Any, path: str, known: set[int]) -> Iterator[Uncounted]:
    if id(node) in known:
        return
    if type(node) is list:
        for index, item in enumerate(node):
            if type(item) is dict or type(item) is list:
                yield from _walk(item, f"{path}[{index}]", known)
        return
    for key, child in mapping(node).items():
        if type(key) is not str:
            continue
        place = f"{path}.{key}".lstrip(".")
        if key in _AMOUNTS and type(child) is dict:
            yield from (Uncounted(place, f"{name}: {child[name]}") for name in child if _is_device(name, child[name]))
        elif key in _CONTAINERS and any("image" in mapping(item) for item in sequence(child)):
            yield from _walk(child, place, known)
            yield Uncounted(place, "pods")
        elif type(child) is dict or type(child) is list:
            yield from _walk(child, place, known)


def _is_device(resource: Any, amount: Any) -> bool:
    if type(amount) not in (int, float, str) or str(amount) in ("", "0"):
        return False
    return is_gpu(resource) or may_be_gpu(resource) or resource in _GENERIC
