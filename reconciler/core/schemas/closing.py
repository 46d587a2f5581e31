"""OpenAPI in, closed JSON Schema out: what a strict API server accepts, as a schema that decides the same.

Two dialects come in. Built-in kinds: components of OpenAPI v3 with `$ref`s, where any optional value may be null.
Custom kinds: the structural schema of a CustomResourceDefinition, which prunes what it does not name.
Both leave as JSON Schema 2020-12 in which an object without `additionalProperties` takes no other fields.
Sources: KEP-1693 (structural schemas), k8s.io/apiextensions-apiserver/pkg/apiserver/schema, KEP-2885 (strict).
"""

from collections.abc import Mapping
from typing import Any

from reconciler.core.schemas.forms import MIXED_LABEL
from reconciler.core.schemas.sharing import children, share
from reconciler.core.schemas.tightened import FIELDS, LAX, NOT_EMPTY, WHOLE

Schema = dict[str, Any]

QUANTITY_PATTERN = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?\s*$"
"""What `resource.ParseQuantity` takes (k8s.io/apimachinery/pkg/api/resource); the server trims blanks before."""

BASE64_PATTERN = r"^([A-Za-z0-9+/\r\n]{4})*([A-Za-z0-9+/\r\n]*={0,2}[\r\n]*)$"
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_KEPT = (
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
    "x-kubernetes-map-type",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
    "uniqueItems",
)
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SPECIAL: Mapping[str, Schema] = {
    _QUANTITY: {"type": ["string", "number", "null"], "format": "quantity", "pattern": QUANTITY_PATTERN},
    _INT_OR_STRING: {
        "type": ["string", "integer", "null"],
        "format": "int-or-string",
        "minimum": _RANGES["int32"][0],
        "maximum": _RANGES["int32"][1],
    },
    **{_JSON_SCHEMA + name: {} for name in ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool")},
    _JSON_SCHEMA + "JSONSchemaPropsOrStringArray": {},
}


# --- built-in kinds ---------------------------------------------------------------------------------------------


def close_builtin(root: str, components: Mapping[str, Schema]) -> Schema:
    """Close the component `root` and all that it refers to; references become `#/$defs/<short name>`."""
    names: dict[str, str] = {}
    waiting, definitions = [root], {}
    while waiting:
        component = waiting.pop()
        if component not in definitions:
            definitions[component] = tighten(component.split(".")[-1], _builtin(components[component], waiting, names))
    closed: Schema = {"$ref": f"#/$defs/{_short(root, names)}"}
    closed["$defs"] = {_short(name, names): schema for name, schema in sorted(definitions.items())}
    while sum(_relax(name, schema, closed["$defs"]) for name, schema in closed["$defs"].items()):
        pass  # a field that became optional may make the fields above it optional
    for schema in closed["$defs"].values():
        _insist_on_items(schema, closed["$defs"])
    return closed


_INSISTING = frozenset({"required", "anyOf", "oneOf", "if"})


def _relax(name: str, schema: Schema, definitions: Mapping[str, Schema]) -> bool:
    """Let an object be left out that may be empty: in Go it is there anyway. Return whether anything changed."""
    asked = WHOLE.get(name, {}).get("required", ())
    lax = {
        field
        for field in schema.get("required", ())
        if field not in asked and "$ref" in schema["properties"][field]
        if not _insists(schema["properties"][field], definitions)
    }
    for field in lax:
        schema["properties"][field].pop("type", None)
    left = [field for field in schema.pop("required", ()) if field not in lax]
    if left:
        schema["required"] = left
    return bool(lax)


def _insists(schema: Schema, definitions: Mapping[str, Schema]) -> bool:
    """Whether the definition that `schema` refers to refuses an empty object."""
    target = definitions[schema["$ref"].rpartition("/")[2]]
    return not _INSISTING.isdisjoint(target)


def _insist_on_items(schema: Schema, definitions: Mapping[str, Schema]) -> None:
    """Refuse null in a list of objects that must hold something: the server reads it as an empty object."""
    for _, _, child in children(schema):
        _insist_on_items(child, definitions)
    items = schema.get("items")
    if isinstance(items, dict) and "$ref" in items and "type" not in items and _insists(items, definitions):
        items["type"] = "object"


def _short(component: str, names: dict[str, str]) -> str:
    """Take the last part of a component's name; the group is added where two share it."""
    parts = component.split(".")
    short = parts[-1]
    if names.setdefault(short, component) != component:
        short = ".".join(parts[-3:])
        names.setdefault(short, component)
    return short


def _builtin(source: Schema, waiting: list[str], names: dict[str, str]) -> Schema:
    reference = source.get("$ref") or (source["allOf"][0].get("$ref") if len(source.get("allOf", ())) == 1 else None)
    if reference is not None:
        component = reference.rpartition("/")[2]
        special = _SPECIAL.get(component)
        closed: Schema = dict(special) if special is not None else {"$ref": f"#/$defs/{_short(component, names)}"}
        if special is None:
            waiting.append(component)
        return closed | _kept(source, without=("default",))
    closed = _kept(source)
    kind = source.get("type")
    if kind is not None:
        closed["type"] = [kind, "null"]
    if "enum" in closed:
        closed["enum"] = [*closed["enum"], *(value for value in ("", None) if value not in closed["enum"])]
    _constrain(closed, source)
    if "items" in source:
        closed["items"] = _builtin(source["items"], waiting, names)
        if source.get("x-kubernetes-list-type") in ("map", "set"):
            closed["items"] = _not_null(closed["items"])  # server-side apply finds no key in null
    if kind == "object":
        _builtin_object(closed, source, waiting, names)
    return closed


def _builtin_object(closed: Schema, source: Schema, waiting: list[str], names: dict[str, str]) -> None:
    if "properties" in source:
        closed["properties"] = {
            name: _builtin(child, waiting, names) for name, child in sorted(source["properties"].items())
        }
        closed["additionalProperties"] = False
        if source.get("required"):
            closed["required"] = sorted(source["required"])
    elif isinstance(source.get("additionalProperties"), dict):
        closed["additionalProperties"] = _builtin(source["additionalProperties"], waiting, names)
    if "x-kubernetes-group-version-kind" in source and "metadata" in source.get("properties", {}):
        closed["x-kubernetes-group-version-kind"] = source["x-kubernetes-group-version-kind"]


def tighten(name: str, closed: Schema) -> Schema:
    """Add what the server checks of this component in Go, and take back what it does not insist on."""
    whole = dict(WHOLE.get(name, {}))
    required = [*closed.get("required", ()), *whole.pop("required", ())]
    required = sorted({field for field in required if f"{name}.{field}" not in LAX})
    closed = closed | whole
    properties = dict(closed.get("properties", {}))
    for field, fragment in FIELDS.get(name, {}).items():
        properties[field] = _merged(properties[field], fragment)
    for field in [*required, *(field for field in properties if f"{name}.{field}" in NOT_EMPTY)]:
        properties[field] = _given(properties[field]) if field in required else _not_empty(properties[field])
    if properties:
        closed["properties"] = properties
    closed.pop("required", None)
    if required:
        closed["required"] = required
    return closed


def _merged(schema: Schema, fragment: Schema) -> Schema:
    """Lay a fragment over a schema; `items` and `additionalProperties` are merged in turn."""
    merged = schema | fragment
    for key in ("items", "additionalProperties"):
        if isinstance(fragment.get(key), dict) and isinstance(schema.get(key), dict):
            merged[key] = _merged(schema[key], fragment[key])
    return merged


def _not_null(schema: Schema) -> Schema:
    kinds = schema.get("type")
    if kinds is None:
        return schema | {"type": "object"} if "$ref" in schema else schema
    left = [kind for kind in kinds if kind != "null"]
    strict = schema | {"type": left[0] if len(left) == 1 else left}
    if "enum" in schema:
        strict["enum"] = [value for value in schema["enum"] if value is not None]
    return strict


def _not_empty(schema: Schema) -> Schema:
    return schema | {"enum": [value for value in schema["enum"] if value != ""]} if "enum" in schema else schema


def _given(schema: Schema) -> Schema:
    """Close a required field: null and what is empty count as missing."""
    strict = _not_empty(_not_null(schema))
    if strict.get("type") == "string" and "enum" not in strict:
        strict.setdefault("minLength", 1)
    if strict.get("type") == "array":
        strict.setdefault("minItems", 1)
    return strict


def _kept(source: Schema, without: tuple[str, ...] = ()) -> Schema:
    return {key: source[key] for key in _KEPT if key in source and key not in without}


def _constrain(closed: Schema, source: Schema) -> None:
    """Add formats and ranges, and mark lists that may not repeat an item."""
    low, high = _RANGES.get(source.get("format", ""), (None, None))
    for key, bound, pick in (("minimum", low, max), ("maximum", high, min)):
        limits = [limit for limit in (source.get(key), bound) if limit is not None]
        if limits:
            closed[key] = pick(limits)
    for key, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if source.get(key) is True:  # the boolean form of OpenAPI 3.0
            closed[key] = closed.pop(plain)
    name = source.get("format")
    if name == "byte":
        closed.setdefault("pattern", BASE64_PATTERN)
    if name is not None:
        closed["format"] = name
    if source.get("x-kubernetes-list-type") == "set":
        closed["uniqueItems"] = True


# --- custom kinds -----------------------------------------------------------------------------------------------


def close_custom(source: Schema, *, group: str, version: str, kind: str, object_meta: Schema) -> Schema:
    """Close one version's `openAPIV3Schema`. `object_meta` is the closed ObjectMeta with its own `$defs`."""
    root = _custom(source)
    properties = root.setdefault("properties", {})
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    rules = properties.get("metadata", {}).get("properties", {})
    properties["metadata"] = {"$ref": "#/$defs/ObjectMeta"}
    if rules:  # a definition may only narrow name and generateName
        properties["metadata"] |= {"properties": rules}
    root["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
    shared = share(root)
    shared["$defs"] = dict(sorted((shared.get("$defs", {}) | object_meta["$defs"]).items()))
    return shared


def object_meta_of(schema: Schema) -> Schema:
    """Cut the definition of ObjectMeta out of the closed schema of any built-in kind."""
    kept, waiting = {}, ["ObjectMeta"]
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = schema["$defs"][name]
            waiting += [reference.rpartition("/")[2] for reference in _references(kept[name])]
    return {"$ref": "#/$defs/ObjectMeta", "$defs": kept}


def _references(schema: Schema) -> list[str]:
    found = [schema["$ref"]] if "$ref" in schema else []
    for _, _, child in children(schema):
        found += _references(child)
    return found


def _custom(source: Schema) -> Schema:
    closed = _kept(source)
    _check_keys(closed.get("x-kubernetes-list-map-keys", []))
    kind = source.get("type")
    nullable = source.get("nullable") is True or "default" in source
    if source.get("x-kubernetes-int-or-string"):
        closed["type"] = ["string", "integer"]
        closed["format"] = "quantity" if "numkMGTPE" in source.get("pattern", "") else "int-or-string"
    elif kind is not None:
        closed["type"] = kind
    if nullable and "type" in closed:
        closed["type"] = [*([closed["type"]] if isinstance(closed["type"], str) else closed["type"]), "null"]
        if "enum" in closed and None not in closed["enum"]:
            closed["enum"] = [*closed["enum"], None]
    _constrain(closed, source)
    if "items" in source:
        closed["items"] = _custom(source["items"])
    if kind == "object":
        _custom_object(closed, source)
    for junctor in ("allOf", "anyOf", "oneOf"):
        if junctor in source and not source.get("x-kubernetes-int-or-string"):
            closed[junctor] = [_bare(branch) for branch in source[junctor]]
    if "not" in source:
        closed["not"] = _bare(source["not"])
    return closed


def _check_keys(keys: Any) -> None:
    if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
        raise TypeError("x-kubernetes-list-map-keys is a list of names")


def _custom_object(closed: Schema, source: Schema) -> None:
    properties = source.get("properties", {})
    if isinstance(source.get("additionalProperties"), dict):
        closed["additionalProperties"] = _custom(source["additionalProperties"])
    elif not source.get("x-kubernetes-preserve-unknown-fields") and source.get("additionalProperties") is not True:
        closed["additionalProperties"] = False
    if properties:
        closed["properties"] = {name: _custom(child) for name, child in sorted(properties.items())}
    if source.get("x-kubernetes-embedded-resource"):
        fixed = {"apiVersion": {"type": "string", "minLength": 1}, "kind": {"type": "string"} | MIXED_LABEL}
        closed["properties"] = closed.get("properties", {}) | fixed | {"metadata": {"$ref": "#/$defs/ObjectMeta"}}
        closed["required"] = ["apiVersion", "kind"]
    # A default is filled in before anything is required.
    required = {name for name in source.get("required", ()) if "default" not in properties.get(name, {})}
    if required:
        closed["required"] = sorted(required | set(closed.get("required", ())))


def _bare(source: Schema) -> Schema:
    """Close a branch of a junctor: it constrains values and declares no fields, so nothing in it is closed."""
    closed = _kept(source) | {key: source[key] for key in ("required", "type", "format") if key in source}
    _constrain(closed, source)
    for junctor in ("allOf", "anyOf", "oneOf"):
        if junctor in source:
            closed[junctor] = [_bare(branch) for branch in source[junctor]]
    for single in ("not", "items"):
        if isinstance(source.get(single), dict):
            closed[single] = _bare(source[single])
    if "properties" in source:
        closed["properties"] = {name: _bare(child) for name, child in source["properties"].items()}
    return closed
