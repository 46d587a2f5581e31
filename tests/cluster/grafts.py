"""Good objects with fields that few objects set: values from other objects, or random ones of the right type."""

import copy
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.kube.objects import FieldPath, format_path
from tests.cluster.corpus import Case
from tests.cluster.mutations import Mutation
from tests.cluster.published import Body, Root, Schema
from tests.cluster.server import ApiServer

_UNTOUCHED = ("apiVersion", "kind", "metadata", "status")
_SHARE_OF_KINDS, _SHARE_OF_OTHERS, _SHARE_OF_DROPS = 0.6, 0.45, 0.1
_MAX_SHOWN = 80
_FIELDS = (1, 1, 2, 3)
_NUMBERS = (0, 1, -1, 2, 65535, 65536, 30000, 2**31 - 1, 600, 86400)
_TEXTS = (
    *("x", "", "a.b", "A", "x/y", "1", "10Mi", "100m", "0", "-1", "1e3", "5%", "101%", "50%", "UTC", "Always"),
    *("Never", "http", "10.0.0.1", "::1", "fd00::/8", "10.0.0.0/8", "10.0.0.1/8", "*", "*.a.b", "example.com/x"),
    *("a=b", "/a", "a/../b", "x" * 64, "x" * 254, "$(A)", "true", "* * * * *", "@daily", "TCP", "SCTP"),
)


def grafts(good: Sequence[Case], server: ApiServer, count: int, seed: int) -> list[Mutation]:
    """Return `count` objects with one to three fields changed, the same ones for each seed."""
    return [*_Grafts(good, server, random.Random(seed)).make(count)]  # noqa: S311 - the same ones each time


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A field that an object has or could have."""

    path: FieldPath
    schema: Schema
    is_set: bool


class _Grafts:
    def __init__(self, good: Sequence[Case], server: ApiServer, chance: random.Random) -> None:
        self._bodies: dict[tuple[str, str], list[Body]] = defaultdict(list)
        self._values: dict[str, list[Any]] = defaultdict(list)
        for case in good:
            self._bodies[case.body["apiVersion"], case.body["kind"]].append(case.body)
            for field in case.body.keys() - {*_UNTOUCHED}:
                self._collect(field, case.body[field])
        for values in self._values.values():
            values.sort(key=repr)
        self._roots = {kind: Root(server, bodies[0]) for kind, bodies in self._bodies.items()}
        self._every = [body for bodies in self._bodies.values() for body in bodies]
        self._chance = chance

    def make(self, count: int) -> Iterator[Mutation]:
        for _ in range(count):
            body = self._chance.choice(self._every)
            if self._chance.random() < _SHARE_OF_KINDS:
                body = self._chance.choice(self._bodies[self._chance.choice([*self._bodies])])
            changed = copy.deepcopy(body)
            root = self._roots[body["apiVersion"], body["kind"]]
            changes = [self._change(changed, root) for _ in range(self._chance.choice(_FIELDS))]
            yield Mutation(name=f"{body['kind']}: {'; '.join(filter(None, changes))}", body=changed)

    def _collect(self, field: str, value: Any) -> None:
        self._values[field].append(value)
        nodes = [value]
        while nodes:
            node = nodes.pop()
            nodes += node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
            for name, inner in node.items() if isinstance(node, Mapping) else ():
                self._values[name].append(inner)

    def _change(self, body: Body, root: Root) -> str:
        places = [*_places(body, root.schema, root, ())]
        if not places:
            return ""
        place = self._chance.choice(places)
        parent: Any = body
        field = str(place.path[-1])
        for part in place.path[:-1]:
            parent = parent[part]
        others, roll = self._values.get(field), self._chance.random()
        if others and roll < _SHARE_OF_OTHERS:
            parent[field] = copy.deepcopy(self._chance.choice(others))
        elif place.is_set and roll < _SHARE_OF_OTHERS + _SHARE_OF_DROPS:
            del parent[field]
            return f"drop {format_path(place.path)}"
        else:
            parent[field] = self._value(place.schema, root)
        return f"set {format_path(place.path)} to {str(parent[field])[:_MAX_SHOWN]}"

    def _value(self, schema: Schema, root: Root) -> Any:
        choices: tuple[Any, ...] = (*_TEXTS, *_NUMBERS)
        match schema.get("type"):
            case "boolean":
                choices = (True, False)
            case "integer" | "number":
                choices = _NUMBERS
            case "string":
                choices = _TEXTS
            case "array":
                of_texts = root.resolved(schema.get("items", {})).get("type") == "string"
                choices = ([self._chance.choice(_TEXTS)] if of_texts else [],)
            case "object":
                entry = {self._chance.choice(_TEXTS): self._chance.choice(_TEXTS)}
                choices = (entry if schema.get("additionalProperties") else {},)
        return self._chance.choice(schema.get("enum") or choices)


def _places(node: Any, schema: Schema, root: Root, path: FieldPath) -> Iterator[_Place]:
    """Yield the fields that the schema knows in the maps that the object has."""
    schema = root.resolved(schema)
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _places(item, schema.get("items", {}), root, (*path, index))
    elif isinstance(node, dict):
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping):
            for name in node:
                yield from _places(node[name], others, root, (*path, name))
        for name, field in schema.get("properties", {}).items():
            if path or name not in _UNTOUCHED:
                yield _Place(path=(*path, name), schema=root.resolved(field), is_set=name in node)
                if name in node:
                    yield from _places(node[name], field, root, (*path, name))
