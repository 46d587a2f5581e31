"""Plans as JSON: the file that `plan --out` writes and `show` reads.

Keys are in the order of the fields, so that equal plans have equal bytes.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from reconciler.errors import ConfigError, StalePlan
from reconciler.kube.values import NOT_JSON
from reconciler.plan.digest import checksum, checksum_of, digest
from reconciler.plan.plan import NEW_FIELDS, Plan
from reconciler.policy.approval import Approval

API_VERSION = "gpureconciler.io/v1alpha1"
KIND = "Plan"


def fields(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a plan without its checksum, as JSON shows them. Lists are iterators."""
    yield "apiVersion", API_VERSION
    yield "kind", KIND
    for name, key in zip(Plan.__struct_fields__, Plan.__struct_encode_fields__, strict=True):
        value = getattr(plan, name)
        if not value and name in NEW_FIELDS:
            continue
        yield key, iter(value) if isinstance(value, tuple) else value


def plan_checksum(plan: Plan) -> str:
    """Return the checksum of the saved plan, without holding all of its JSON values."""
    try:
        return checksum_of(fields(plan))
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return checksum(_document(plan))


def _document(plan: Plan) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(plan)
    written = {key: value for key, value in values.items() if value or key not in NEW_FIELDS}
    return {"apiVersion": API_VERSION, "kind": KIND, **written}


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain JSON values, with a checksum over all of them."""
    return {**_document(plan), "checksum": plan_checksum(plan)}


def encode(plan: Plan) -> bytes:
    """Return the plan as indented JSON with a final line break."""
    return msgspec.json.format(msgspec.json.encode(to_json(plan)), indent=2) + b"\n"


def from_json(data: bytes | Mapping[str, Any]) -> Plan:
    """Read the result of `encode` or `to_json`.

    Raises `ConfigError` if it is not a plan of this version, and `StalePlan` if its checksum or its digest does not
    match its content.
    """
    hint = "create it again: reconciler plan --out plan.json"
    try:
        raw = msgspec.json.decode(data) if isinstance(data, bytes) else dict(data)
        if not isinstance(raw, dict) or (raw.get("apiVersion"), raw.get("kind")) != (API_VERSION, KIND):
            raise ConfigError(f"not a {KIND} of {API_VERSION}", hint=hint)
        plan = msgspec.convert(raw, Plan)
    except NOT_JSON as error:
        raise ConfigError(f"cannot read the plan: {error}", hint=hint) from error
    for name, recorded, computed in (
        ("checksum", raw.get("checksum"), checksum(raw)),
        ("digest", plan.digest, digest(plan)),
    ):
        if recorded != computed:
            message = f"the plan was modified after it was created: its {name} does not match its content"
            raise StalePlan(message, hint=hint)
    return plan


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a plan file, derived from the types of its fields."""
    (_, definitions) = msgspec.json.schema_components([Plan], ref_template="#/$defs/{name}")
    types = {kind.__name__: kind for kind in _structs(Plan)}
    shapes = {name: _shape(shape, types.get(name)) for name, shape in sorted(definitions.items())}
    plan = shapes.pop("Plan")
    head = {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}}
    tail = {"checksum": {"type": "string", "description": "SHA-256 of the other fields, as canonical JSON."}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:gpureconciler:v1alpha1:plan",
        "title": KIND,
        "description": plan.get("description", ""),
        "type": "object",
        "properties": {**head, **plan["properties"], **tail},
        "required": [*head, *(name for name in plan["required"] if name not in NEW_FIELDS), *tail],
        "additionalProperties": False,
        "$defs": shapes,
    }


def _shape(shape: dict[str, Any], kind: type | None) -> dict[str, Any]:
    """Rename the properties of one definition. All keys are required, because all are always written.

    Fields that are unset by default are so in every plan: they are for what makes it.
    Types of other packages have no description here, because it would repeat their docstrings.
    """
    if kind is None or kind.__module__ not in (Plan.__module__, Approval.__module__):
        shape = {key: value for key, value in shape.items() if key != "description"}
    if kind is None:
        return shape
    unset = {field.encode_name for field in msgspec.structs.fields(kind) if field.default is msgspec.UNSET}
    properties = {
        name: {key: value for key, value in inner.items() if key != "default"}
        for name, inner in shape["properties"].items()
        if name not in unset
    }
    return {**shape, "properties": properties, "required": list(properties), "additionalProperties": False}


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a struct, with `X | None` as `X`."""
    return {name: _plain(hint) for name, hint in get_type_hints(kind).items()}


def _plain(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        options = [option for option in get_args(hint) if option is not NoneType]
        return options[0] if len(options) == 1 else Any
    return hint


def _structs(kind: Any) -> set[type]:
    """Return the structs that a type consists of, itself included."""
    structs: set[type] = set()
    pending = [kind]
    while pending:
        current = pending.pop()
        if isinstance(current, type) and issubclass(current, msgspec.Struct) and current not in structs:
            structs.add(current)
            hints = _hints(current)
            pending += [hints[name] for name in current.__struct_fields__]
        elif get_origin(current) is tuple:
            pending.append(get_args(current)[0])
    return structs
