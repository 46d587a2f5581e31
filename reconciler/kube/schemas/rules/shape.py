"""`Shape`: how expressions see the values of a schema. Types, escaped names, defaults, lists without order.

Values are converted when an expression reads them, so that a rule costs what it looks at.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from reconciler.kube.cel import CelError, CelType, type_of
from reconciler.kube.cel.library.times import parse_duration, parse_timestamp
from reconciler.kube.cel.parser import RESERVED
from reconciler.kube.cel.types import list_of, map_of
from reconciler.kube.cel.values import MISSING, Duration, FieldMap, UnorderedList
from reconciler.kube.patterns import later
from reconciler.kube.schemas.schema import Schema, resolve

_STRING, _BOOL, _INT, _DOUBLE, _DYN = (type_of(name) for name in ("string", "bool", "int", "double", "dyn"))
_META = "/ObjectMeta"
_METADATA: Schema = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}
"""What rules can see of metadata."""
_RESERVED = RESERVED | {"true", "false", "null", "in"}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = later(r"__|[-./]")
_NAME = later(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


def escape(name: str) -> str | None:
    """Return the spelling of a property in expressions, or None if there is none."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


_Types = dict[str, Mapping[str, CelType]]


class Shape:
    """The values of one schema. `type` is None for what expressions cannot see."""

    def __init__(self, root: Schema, schema: Schema, name: str, known: "_Types | None" = None) -> None:
        self._root, self._name = root, name
        self.declared: _Types = {} if known is None else known
        """The fields of the types of objects, by the names of the types that were asked for."""
        self.schema = resolve(root, schema)
        self.has_default = "default" in self.schema
        types = self.schema.get("type") or ()
        self.types: set[str] = {types} if isinstance(types, str) else {*types} - {"null"}

    @cached_property
    def type(self) -> CelType | None:
        """The type that an API server declares."""
        if {"string", "integer"} <= self.types:
            return _DYN
        for name, declare in (("object", self._object_type), ("array", self._list_type)):
            if name in self.types:
                return declare()
        return next((kind for name, kind in self._scalars.items() if name in self.types), None)

    @property
    def _scalars(self) -> dict[str, CelType]:
        text = _FORMATS.get(self.schema.get("format", ""), (_STRING, None))[0]
        return {"string": text, "boolean": _BOOL, "integer": _INT, "number": _DOUBLE}

    def _object_type(self) -> CelType | None:
        if self.items is None:
            self.declared[self._name] = _FieldTypes(self)
            return CelType(self._name)
        return None if self.items.type is None else map_of(_STRING, self.items.type)

    def _list_type(self) -> CelType | None:
        return None if self.items is None or self.items.type is None else list_of(self.items.type)

    @cached_property
    def items(self) -> "Shape | None":
        """The items of a list, or the values of a map; None for an object with fields."""
        if "array" in self.types:
            below, name = self.schema.get("items"), "@idx"
        else:
            below, name = self.schema.get("additionalProperties"), "@elem"
        return Shape(self._root, below, f"{self._name}.{name}", self.declared) if isinstance(below, dict) else None

    @cached_property
    def properties(self) -> dict[str, "Shape"]:
        """The fields that expressions can see, by their names in the object."""
        known = self.schema.get("properties", {})
        is_resource = _META in str(known.get("metadata", {}).get("$ref", ""))
        schemas = {**known, "metadata": _METADATA} if is_resource else known
        shapes = {
            name: Shape(self._root, below, f"{self._name}.{name}", self.declared) for name, below in schemas.items()
        }
        return {name: shape for name, shape in shapes.items() if shape.type is not None}

    @cached_property
    def fields(self) -> dict[str, str]:
        """The names of the properties by how expressions spell them; a reserved word can also be spelled as it is."""
        reserved = {name: name for name in self.properties if name in _RESERVED}
        return reserved | {spelled: name for name in self.properties if (spelled := escape(name)) is not None}

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that tell the items of a list apart."""
        return tuple(self.schema.get("x-kubernetes-list-map-keys", ())) if self.list_type == "map" else ()

    @property
    def list_type(self) -> str:
        """The way in which items of a list are told apart: map, set, or atomic."""
        return str(self.schema.get("x-kubernetes-list-type", "atomic"))

    def value(self, raw: Any) -> Any:
        """Return a value as expressions see it. Raises CelError if it is not of this type."""
        if raw is None or self.type == _DYN:
            return raw
        if isinstance(raw, Mapping):
            if self.items is None:
                return ObjectValue(raw, self)
            return {key: self.items.value(one) for key, one in raw.items()}
        if isinstance(raw, list) and self.items is not None:
            found = [self.items.value(one) for one in raw]
            if self.list_type == "atomic":
                return found
            return UnorderedList(found, self.key_of if self.keys else repr_of)
        return self._scalar(raw)

    def _scalar(self, raw: Any) -> Any:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, int | float):
            try:
                return float(raw) if "number" in self.types else int(raw)
            except (OverflowError, ValueError):
                raise CelError(f"{raw} is not a number of this type") from None
        _, read = _FORMATS.get(self.schema.get("format", ""), (_STRING, None))
        return read(raw) if read is not None and isinstance(raw, str) else raw

    def key_of(self, item: Any) -> Any:
        """Return what tells an item of this list from others."""
        fields = item.data if isinstance(item, ObjectValue) else {}
        return tuple(repr(fields.get(key, self._key_defaults.get(key))) for key in self.keys)

    @cached_property
    def _key_defaults(self) -> Mapping[str, Any]:
        known = self.items.properties if self.items is not None else {}
        return {key: known[key].schema.get("default") for key in self.keys if key in known}


class _FieldTypes(Mapping[str, CelType]):
    """The types of the fields of an object, by how expressions spell them."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def __getitem__(self, spelled: str) -> CelType:
        found = self._shape.properties[self._shape.fields[spelled]].type
        if found is None:
            raise KeyError(spelled)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape.fields)

    def __len__(self) -> int:
        return len(self._shape.fields)


class ObjectValue(FieldMap):
    """An object as expressions see it: the fields of its schema, with defaults, under the names that can be spelled."""

    __slots__ = ("data", "shape")

    def __init__(self, data: Mapping[str, Any], shape: Shape) -> None:
        self.data, self.shape = data, shape

    def property(self, name: str) -> Any:
        """Return the value of a property by its name in the object; MISSING if there is none."""
        shape = self.shape.properties.get(name)
        if shape is None:
            return MISSING
        raw = self.data.get(name, MISSING)
        if shape.has_default and (raw is MISSING or raw is None):
            raw = shape.schema["default"]
        return MISSING if raw is MISSING else shape.value(raw)

    def __getitem__(self, spelled: str) -> Any:
        found = self.property(self.shape.fields[spelled])
        if found is MISSING:
            raise KeyError(spelled)
        return found

    def __iter__(self) -> Iterator[str]:
        for name, shape in self.shape.properties.items():
            spelled = escape(name)
            if spelled is not None and (name in self.data or shape.has_default):
                yield spelled

    def __len__(self) -> int:
        return sum(1 for _ in self)


def repr_of(item: Any) -> str:
    """Return what tells an item of a set from others."""
    return repr(item)


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text)
    except ValueError:
        raise CelError("illegal base64 data") from None


_SECONDS = 10**9  # in nanoseconds, in which Go counts durations
_UNITS = (
    (1, ("ns", "nano")), (10**3, ("us", "µs", "micro")), (10**6, ("ms", "milli")), (_SECONDS, ("s", "sec")),
    (60 * _SECONDS, ("m", "min")), (3600 * _SECONDS, ("h", "hr", "hour")), (86_400 * _SECONDS, ("d", "day")),
    (604_800 * _SECONDS, ("w", "week", "wk")),
)  # fmt: skip
"""Units of durations, and their names; the last one of each may be the start of a longer word."""
_TERM = later(r"(\d+)\s*([A-Za-zµ]+)")


def _duration(text: str) -> Duration:
    """Read `90s` as Go does, or `3 days 2 hours` as k8s.io/kube-openapi/pkg/validation/strfmt does."""
    with suppress(CelError):
        return parse_duration(text)
    lengths = [
        int(factor) * size
        for factor, unit in _TERM.findall(text)
        for size, names in _UNITS
        if unit.lower() in names or unit.lower().startswith(names[-1])
    ]
    if not lengths:
        raise CelError(f"{text!r} is not a duration")
    return Duration(sum(lengths))


_FORMATS: dict[str, tuple[CelType, Callable[[str], Any] | None]] = {
    "byte": (type_of("bytes"), _bytes),
    "go-duration": (type_of("duration"), _duration),
    "date": (type_of("timestamp"), lambda text: parse_timestamp(f"{text}T00:00:00Z")),
    "date-time": (type_of("timestamp"), parse_timestamp),
}
"""Formats of texts that are types of their own."""
