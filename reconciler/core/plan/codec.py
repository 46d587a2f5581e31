"""A plan as JSON and back: `--out plan.json`, and `show` of what was written.

Keys are those of the values, in camelCase; the order is that of the values, so that equal plans are equal bytes.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from reconciler.core.plan.digest import digest
from reconciler.core.plan.plan import Plan
from reconciler.errors import ConfigError, StalePlan

API_VERSION = "gpureconciler.io/v1alpha1"
KIND = "Plan"


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain JSON values."""
    return {"apiVersion": API_VERSION, "kind": KIND, **_renamed(msgspec.to_builtins(plan), Plan, _camel)}


def encode(plan: Plan) -> bytes:
    """Return the plan as indented JSON text with a line end: the file that `--out` writes."""
    return msgspec.json.format(msgspec.json.encode(to_json(plan)), indent=2) + b"\n"


def from_json(data: bytes | Mapping[str, Any]) -> Plan:
    """Read what `encode` or `to_json` gave.

    Raises `ConfigError` where it is no plan of this version, `StalePlan` where its digest is not that of its content.
    """
    hint = "write it anew: reconciler plan --out plan.json"
    try:
        raw = msgspec.json.decode(data) if isinstance(data, bytes) else dict(data)
        if not isinstance(raw, dict) or (raw.get("apiVersion"), raw.get("kind")) != (API_VERSION, KIND):
            raise ConfigError(f"this is no {KIND} of {API_VERSION}", hint=hint)
        content = {name: value for name, value in raw.items() if name not in ("apiVersion", "kind")}
        plan = msgspec.convert(_renamed(content, Plan, _snake), Plan)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"the plan cannot be read: {error}", hint=hint) from error
    if digest(plan) != plan.digest:
        raise StalePlan("the plan was changed after it was made: its digest is not that of its content", hint=hint)
    return plan


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a plan file, derived from the values themselves."""
    (_, definitions) = msgspec.json.schema_components([Plan], ref_template="#/$defs/{name}")
    types = {kind.__name__: kind for kind in _values(Plan)}
    shapes = {name: _shape(shape, types.get(name)) for name, shape in sorted(definitions.items())}
    plan = shapes.pop("Plan")
    head = {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:gpureconciler:v1alpha1:plan",
        "title": KIND,
        "description": plan.get("description", ""),
        "type": "object",
        "properties": {**head, **plan["properties"]},
        "required": [*head, *plan["required"]],
        "additionalProperties": False,
        "$defs": shapes,
    }


def _shape(shape: dict[str, Any], kind: type | None) -> dict[str, Any]:
    """Rename the properties of one definition; every key is always written, so every key is required."""
    if kind is None:
        return shape
    properties = {
        _camel(name): {key: value for key, value in inner.items() if key != "default"}
        for name, inner in shape["properties"].items()
    }
    return {**shape, "properties": properties, "required": list(properties), "additionalProperties": False}


_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")


@lru_cache(maxsize=256)
def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@lru_cache(maxsize=256)
def _snake(name: str) -> str:
    return _HUMP.sub(lambda found: "_" + found.group().lower(), name)


def _renamed(value: Any, kind: Any, rename: Callable[[str], str]) -> Any:
    """Rename the keys that are fields of values; what users wrote (`before`, `after`) keeps its own."""
    if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = _hints(kind)
        return {rename(name): _renamed(inner, hints.get(_snake(name), Any), rename) for name, inner in value.items()}
    if isinstance(value, list | tuple) and get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return [_renamed(inner, item, rename) for inner in value]
    return value


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a value's fields, `X | None` as `X`."""
    return {name: _plain(hint) for name, hint in get_type_hints(kind).items()}


def _plain(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        rest = [one for one in get_args(hint) if one is not NoneType]
        return rest[0] if len(rest) == 1 else Any
    return hint


def _values(kind: Any) -> set[type]:
    found: set[type] = set()
    waiting = [kind]
    while waiting:
        here = waiting.pop()
        if isinstance(here, type) and issubclass(here, msgspec.Struct) and here not in found:
            found.add(here)
            hints = _hints(here)
            waiting += [hints[name] for name in here.__struct_fields__]
        elif get_origin(here) is tuple:
            waiting.append(get_args(here)[0])
    return found
