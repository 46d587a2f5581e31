"""Typed access to parsed YAML: a value of the wrong type counts as absent, because schemas report it elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from reconciler.kube.objects import FieldPath

MAX_COUNT = 1_000_000
"""Upper bound of counts. Larger numbers are mistakes; the bound keeps every sum within 64 bits."""

NOT_JSON = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What `msgspec.json.decode` raises: the text is invalid, of another shape, or nested too deeply."""

_EMPTY: dict[str, Any] = {}


def mapping(value: Any) -> dict[str, Any]:
    """Return `value` if it is a mapping, else an empty mapping."""
    return value if type(value) is dict else _EMPTY


def sequence(value: Any) -> Sequence[Any]:
    """Return `value` if it is a list, else an empty sequence."""
    return value if type(value) is list else ()


def metadata_text(body: Mapping[str, Any], field: str) -> str:
    """Return a text of the metadata of an object, else an empty string."""
    return text(mapping(body.get("metadata")).get(field))


def metadata_map(body: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return the labels or the annotations of an object or a pod template, else an empty mapping."""
    return mapping(mapping(body.get("metadata")).get(field))


def text(value: Any) -> str:
    """Return `value` if it is a string, else an empty string."""
    return value if type(value) is str else ""


def count(value: Any, default: int) -> int:
    """Return `value` clamped to 0..1,000,000 if it is an integer, else `default`."""
    return min(max(value, 0), MAX_COUNT) if type(value) is int else default


def value_at(data: Any, path: FieldPath) -> Any:
    """Return the value at `path` in plain data; None if there is none."""
    for part in path:
        kind = type(data)
        if kind is dict:
            if part not in data:
                return None
            data = data[part]
        elif kind is list and type(part) is int and part < len(data):
            data = data[part]
        else:
            return None
    return data


def with_value(node: Any, path: FieldPath, value: Any) -> Any:
    """Return a copy of plain data with another value at `path`. Mappings on the way that are missing are added."""
    step, rest = path[0], path[1:]
    if isinstance(node, list):
        inner = (with_value(item, rest, value) if rest and at == step else item for at, item in enumerate(node))
        return [value if at == step and not rest else item for at, item in enumerate(inner)]
    fields: dict[Any, Any] = mapping(node)
    return {**fields, step: with_value(fields.get(step), rest, value) if rest else value}


def without_value(node: Any, path: FieldPath) -> Any:
    """Return a copy of plain data without the value at `path`."""
    step, rest = path[0], path[1:]
    if isinstance(node, dict):
        items = ((name, without_value(inner, rest) if name == step and rest else inner) for name, inner in node.items())
        return {name: inner for name, inner in items if name != step or rest}
    if isinstance(node, list):
        items = ((at, without_value(inner, rest) if at == step and rest else inner) for at, inner in enumerate(node))
        return [inner for at, inner in items if at != step or rest]
    return node


def pruned(node: Any, path: FieldPath) -> Any:
    """Return a copy of plain data without the value at `path`, and without the mappings that held nothing else."""
    found, holder = without_value(node, path), path[:-1]
    while holder and found != node and isinstance(holder[-1], str) and value_at(found, holder) == {}:
        found, holder = without_value(found, holder), holder[:-1]
    return found


def annotation(body: Mapping[str, Any], name: str) -> str:
    """Return an annotation of an object; empty if there is none."""
    return text(metadata_map(body, "annotations").get(name))


def enumerated(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def plural(number: float, noun: str) -> str:
    """Return a number with its noun: `1 GPU`, `2,048 GPUs`, `2 processes`."""
    suffix = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,.15g} {noun}{suffix}"
