"""Edits of an object: every value changed or removed, and every scalar that its schema knows added."""

import copy
from collections.abc import Iterator
from typing import Any

from reconciler.kube.objects import FieldPath, format_path
from tests.cluster.published import Root, Schema

Body = dict[str, Any]
_IDENTITY = {("metadata", "name"), ("metadata", "namespace"), ("metadata", "generateName")}
_MANAGED = {
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "uid",
    "selfLink",
    "generation",
}
_MAX_DEPTH = 9
_QUEUE = "kueue.x-k8s.io/queue-name"
_LABELS = (_QUEUE, "kueue.x-k8s.io/priority-class", "kueue.x-k8s.io/max-exec-time-seconds", "example.com/team")


def edits(body: Body, root: Root) -> Iterator[tuple[str, Body]]:
    """Yield named edits; many of them are no valid objects."""
    for path in leaves(body, ()):
        if path[0] in {"apiVersion", "kind", "status"} or path in _IDENTITY:
            continue
        for value in _changes(_at(body, path)):
            yield f"change {format_path(path)} to {value!r}", _edited(body, path, value)
        yield f"remove {format_path(path)}", _removed(body, path)
    for path, value in _missing(body, root):
        yield f"add {format_path(path)} {value!r}", _edited(body, path, value)
    labels = body["metadata"].get("labels", {})
    for label in _LABELS:
        if label not in labels:
            changed = copy.deepcopy(body)
            changed["metadata"]["labels"] = {**labels, label: "60"}
            yield f"add label {label}", changed


def _missing(body: Body, root: Root) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the scalar fields that the object does not have, each with values that may fit."""

    def walk(node: Any, schema: Schema, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
        schema = root.resolved(schema)
        if len(path) > _MAX_DEPTH or (path and path[0] == "status"):
            return
        if isinstance(node, list):
            for index, item in enumerate(node):
                yield from walk(item, schema.get("items", {}), (*path, index))
        if not isinstance(node, dict):
            return
        for name, field in sorted(schema.get("properties", {}).items()):
            if name in node:
                yield from walk(node[name], field, (*path, name))
            elif not (path == ("metadata",) and (name in _MANAGED or (*path, name) in _IDENTITY)):
                yield from (((*path, name), value) for value in _values(root.resolved(field)))

    for name, field in root.schema["properties"].items():
        if name in body and name not in {"apiVersion", "kind"}:
            yield from walk(body[name], field, (name,))


def _values(schema: Schema) -> Iterator[Any]:
    if schema.get("enum"):
        yield from [value for value in schema["enum"] if value][:3]
    elif schema.get("type") == "boolean":
        yield from (True, False)
    elif schema.get("type") == "integer":
        yield 1
    elif schema.get("type") == "string" and not schema.get("format"):
        yield "x"


def _changes(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1) if value > 0 else (value + 1,)
    elif isinstance(value, str) and value[-2:] in {"Gi", "Ti"}:
        yield from (f"{int(value[:-2]) + 1}{value[-2:]}", f"{max(1, int(value[:-2]) - 1)}{value[-2:]}")
    elif isinstance(value, str):
        yield from (f"{value}x", *(other for other in _WORDS if value in _WORDS and other != value))


_WORDS = ("Retain", "Delete", "Recycle", "Never", "OnFailure", "Always", "None", "Hold", "Indexed", "NonIndexed")


def leaves(node: Any, path: FieldPath) -> Iterator[FieldPath]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    inner = [found for key, value in children for found in leaves(value, (*path, key))]
    yield from inner or [path]


def _at(body: Any, path: FieldPath) -> Any:
    for step in path:
        body = body[step]
    return body


def _edited(body: Body, path: FieldPath, value: Any) -> Body:
    edited = copy.deepcopy(body)
    _at(edited, path[:-1])[path[-1]] = value
    return edited


def _removed(body: Body, path: FieldPath) -> Body:
    edited = copy.deepcopy(body)
    del _at(edited, path[:-1])[path[-1]]
    return edited
