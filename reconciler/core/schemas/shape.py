"""Questions to a closed schema: what stands at a path, which keys a list goes by, where a field belongs."""

from collections.abc import Iterator
from typing import Any

from reconciler.core.objects import FieldPath

Schema = dict[str, Any]


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


def at(root: Schema, path: FieldPath) -> Schema | None:
    """Return the schema of the value at `path`, None where the schema says nothing about it."""
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


def wants_string_only(schema: Schema) -> bool:
    """Whether a string is wanted and no other scalar would do."""
    kinds = schema.get("type", ())
    return (kinds == "string") if isinstance(kinds, str) else set(kinds) in ({"string"}, {"string", "null"})


def places_of(root: Schema, name: str, depth: int = 7) -> Iterator[FieldPath]:
    """Paths at which a field called `name` is known, nearest to the root first."""
    level: list[tuple[FieldPath, Schema]] = [((), resolve(root, root))]
    seen: set[int] = set()
    for _ in range(depth):
        below: list[tuple[FieldPath, Schema]] = []
        for path, schema in level:
            for field, child in schema.get("properties", {}).items():
                if field == name:
                    yield (*path, field)
                below += _unseen(root, child, (*path, field), seen)
        level = below


def _unseen(root: Schema, child: Schema, path: FieldPath, seen: set[int]) -> list[tuple[FieldPath, Schema]]:
    inner = resolve(root, child)
    if isinstance(inner.get("items"), dict):
        inner, path = resolve(root, inner["items"]), (*path, 0)
    identity = id(inner.get("properties"))
    if "properties" not in inner or identity in seen:
        return []
    seen.add(identity)
    return [(path, inner)]
