"""Lookups in a strict JSON Schema: the schema of the value at a path, where a field is known, lists with keys."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct, field

from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Violation

Schema = dict[str, Any]
_Found = TypeVar("_Found")
RULES = "x-kubernetes-validations"
"""The keyword of rules in CEL."""
_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})


def resolve(root: Schema, schema: Schema) -> Schema:
    """Follow `$ref` into the `$defs` of `root`; what is written beside the reference wins."""
    while "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key not in ("$ref", "$defs")}
        target = root["$defs"][schema["$ref"].rpartition("/")[2]]
        if "properties" in rest:
            known = target.get("properties", {})
            narrowed = {name: known.get(name, {}) | child for name, child in rest["properties"].items()}
            rest["properties"] = known | narrowed
        schema = {**target, **rest}
    return schema


def read_shared(
    root: Schema, schema: Schema, known: dict[str, _Found | None], read: Callable[[Schema], _Found | None]
) -> _Found | None:
    """Read a schema, and a definition that it refers to once; a definition within itself leads to None."""
    reference = schema.get("$ref")
    if reference is None:
        return read(schema)
    if reference not in known:
        known[reference] = None  # ends the recursion
        known[reference] = read(resolve(root, schema))
    return known[reference]


def at(root: Schema, path: FieldPath) -> Schema | None:
    """Return the schema of the value at `path`, or None if the schema does not describe it."""
    schema: Any = resolve(root, root)
    for part in path:
        if isinstance(part, int):
            schema = schema.get("items")
        else:
            schema = schema.get("properties", {}).get(part, schema.get("additionalProperties"))
        if not isinstance(schema, dict):
            return None
        schema = resolve(root, schema)
    return dict(schema)


def children(schema: Schema) -> list[tuple[str, str | None, Schema]]:
    """Return the schemas directly below: the keyword, the property's name, the schema."""
    schemas: list[tuple[str, str | None, Schema]] = [
        ("properties", name, child) for name, child in (schema.get("properties") or {}).items() if child is not None
    ]
    schemas += [
        (key, None, schema[key]) for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)
    ]
    return schemas


def has_rules(schema: Schema) -> bool:
    """Return whether the schema of a custom kind has rules in CEL; that of a built-in kind has none."""
    return "properties" in schema and any(
        any(map(_states_rules, (one, *_below(one)))) for one in (schema, *schema.get("$defs", {}).values())
    )


def _states_rules(schema: Schema) -> bool:
    return bool(schema.get(RULES))


def _below(schema: Schema) -> Iterator[Schema]:
    for _, _, child in children(schema):
        yield child
        yield from _below(child)


def is_string_only(schema: Schema) -> bool:
    """Return whether a string is the only scalar that the schema allows, besides null."""
    types = schema.get("type", ())
    return (types == "string") if isinstance(types, str) else set(types) in ({"string"}, {"string", "null"})


def paths_of(root: Schema, name: str, depth: int = 7) -> Iterator[FieldPath]:
    """Yield the paths at which a field called `name` is known, nearest to the root first."""
    level: list[tuple[FieldPath, Schema]] = [((), resolve(root, root))]
    seen: set[int] = set()
    for _ in range(depth):
        below: list[tuple[FieldPath, Schema]] = []
        for path, schema in level:
            for property_name, child in schema.get("properties", {}).items():
                if property_name == name:
                    yield (*path, property_name)
                inner, inner_path = resolve(root, child), (*path, property_name)
                if isinstance(inner.get("items"), dict):
                    inner, inner_path = resolve(root, inner["items"]), (*inner_path, 0)
                if "properties" in inner and id(inner["properties"]) not in seen:
                    seen.add(id(inner["properties"]))
                    below.append((inner_path, inner))
        level = below


# --- lists with keys --------------------------------------------------------------------------------------------
# Server-side apply refuses two items with the same key. Source: KEP-555 and
# sigs.k8s.io/structured-merge-diff/v6/typed (`x-kubernetes-list-type: map`).


class KeyedLists(Struct, frozen=True, kw_only=True):
    """The part of a schema that leads to lists with keys: the rest of an object need not be walked.

    `keys` and their `defaults` are those of the list at this point. `fields` continues below a mapping, `items` below
    a list or below every value of a map.
    """

    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, "KeyedLists"] = field(default_factory=dict)
    items: "KeyedLists | None" = None


def keyed_lists(root: Schema) -> KeyedLists:
    """Compile the lists with keys of a schema; recursive definitions are followed once."""
    return _compile(root, root, {}) or KeyedLists()


def _compile(root: Schema, schema: Schema, seen: dict[str, KeyedLists | None]) -> KeyedLists | None:
    def read(schema: Schema) -> KeyedLists | None:
        fields = {}
        for name, child in schema.get("properties", {}).items():
            if len(child) > 1 or "$ref" in child:  # a bare type leads nowhere
                lists = _compile(root, child, seen)
                if lists is not None:
                    fields[name] = lists
        inner = schema.get("items", schema.get("additionalProperties"))
        items = _compile(root, inner, seen) if isinstance(inner, dict) else None
        keys, defaults = _keys(root, schema)
        leads_on = bool(keys or fields or items)
        return KeyedLists(keys=keys, defaults=defaults, fields=fields, items=items) if leads_on else None

    return read_shared(root, schema, seen, read)


def _keys(root: Schema, schema: Schema) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the keys of a list and their defaults; none if a key may hold more than a scalar."""
    if schema.get("x-kubernetes-list-type") != "map" or "items" not in schema:
        return (), {}
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    properties = resolve(root, schema["items"]).get("properties", {})
    for key in keys:
        types = properties.get(key, {}).get("type", "any")
        if not ({types} if isinstance(types, str) else {*types}) <= _SCALARS:
            return (), {}
    return keys, {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}


def has_duplicates(node: Any, lists: KeyedLists) -> bool:
    """Return whether any list repeats a key. Runs on every document and is nearly always false."""
    if isinstance(node, list):
        if lists.keys and len(node) > 1 and _repeats_key(node, lists):
            return True
        items = lists.items
        if items is not None:
            for value in node:
                if has_duplicates(value, items):
                    return True
        return False
    if isinstance(node, dict):
        fields, items = lists.fields, lists.items
        for name, value in node.items():
            child = fields.get(name, items)
            if child is not None and value and has_duplicates(value, child):
                return True
    return False


def _repeats_key(items: list[Any], lists: KeyedLists) -> bool:
    if len(lists.keys) == 1:
        key = lists.keys[0]
        default = lists.defaults.get(key)
        return len({item.get(key, default) for item in items}) < len(items)
    return len({tuple(item.get(key, lists.defaults.get(key)) for key in lists.keys) for item in items}) < len(items)


def find_duplicates(node: Any, lists: KeyedLists, path: FieldPath = ()) -> Iterator[Violation]:
    """Yield one violation for each item whose key an earlier item has."""
    if isinstance(node, list):
        first: dict[str, int] = {}
        for index, item in enumerate(node):
            if lists.keys and len(node) > 1:
                values = [item.get(key, lists.defaults.get(key)) for key in lists.keys]
                earlier = first.setdefault(repr(values), index)
                if earlier != index:
                    key_text = ", ".join(f"{key}={value}" for key, value in zip(lists.keys, values, strict=True))
                    yield Violation(
                        rule="schema.duplicate-item",
                        path=(*path, index),
                        message=f"item {earlier} has the same key ({key_text})",
                        hint="rename or remove one of the two",
                    )
            if lists.items is not None:
                yield from find_duplicates(item, lists.items, (*path, index))
    elif isinstance(node, dict):
        for name, value in node.items():
            child = lists.fields.get(name, lists.items)
            if child is not None and value:
                yield from find_duplicates(value, child, (*path, name))
