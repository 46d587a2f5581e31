"""Lists that go by a key: server-side apply refuses two items with the same one.

Source: KEP-555, sigs.k8s.io/structured-merge-diff/v6/typed (`x-kubernetes-list-type: map`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.core.objects import FieldPath
from reconciler.core.schemas.finding import Finding
from reconciler.core.schemas.shape import Schema, resolve

_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})


class Branch(Struct, frozen=True, kw_only=True):
    """The part of a schema that leads to keyed lists: nothing else of a document needs to be walked.

    `fields` leads on from a mapping, `items` from a list or from every value of a map.
    """

    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, "Branch"] = field(default_factory=dict)
    items: "Branch | None" = None


def branch(root: Schema) -> Branch:
    """Compile the schema's keyed lists; recursive definitions are left after their first turn."""
    return _branch(root, root, {}) or Branch()


def _branch(root: Schema, schema: Schema, seen: dict[str, Branch | None]) -> Branch | None:
    reference = schema.get("$ref")
    if reference is None:
        return _inside(root, schema, seen)
    if reference not in seen:
        seen[reference] = None  # what it holds of itself
        seen[reference] = _inside(root, resolve(root, schema), seen)
    return seen[reference]


def _inside(root: Schema, schema: Schema, seen: dict[str, Branch | None]) -> Branch | None:
    fields = {}
    for name, child in schema.get("properties", {}).items():
        if len(child) > 1 or "$ref" in child:  # a bare type leads nowhere
            found = _branch(root, child, seen)
            if found is not None:
                fields[name] = found
    inner = schema.get("items", schema.get("additionalProperties"))
    items = _branch(root, inner, seen) if isinstance(inner, dict) else None
    keys = _keys(root, schema)
    if not (keys or fields or items):
        return None
    return Branch(keys=keys, defaults=_defaults(root, schema, keys), fields=fields, items=items)


def _keys(root: Schema, schema: Schema) -> tuple[str, ...]:
    """Read the fields that a list goes by; none where one of them may hold more than a scalar."""
    if schema.get("x-kubernetes-list-type") != "map" or "items" not in schema:
        return ()
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    properties = resolve(root, schema["items"]).get("properties", {})
    kinds = [properties.get(key, {}).get("type", "any") for key in keys]
    scalar = all({kind} <= _SCALARS if isinstance(kind, str) else {*kind} <= _SCALARS for kind in kinds)
    return keys if scalar else ()


def _defaults(root: Schema, schema: Schema, keys: tuple[str, ...]) -> dict[str, Any]:
    if not keys:
        return {}
    properties = resolve(root, schema["items"]).get("properties", {})
    return {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}


def repeats(node: Any, leads: Branch) -> bool:
    """Whether `duplicates` has anything to say: asked of every document, and nearly always false."""
    if isinstance(node, list):
        if leads.keys and len(node) > 1 and _any_twice(node, leads):
            return True
        items = leads.items
        if items is not None:
            for value in node:
                if repeats(value, items):
                    return True
        return False
    if isinstance(node, dict):
        fields, items = leads.fields, leads.items
        for name, value in node.items():
            child = fields.get(name, items)
            if child is not None and value and repeats(value, child):
                return True
    return False


def duplicates(node: Any, leads: Branch, path: FieldPath = ()) -> Iterator[Finding]:
    """Yield one finding for each item whose key an earlier item has."""
    if isinstance(node, list):
        if leads.keys and len(node) > 1:
            yield from _repeated(node, leads, path)
        if leads.items is not None:
            for index, value in enumerate(node):
                yield from duplicates(value, leads.items, (*path, index))
    elif isinstance(node, dict):
        for name, value in node.items():
            child = leads.fields.get(name, leads.items)
            if child is not None and value:
                yield from duplicates(value, child, (*path, name))


def _any_twice(items: list[Any], leads: Branch) -> bool:
    if len(leads.keys) == 1:
        key = leads.keys[0]
        default = leads.defaults.get(key)
        return len({item.get(key, default) for item in items}) < len(items)
    return len({tuple(item.get(key, leads.defaults.get(key)) for key in leads.keys) for item in items}) < len(items)


def _repeated(items: list[Any], leads: Branch, path: FieldPath) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        values = [item.get(key, leads.defaults.get(key)) for key in leads.keys]
        before = first.setdefault(repr(values), index)
        if before != index:
            written = ", ".join(f"{key}={value}" for key, value in zip(leads.keys, values, strict=True))
            yield Finding(
                rule="schema.duplicate-item",
                path=(*path, index),
                message=f"the same {written} as item {before}, and the list goes by {' and '.join(leads.keys)}",
                hint="rename or remove one of the two",
            )
