"""Strict JSON Schemas of built-in kinds, from an API server's OpenAPI v3.

Components refer to each other by `$ref`, and any optional value may be null. What the server checks in Go comes from
`constraints`.
"""

from collections.abc import Mapping

from reconciler.kube.schemas.schema import Schema, children
from reconciler.kube.schemas.strict import RANGES, constrain, keep
from tools.schemas.constraints import FIELDS, NOT_EMPTY, OBJECTS, OPTIONAL

_QUANTITY_PATTERN = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?\s*$"
"""What `resource.ParseQuantity` accepts (k8s.io/apimachinery/pkg/api/resource); the server trims whitespace first."""

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SPECIAL: Mapping[str, Schema] = {
    _QUANTITY: {"type": ["string", "number", "null"], "format": "quantity", "pattern": _QUANTITY_PATTERN},
    _INT_OR_STRING: {
        "type": ["string", "integer", "null"],
        "format": "int-or-string",
        "minimum": RANGES["int32"][0],
        "maximum": RANGES["int32"][1],
    },
    **{_JSON_SCHEMA + name: {} for name in ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool")},
    _JSON_SCHEMA + "JSONSchemaPropsOrStringArray": {},
}


def strict_builtin(root: str, components: Mapping[str, Schema]) -> Schema:
    """Return the strict schema of the component `root`; references become `#/$defs/<short name>`."""
    names: dict[str, str] = {}
    pending, definitions = [root], {}
    while pending:
        component = pending.pop()
        if component not in definitions:
            definitions[component] = _add_constraints(
                component.split(".")[-1], _builtin(components[component], pending, names)
            )
    strict: Schema = {"$ref": f"#/$defs/{_short(root, names)}"}
    strict["$defs"] = {_short(name, names): schema for name, schema in sorted(definitions.items())}
    while sum(_relax(name, schema, strict["$defs"]) for name, schema in strict["$defs"].items()):
        pass  # an optional field may make the fields above it optional
    for schema in strict["$defs"].values():
        _refuse_null_items(schema, strict["$defs"])
    return strict


_DEMANDING = frozenset({"required", "anyOf", "oneOf", "if"})


def _relax(name: str, schema: Schema, definitions: Mapping[str, Schema]) -> bool:
    """Make required objects optional if they may be empty: in Go they exist anyway. Return whether anything changed."""
    explicit = OBJECTS.get(name, {}).get("required", ())
    optional = {
        field
        for field in schema.get("required", ())
        if field not in explicit and "$ref" in schema["properties"][field]
        if not _refuses_empty(schema["properties"][field], definitions)
    }
    for field in optional:
        schema["properties"][field].pop("type", None)
    left = [field for field in schema.pop("required", ()) if field not in optional]
    if left:
        schema["required"] = left
    return bool(optional)


def _refuses_empty(schema: Schema, definitions: Mapping[str, Schema]) -> bool:
    """Whether the definition that `schema` refers to does not allow an empty object."""
    target = definitions[schema["$ref"].rpartition("/")[2]]
    return not _DEMANDING.isdisjoint(target)


def _refuse_null_items(schema: Schema, definitions: Mapping[str, Schema]) -> None:
    """Refuse null as a list item that cannot be an empty object: the server reads null as an empty object."""
    for _, _, child in children(schema):
        _refuse_null_items(child, definitions)
    items = schema.get("items")
    if isinstance(items, dict) and "$ref" in items and "type" not in items and _refuses_empty(items, definitions):
        items["type"] = "object"


def _short(component: str, names: dict[str, str]) -> str:
    """Return the last part of a component's name, with its group if another component has the same last part."""
    parts = component.split(".")
    short = parts[-1]
    if names.setdefault(short, component) != component:
        short = ".".join(parts[-3:])
        names.setdefault(short, component)
    return short


def _builtin(source: Schema, pending: list[str], names: dict[str, str]) -> Schema:
    reference = source.get("$ref") or (source["allOf"][0].get("$ref") if len(source.get("allOf", ())) == 1 else None)
    if reference is not None:
        component = reference.rpartition("/")[2]
        special = _SPECIAL.get(component)
        strict: Schema = dict(special) if special is not None else {"$ref": f"#/$defs/{_short(component, names)}"}
        if special is None:
            pending.append(component)
        return strict | keep(source, without=("default",))
    strict = keep(source)
    kind = source.get("type")
    if kind is not None:
        strict["type"] = [kind, "null"]
    if "enum" in strict:
        strict["enum"] = [*strict["enum"], *(value for value in ("", None) if value not in strict["enum"])]
    constrain(strict, source)
    if "items" in source:
        strict["items"] = _builtin(source["items"], pending, names)
        if source.get("x-kubernetes-list-type") in ("map", "set"):
            strict["items"] = _not_null(strict["items"])  # null has no key
    if kind == "object":
        _builtin_object(strict, source, pending, names)
    return strict


def _builtin_object(strict: Schema, source: Schema, pending: list[str], names: dict[str, str]) -> None:
    if "properties" in source:
        strict["properties"] = {
            name: _builtin(child, pending, names) for name, child in sorted(source["properties"].items())
        }
        strict["additionalProperties"] = False
        if source.get("required"):
            strict["required"] = sorted(source["required"])
    elif isinstance(source.get("additionalProperties"), dict):
        strict["additionalProperties"] = _builtin(source["additionalProperties"], pending, names)
    if "x-kubernetes-group-version-kind" in source and "metadata" in source.get("properties", {}):
        strict["x-kubernetes-group-version-kind"] = source["x-kubernetes-group-version-kind"]


def _add_constraints(name: str, strict: Schema) -> Schema:
    """Add what the server checks of a component in Go, and remove what it does not require."""
    fragment = dict(OBJECTS.get(name, {}))
    required = [*strict.get("required", ()), *fragment.pop("required", ())]
    required = sorted({field for field in required if f"{name}.{field}" not in OPTIONAL})
    strict = strict | fragment
    properties = dict(strict.get("properties", {}))
    for field, constraint in FIELDS.get(name, {}).items():
        properties[field] = _merge(properties[field], constraint)
    for field in [*required, *(field for field in properties if f"{name}.{field}" in NOT_EMPTY)]:
        properties[field] = _required(properties[field]) if field in required else _not_empty(properties[field])
    if properties:
        strict["properties"] = properties
    strict.pop("required", None)
    if required:
        strict["required"] = required
    return strict


def _merge(schema: Schema, fragment: Schema) -> Schema:
    """Merge a fragment into a schema; `items` and `additionalProperties` are merged recursively."""
    merged = schema | fragment
    for key in ("items", "additionalProperties"):
        if isinstance(fragment.get(key), dict) and isinstance(schema.get(key), dict):
            merged[key] = _merge(schema[key], fragment[key])
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


def _required(schema: Schema) -> Schema:
    """Make a field required: null and empty values count as missing."""
    strict = _not_empty(_not_null(schema))
    if strict.get("type") == "string" and "enum" not in strict:
        strict.setdefault("minLength", 1)
    if strict.get("type") == "array":
        strict.setdefault("minItems", 1)
    return strict
