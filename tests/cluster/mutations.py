"""Broken objects from good ones: every place of an object, broken in every way that fits it."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from reconciler.kube.objects import FieldPath, format_path

_LONG = "x" * 300
_IDENTITY = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change to a good object; `name` tells which, as `drop spec.template`."""

    name: str
    body: dict[str, Any]


def mutations(good: dict[str, Any]) -> Iterator[Mutation]:
    """Yield the object as it is, then every single change to it."""
    yield Mutation(name="as it is", body=good)
    for path in _paths(good, ()):
        if path in _IDENTITY:
            continue
        for what, change in _changes(_get(good, path)):
            yield _changed(good, path, what, change)
    for what, name in (("upper", "Train"), ("underscore", "a_b"), ("long", "a" * 254), ("dash", "-a"), ("dot", "a.b")):
        yield _changed(good, ("metadata", "name"), f"{what} name", _replace(name))
    for key, value in (
        ("bad key!", "v"),
        ("a/b/c", "v"),
        ("k", "bad value!"),
        ("k", "v" * 64),
        ("k" * 64, "v"),
        ("k", 1),
    ):
        change = _replace({key: value})
        yield _changed(good, ("metadata", "labels"), f"label {key[:9]}={str(value)[:12]}", change)
    yield _changed(good, ("metadata", "annotations"), "bad annotation", _replace({"bad key!": "v"}))
    yield _changed(good, ("metadata", "annotations"), "huge annotation", _replace({"a": "v" * 300_000}))


def _paths(node: Any, path: FieldPath) -> Iterator[FieldPath]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for part, child in children:
        yield (*path, part)
        yield from _paths(child, (*path, part))


def _get(body: Any, path: FieldPath) -> Any:
    for part in path:
        body = body[part]
    return body


Change = Callable[[Any, Any], None]
"""Changes the container of a value, which is at the given key or index."""


def _changes(value: Any) -> Iterator[tuple[str, Change]]:
    yield "drop", _drop
    yield "null", _replace(None)
    if isinstance(value, dict):
        yield "unknown field", _add("unheardOf", 1)
        replacements: list[tuple[str, Any]] = [("list for map", []), ("text for map", "text"), ("empty", {})]
    elif isinstance(value, list):
        yield "repeat", _repeat
        replacements = [("map for list", {}), ("text for list", "text"), ("empty", []), ("null item", [None])]
    elif isinstance(value, bool):
        replacements = [("text for flag", "true"), ("number for flag", 1)]
    elif value is None:
        replacements = [("text for null", "text"), ("number for null", 7), ("list for null", []), ("map for null", {})]
    elif isinstance(value, int):
        replacements = [("text for number", "many"), ("digits", str(value)), ("negative", -7), ("zero", 0)]
        replacements += [("huge", 2**40), ("fraction", 1.5), ("flag for number", True), ("port", 70000)]
    else:
        replacements = [("number for text", 7), ("flag for text", True), ("list for text", [value]), ("empty", "")]
        replacements += [("strange", "Not_A valid.value!"), ("long", _LONG), ("map for text", {"a": "b"})]
        replacements += [("blank", f"{value} "), ("upper", value.upper()), ("unit", "5 GB"), ("minus", "-1")]
    for name, replacement in replacements:
        if replacement != value:
            yield name, _replace(replacement)


def _changed(good: dict[str, Any], path: FieldPath, what: str, change: Change) -> Mutation:
    body = copy.deepcopy(good)
    change(_get(body, path[:-1]), path[-1])
    return Mutation(name=f"{what} {format_path(path)}", body=body)


def _replace(value: Any) -> Change:
    def change(container: Any, part: Any) -> None:
        container[part] = copy.deepcopy(value)

    return change


def _add(name: str, value: Any) -> Change:
    return lambda container, part: container[part].update({name: value})


def _drop(container: Any, part: Any) -> None:
    del container[part]


def _repeat(container: Any, part: Any) -> None:
    if container[part]:
        container[part].append(copy.deepcopy(container[part][0]))
