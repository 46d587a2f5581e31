"""Strict JSON Schemas from the structural schemas of CustomResourceDefinitions.

The result is JSON Schema 2020-12 in which an object without `additionalProperties` allows no other fields, as an API
server does with `fieldValidation=Strict`. `tools/schemas/` makes those of built-in kinds with the same functions.
Sources: KEP-1693 (structural schemas), k8s.io/apiextensions-apiserver/pkg/apiserver/schema, KEP-2885 (strict).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping

from reconciler.kube.patterns import MIXED_LABEL_PATTERN
from reconciler.kube.schemas.schema import Schema, children

_BASE64_PATTERN = r"^([A-Za-z0-9+/\r\n]{4})*([A-Za-z0-9+/\r\n]*={0,2}[\r\n]*)$"
_DURATION_PATTERN = (
    r"^[+-]?(0|([0-9]*(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+)$"
    r"|(?i:[0-9]\s*((ns|us|µs|ms|s|m|h|hr|d|w|week)([^a-zµ]|$)|nano|micro|milli|sec|min|hour|day|wk))"
)
"""Durations of Go, and others such as `3 days` (k8s.io/kube-openapi/pkg/validation/strfmt)."""
_UNKNOWN_FORMATS = frozenset(
    ("time", "regex", "idn-hostname", "idn-email", "iri", "iri-reference", "uri-reference", "uri-template",
     "json-pointer", "relative-json-pointer")
)  # fmt: skip
"""Formats of JSON Schema that an API server does not know, and so does not check."""
RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
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
_KIND = {"type": "string", "pattern": MIXED_LABEL_PATTERN, "maxLength": 63}


def keep(source: Schema, without: tuple[str, ...] = ()) -> Schema:
    """Return the keywords of a schema that mean the same in the strict schema. Raises TypeError for bad list keys."""
    keys = source.get("x-kubernetes-list-map-keys") or []
    if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
        raise TypeError("x-kubernetes-list-map-keys is not a list of names")
    kept = (key for key in _KEPT if source.get(key) is not None and key not in without)
    return {key: source[key] for key in kept if key != "enum" or source[key]}  # an empty choice allows everything


def constrain(strict: Schema, source: Schema) -> None:
    """Add formats and ranges, and forbid duplicates in sets."""
    low, high = RANGES.get(source.get("format") or "", (None, None))
    for key, bound, pick in (("minimum", low, max), ("maximum", high, min)):
        limits = [limit for limit in (source.get(key), bound) if limit is not None]
        if limits:
            strict[key] = pick(limits)
    for key, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if source.get(key) is True and plain in strict:  # the boolean form of OpenAPI 3.0; ignored without a limit
            strict[key] = strict.pop(plain)
    name = source.get("format")
    if name == "byte":
        strict.setdefault("pattern", _BASE64_PATTERN)
    if name == "duration":  # not that of JSON Schema
        strict.setdefault("pattern", _DURATION_PATTERN)
        strict["format"] = "go-duration"
    elif name is not None and name not in _UNKNOWN_FORMATS:
        strict["format"] = name
    if source.get("x-kubernetes-list-type") == "set":
        strict["uniqueItems"] = True


def strict_custom(source: Schema, *, group: str, version: str, kind: str, meta: Schema) -> Schema:
    """Return the strict schema of one version's `openAPIV3Schema`. `meta` is what `object_meta` returns."""
    root = custom(source)
    properties = root.setdefault("properties", {})
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    rules = properties.get("metadata", {}).get("properties", {})
    properties["metadata"] = {"$ref": "#/$defs/ObjectMeta"}
    if rules:  # a definition may only constrain name and generateName
        properties["metadata"] |= {"properties": rules}
    root["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
    shared = share(root)
    shared["$defs"] = dict(sorted((shared.get("$defs", {}) | meta["$defs"]).items()))
    return shared


def object_meta(schema: Schema) -> Schema:
    """Return the definition of ObjectMeta from the strict schema of any built-in kind."""
    definitions, pending = {}, ["ObjectMeta"]
    while pending:
        name = pending.pop()
        if name not in definitions:
            definitions[name] = schema["$defs"][name]
            pending += [reference.rpartition("/")[2] for reference in _references(definitions[name])]
    return {"$ref": "#/$defs/ObjectMeta", "$defs": definitions}


def _references(schema: Schema) -> list[str]:
    references = [schema["$ref"]] if "$ref" in schema else []
    for _, _, child in children(schema):
        references += _references(child)
    return references


def custom(source: Schema) -> Schema:
    """Return the strict schema of a field, without definitions that it may refer to."""
    strict = keep(source)
    kind = source.get("type")
    nullable = source.get("nullable") is True or "default" in source
    if source.get("x-kubernetes-int-or-string"):
        strict["type"] = ["string", "integer"]
        strict["format"] = "quantity" if "numkMGTPE" in (source.get("pattern") or "") else "int-or-string"
    elif kind is not None:
        strict["type"] = kind
    if nullable and "type" in strict:
        strict["type"] = [*([strict["type"]] if isinstance(strict["type"], str) else strict["type"]), "null"]
        if "enum" in strict and None not in strict["enum"]:
            strict["enum"] = [*strict["enum"], None]
    constrain(strict, source)
    if isinstance(source.get("items"), dict):
        strict["items"] = custom(source["items"])
    if kind == "object":
        _custom_object(strict, source)
    for combinator in ("allOf", "anyOf", "oneOf"):
        if source.get(combinator) and not source.get("x-kubernetes-int-or-string"):
            strict[combinator] = [_branch(branch or {}) for branch in source[combinator]]
    if source.get("not") is not None:
        strict["not"] = _branch(source["not"])
    return strict


def _custom_object(strict: Schema, source: Schema) -> None:
    properties = source.get("properties") or {}
    if isinstance(source.get("additionalProperties"), dict):
        strict["additionalProperties"] = custom(source["additionalProperties"])
    elif not source.get("x-kubernetes-preserve-unknown-fields") and source.get("additionalProperties") is not True:
        strict["additionalProperties"] = False
    if properties:
        strict["properties"] = {name: custom(child or {}) for name, child in sorted(properties.items())}
    if source.get("x-kubernetes-embedded-resource"):
        fixed = {"apiVersion": {"type": "string", "minLength": 1}, "kind": _KIND}
        strict["properties"] = strict.get("properties", {}) | fixed | {"metadata": {"$ref": "#/$defs/ObjectMeta"}}
        strict["required"] = ["apiVersion", "kind"]
    # The server fills in defaults before it validates.
    required = {name for name in source.get("required") or () if "default" not in (properties.get(name) or {})}
    if required:
        strict["required"] = sorted(required | set(strict.get("required", ())))


def _branch(source: Schema) -> Schema:
    """Convert a branch of `allOf`, `anyOf`, `oneOf` or `not`: it constrains values and declares no fields."""
    strict = keep(source) | {key: source[key] for key in ("required", "type", "format") if source.get(key) is not None}
    constrain(strict, source)
    for combinator in ("allOf", "anyOf", "oneOf"):
        if source.get(combinator):
            strict[combinator] = [_branch(branch or {}) for branch in source[combinator]]
    for single in ("not", "items"):
        if isinstance(source.get(single), dict):
            strict[single] = _branch(source[single])
    if source.get("properties"):
        strict["properties"] = {name: _branch(child or {}) for name, child in source["properties"].items()}
    return strict


# --- shared definitions -----------------------------------------------------------------------------------------------


def share(root: Schema) -> Schema:
    """Move object schemas that occur more than once into `$defs`: a RayJob has five copies of the pod template."""
    digests: dict[int, str] = {}
    _digest(root, digests)
    counts: Counter[str] = Counter()
    _count(root, digests, counts)
    definitions: dict[str, Schema] = {}
    shared = _replace(root, digests, counts, definitions, is_root=True)
    shared["$defs"] = dict(sorted(definitions.items()))
    return shared


def _digest(schema: Schema, digests: dict[int, str]) -> str:
    """Return a digest of a schema, made from the digests of the schemas in it."""
    below = [(key, name, _digest(child, digests)) for key, name, child in children(schema)]
    inner = {key for key, _, _ in below}
    own = {key: value for key, value in schema.items() if key not in inner}
    text = json.dumps([own, sorted(below, key=str)], sort_keys=True)
    digests[id(schema)] = digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return digest


def _count(schema: Schema, digests: Mapping[int, str], counts: Counter[str]) -> None:
    digest = digests[id(schema)]
    counts[digest] += 1
    if counts[digest] == 1:
        for _, _, child in children(schema):
            _count(child, digests, counts)


def _replace(
    schema: Schema,
    digests: Mapping[int, str],
    counts: Counter[str],
    definitions: dict[str, Schema],
    *,
    is_root: bool = False,
) -> Schema:
    digest = digests[id(schema)]
    shared = not is_root and counts[digest] > 1 and "properties" in schema
    if shared and digest in definitions:
        return {"$ref": f"#/$defs/{digest}"}
    copy = dict(schema)
    if "properties" in copy:
        copy["properties"] = dict(copy["properties"])
    for key, name, child in children(schema):
        replaced = _replace(child, digests, counts, definitions)
        if name is None:
            copy[key] = replaced
        else:
            copy[key][name] = replaced
    if not shared:
        return copy
    definitions[digest] = copy
    return {"$ref": f"#/$defs/{digest}"}
