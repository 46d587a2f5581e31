"""Values that Python has no type for, equality, and order. Ints, doubles, strings, lists and maps are Python's own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.kube.cel.types import OPTIONAL

INT64, UINT64 = range(-(2**63), 2**63), range(2**64)


MISSING: Any = object()
"""Stands for a value that there is not, such as that of a key which a map does not have."""


class CelError(Exception):
    """An expression has no value. `unanswerable` names the value that is unknown offline, if that is why."""

    def __init__(self, message: str, *, unanswerable: str = "") -> None:
        super().__init__(message)
        self.unanswerable = unanswerable


def more_informative(one: CelError | None, other: CelError) -> CelError:
    """Return the error to report of two: what is unknown offline might decide otherwise on a server."""
    return other if one is None or (other.unanswerable and not one.unanswerable) else one


def no_overload(what: str = "") -> CelError:
    """Return the error of values that a function does not take."""
    return CelError(f"no such overload: {what}" if what else "no such overload")


class UInt(int):
    """An unsigned integer."""

    __slots__ = ()


class Duration(Struct, frozen=True, order=True):
    """A length of time."""

    nanoseconds: int


class Timestamp(Struct, frozen=True, order=True):
    """A point in time, since 1970."""

    nanoseconds: int


class TypeValue(Struct, frozen=True):
    """A type as a value, such as `int` in `type(1) == int`."""

    name: str


class Optional(Struct, frozen=True):
    """A value that may be absent."""

    value: Any = None
    present: bool = True


NONE = Optional(present=False)


def present(value: Any) -> bool:
    """Return whether an optional entry of a list or a map has a value. Raises CelError for one that is not optional."""
    if not isinstance(value, Optional):
        raise CelError("cannot initialize optional entry from non-optional value")
    return value.present


def unwrap(value: Any, function: str = "") -> Any:
    """Return the content of an optional value, or MISSING. Raises CelError for one that `function` does not take."""
    if type(value) is not Optional:
        raise no_overload(function)
    return value.value if value.present else MISSING


class Opaque(Struct, frozen=True):
    """A value of a type that only functions create and read; `kind` is the name of the type."""

    kind: str
    value: Any


class FieldMap(Mapping[str, Any]):
    """A map whose keys are the fields of a type: one that is null is not set."""


class UnorderedList(list[Any]):
    """A list whose items have keys: the order does not matter to equality, and a join has one item for each key."""

    def __init__(self, items: Iterable[Any], key_of: Callable[[Any], Any]) -> None:
        super().__init__(items)
        self.key_of = key_of

    def equals(self, other: Sequence[Any]) -> bool:
        """Return whether the other list has an equal item for each key."""
        known = {self.key_of(item): item for item in self}
        return len(self) == len(other) and all(
            (found := known.get(self.key_of(item), MISSING)) is not MISSING and equal(found, item) for item in other
        )

    def joined(self, other: Sequence[Any]) -> "UnorderedList":
        """Return both lists; the other's items replace those of the same key."""
        found = {self.key_of(item): item for item in (*self, *other)}
        return UnorderedList(found.values(), self.key_of)


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (UInt, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (tuple, "list"),
    (Mapping, "map"),
    (type(None), "null_type"),
    (Duration, "duration"),
    (Timestamp, "timestamp"),
    (TypeValue, "type"),
    (Optional, OPTIONAL),
    (Opaque, "opaque"),
)
_FULL_NAMES = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "ip": "net.IP",
    "cidr": "net.CIDR",
}


_known: dict[type, str] = {}


def kind_of(value: Any) -> str:
    """Return the name of the CEL type of a value."""
    kind = _known.get(type(value)) or _learn(type(value))
    return str(value.kind) if kind == "opaque" else kind


def _learn(python: type) -> str:
    kind = _known[python] = next((kind for one, kind in _KINDS if issubclass(python, one)), "unknown")
    return kind


def type_value(value: Any) -> TypeValue:
    """Return `type(value)`."""
    kind = kind_of(value)
    return TypeValue(_FULL_NAMES.get(kind, kind))


_KEYS = ("bool", "int", "uint", "double", "string")


def check_key(key: Any) -> None:
    """Raise CelError for a value that cannot be a key of a map."""
    if kind_of(key) not in _KEYS:
        raise CelError(f"unsupported key type: {kind_of(key)}")


_PLAIN = frozenset((str, bool, bytes))
_NUMBERS = frozenset(("int", "uint", "double"))


def equal(one: Any, other: Any) -> bool:  # noqa: PLR0911 - one for each kind of value
    """Return whether two values are equal; of different types, only numbers can be."""
    if type(one) is type(other) and type(one) in _PLAIN:
        return bool(one == other)
    first, second = kind_of(one), kind_of(other)
    if first in _NUMBERS and second in _NUMBERS:
        return compare_numbers(one, other) == 0
    if first != second:
        return False
    if first == "list":
        if isinstance(one, UnorderedList):
            return one.equals(other)
        return len(one) == len(other) and all(map(equal, one, other))
    if first == "map":
        return len(one) == len(other) and all(
            (found := lookup(other, key)) is not MISSING and equal(value, found) for key, value in one.items()
        )
    if first == OPTIONAL:
        return one.present == other.present and (not one.present or equal(one.value, other.value))
    return bool(one == other)


def lookup(values: Mapping[Any, Any], key: Any) -> Any:
    """Return the value at a key, which can be a number of another type; MISSING if there is none."""
    kind = kind_of(key)
    if kind == "string":
        return values.get(key, MISSING)
    if kind == "double":
        if key != key or key in (float("inf"), float("-inf")) or key != int(key):  # noqa: PLR0124 - not a number
            return MISSING
        key = int(key)
    if kind not in ("bool", "int", "uint", "double"):
        return MISSING
    return next((value for known, value in values.items() if _same_key(known, key)), MISSING)


def _same_key(known: Any, key: Any) -> bool:
    return isinstance(known, bool) == isinstance(key, bool) and not isinstance(known, str) and known == key


def compare_numbers(one: Any, other: Any) -> int | None:
    """Return -1, 0 or 1; None if one of them is not a number (NaN)."""
    if isinstance(one, float) != isinstance(other, float):
        one, other = float(one), float(other)
    if one != one or other != other:  # noqa: PLR0124 - not a number
        return None
    return int(one > other) - int(one < other)


def checked_int(value: int) -> int:
    """Return an int if it has 64 bits. Raises CelError."""
    if value not in INT64:
        raise CelError("integer overflow")
    return value


def checked_uint(value: int) -> UInt:
    """Return an unsigned int if it has 64 bits. Raises CelError."""
    if value not in UINT64:
        raise CelError("unsigned integer overflow")
    return UInt(value)
