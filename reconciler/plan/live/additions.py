"""Additions: fields of a live object that others wrote beside ours, which an apply has to remove by itself.

A server-side apply touches no field that it never set. Defaults have no manager, and what a program sets beside our
fields is its own: an addition is what a person, or a tool that is not known to be a controller, owns alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.kinds.facts import Body
from reconciler.kinds.kind import Kinds
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import mapping, pruned, value_at
from reconciler.plan.live.authored import NOTES, RESTARTED, from_the_end
from reconciler.plan.live.managers import is_addition, place_of, trees_of_others

_NOT_READ = ("apiVersion", "kind", "status")
_NOTED = ("labels", "annotations")
_REPLICAS: FieldPath = ("spec", "replicas")
"""A number of pods that Git does not say is left to whoever scales."""

_READ = ("priorityClassName", "pod-security.kubernetes.io", "sidecar.istio.io", "istio-injection")
_OF_TOOLS = (
    *("gpureconciler.io/", "kustomize.toolkit.fluxcd.io/", "argocd.argoproj.io/", "applyset.kubernetes.io/"),
    *("client.lifecycle.config.k8s.io/", "config.k8s.io/owning-inventory"),
)
"""Marks that people set on objects of a cluster, and that we honour there."""


def read_names(kinds: Kinds) -> frozenset[str]:
    """Return the labels and annotations of objects that schedulers and operators read, or the domains of theirs."""
    labels = [label for label, _ in (*kinds.queue_labels, *kinds.other_labels)]
    return frozenset((*(group for group, _ in kinds), *labels, *(label.partition("/")[0] for label in labels), *_READ))


def find_additions(
    names: Collection[str], desired: Body, live: Body, controlled: Sequence[FieldPath]
) -> tuple[FieldPath, ...]:
    """Return the paths of what others added to a live object, later items of lists first.

    names: labels and annotations that are read, or their domains. controlled: the fields that belong to controllers.
    """
    found = {path for tree in trees_of_others(live) for path in _added(live, live, desired, tree, ())}
    chosen = (path for path in _outermost(found) if _counts(path, names) and _is_free(path, controlled))
    return tuple(sorted(chosen, key=from_the_end))


def removal(live: Body, paths: Iterable[FieldPath]) -> list[dict[str, Any]]:
    """Return the JSON patch that removes additions from exactly this version of a live object."""
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]}
    return [version, *({"op": "remove", "path": _pointer(path)} for path in paths)]


def without_additions(body: Any, live: Body, paths: Iterable[FieldPath]) -> Any:
    """Return a body, such as the result of a dry run, without the additions of a live object."""
    for path in sorted(filter(None, (_counterpart(path, live, body) for path in paths)), key=from_the_end):
        body = pruned(body, path)
    return body


def _added(live: Body, node: Any, ours: Any, tree: Mapping[str, Any], path: FieldPath) -> Iterator[FieldPath]:
    """Yield what a tree of owned fields has besides ours: the outermost values in which nobody else owns anything."""
    for step, below in tree.items():
        place = place_of(node, step)
        if place is None or node[place] is None or not _is_read(inner := (*path, place)):
            continue
        other = _ours(ours, node[place], place)
        is_whole = not below or (bool(path) and not _is_shared(inner))
        if other is None and is_whole and is_addition(live, inner):
            yield inner
        elif below:
            yield from _added(live, node[place], other, below, inner)


def _is_read(path: FieldPath) -> bool:
    """Return whether people can change what an object does at a path or below it."""
    return path[0] not in _NOT_READ and (path[0] != "metadata" or len(path) == 1 or path[1] in _NOTED)


def _is_shared(path: FieldPath) -> bool:
    """Return whether a mapping holds notes of everybody, which are told one by one."""
    return path[-1] == "metadata" or (path[-1] in _NOTED and path[-2] == "metadata")


def _ours(ours: Any, item: Any, place: str | int) -> Any:
    """Return the desired value at the place of a live one; None if there is none."""
    if isinstance(place, str):
        return mapping(ours).get(place)
    items = ours if isinstance(ours, list) else []
    return next((one for one in items if _is_same_item(one, item)), None)


_KEYS = ("name", "key", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey", "type", "groupName")


def _is_same_item(one: Any, other: Any) -> bool:
    """Return whether two items are the same by the first key that they have; what has none is compared whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        key = next((key for key in _KEYS if key in one and key in other), None)
        return one == other if key is None else one[key] == other[key]
    return bool(one == other)


def _counterpart(path: FieldPath, live: Body, body: Any) -> FieldPath:
    """Return the path in a body of a value of a live object; empty if it is not there."""
    found: FieldPath = ()
    node = body
    for depth, step in enumerate(path):
        place: str | int | None = step
        if isinstance(step, int):
            item = value_at(live, path[: depth + 1])
            items = node if isinstance(node, list) else []
            place = next((at for at, one in enumerate(items) if _is_same_item(one, item)), None)
        elif step not in mapping(node):
            place = None
        if place is None:
            return ()
        found, node = (*found, place), node[place]
    return found


def _outermost(paths: Collection[FieldPath]) -> Iterator[FieldPath]:
    return (path for path in paths if not any(path[:depth] in paths for depth in range(1, len(path))))


def _counts(path: FieldPath, names: Collection[str]) -> bool:
    """Return whether a value can change what an object does: notes of people and tools about it do not.

    All labels and annotations of pods count, but of an object only those that are known to be read.
    """
    name = path[-1]
    if path in (_REPLICAS, RESTARTED):
        return False
    if "metadata" not in path or not isinstance(name, str):
        return True
    if name.startswith((*NOTES, *_OF_TOOLS)):
        return False
    domain, slash, _ = name.partition("/")
    return path[0] != "metadata" or name in names or (bool(slash) and domain in names)


def _is_free(path: FieldPath, controlled: Sequence[FieldPath]) -> bool:
    return not any(path[: len(one)] == one or one[: len(path)] == path for one in controlled)


def _pointer(path: FieldPath) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
