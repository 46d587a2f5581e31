"""One definition for what a schema writes many times: custom kinds hold whole pod templates, often several."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def share(root: Schema) -> Schema:
    """Move object schemas that occur more than once into `$defs`: a RayJob holds its pod template five times."""
    digests: dict[int, str] = {}
    _digest(root, digests)
    counts: Counter[str] = Counter()
    _count(root, digests, counts)
    definitions: dict[str, Schema] = {}
    shared = _replace(root, digests, counts, definitions, is_root=True)
    shared["$defs"] = dict(sorted(definitions.items()))
    return shared


def _digest(schema: Schema, digests: dict[int, str]) -> str:
    """Name a schema by its content, from the names of what is in it, so that depth costs nothing."""
    below = [(key, name, _digest(child, digests)) for key, name, child in children(schema)]
    inner = {key for key, _, _ in below}
    own = {key: value for key, value in schema.items() if key not in inner}
    text = json.dumps([own, sorted(below, key=str)], sort_keys=True)
    digests[id(schema)] = digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return digest


def children(schema: Schema) -> list[tuple[str, str | None, Schema]]:
    """List the schemas directly below: the keyword, the name for properties, the schema."""
    found: list[tuple[str, str | None, Schema]] = [
        ("properties", name, child) for name, child in schema.get("properties", {}).items()
    ]
    found += [
        (key, None, schema[key]) for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)
    ]
    return found


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
