"""Functions on lists and sets."""

from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from reconciler.kube.cel.library.signature import Signature, function, member
from reconciler.kube.cel.values import (
    CelError,
    Duration,
    Optional,
    UInt,
    checked_int,
    checked_uint,
    compare_numbers,
    equal,
    kind_of,
)

COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_NUMBERS = ("int", "uint", "double")
_MAX_RANGE = 1_000_000


def _no_overload(name: str) -> CelError:
    return CelError(f"no such overload: {name}")


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1. Raises CelError for values that have no order."""
    first, second = kind_of(one), kind_of(other)
    if first in _NUMBERS and second in _NUMBERS:
        order = compare_numbers(one, other)
        if order is None:
            raise CelError("NaN values cannot be ordered")
        return order
    if first != second or first not in COMPARABLE:
        raise _no_overload("compare")
    return int(one > other) - int(one < other)


def _add(one: Any, other: Any) -> Any:
    kind = kind_of(one)
    if kind != kind_of(other):
        raise _no_overload("_+_")
    if kind == "int":
        return checked_int(one + other)
    if kind == "uint":
        return checked_uint(int(one) + int(other))
    if kind == "duration":
        return Duration(checked_int(one.nanoseconds + other.nanoseconds))
    return one + other


def _summed(zero: Any) -> Callable[[list[Any]], Any]:
    def run(items: Iterable[Any]) -> Any:
        total = zero
        for item in items:
            total = _add(total, item)
        return total

    return run


def _order(one: Any, other: Any) -> int | None:
    """Return -1, 0 or 1; None for values that have no order with each other, which no function of Kubernetes minds."""
    try:
        return compare(one, other)
    except CelError:
        return None


def _with_order(items: list[Any], name: str) -> Iterator[Any]:
    """Yield items. Raises CelError at one of a type without an order, such as a list."""
    for item in items:
        if kind_of(item) not in COMPARABLE:
            raise _no_overload(name)
        yield item


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        best, *others = _with_order(items, name)
        for item in others:
            if _order(best, item) == sign:
                best = item
        return best

    return run


def _is_sorted(items: list[Any]) -> bool:
    return all(_order(one, other) != 1 for one, other in pairwise(_with_order(items, "isSorted")))


def _index(items: Iterable[tuple[int, Any]], wanted: Any) -> int:
    return next((index for index, item in items if equal(item, wanted)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0 or start > end or end > len(items):
        raise CelError(f"cannot slice({start}, {end}) of a list of length {len(items)}")
    return list(items[start:end])


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if kind_of(item) == "list" and depth > 0:
            flat.extend(_flatten(item, depth - 1))
        else:
            flat.append(item)
    return flat


def _range(count: int) -> list[int]:
    if count > _MAX_RANGE:
        raise CelError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if not any(equal(item, one) for one in found):
            found.append(item)
    return found


def sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    """Return items in the order of their keys, which are of one comparable type. Raises CelError."""
    if not items:
        return []
    kinds = {kind_of(key) for key in keys}
    if len(kinds) > 1 or not kinds <= set(COMPARABLE):
        raise CelError("list elements must have the same type, which must be comparable")
    pairs = sorted(zip(keys, items, strict=True), key=cmp_to_key(_by_key))
    return [item for _, item in pairs]


def _by_key(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
    return compare(one[0], other[0])


def _within(items: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(item, one) for one in items) for item in wanted)


def _end(position: int) -> Callable[[list[Any]], Optional]:
    return lambda items: Optional(items[position]) if items else Optional(present=False)


_ZEROS: dict[str, Any] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}

SIGNATURES: tuple[Signature, ...] = (
    *(member("isSorted", f"list<{kind}>", "bool", _is_sorted) for kind in COMPARABLE),
    *(member("sum", f"list<{kind}>", kind, _summed(zero)) for kind, zero in _ZEROS.items()),
    *(member("max", f"list<{kind}>", kind, _extreme("max", -1)) for kind in COMPARABLE),
    *(member("min", f"list<{kind}>", kind, _extreme("min", 1)) for kind in COMPARABLE),
    member("indexOf", "list<A> A", "int", lambda items, wanted: _index(enumerate(items), wanted)),
    member("lastIndexOf", "list<A> A", "int", lambda items, one: _index(reversed(list(enumerate(items))), one)),
    member("slice", "list<A> int int", "list<A>", _slice),
    member("flatten", "list<list<A>>", "list<A>", _flatten),
    member("flatten", "list<dyn> int", "list<dyn>", _flatten),
    *(member("sort", f"list<{kind}>", f"list<{kind}>", lambda items: sort_by(items, items)) for kind in COMPARABLE),
    *(member("@sortByAssociatedKeys", f"list<A> list<{kind}>", "list<A>", sort_by) for kind in COMPARABLE),
    function("lists.range", "int", "list<int>", _range),
    member("reverse", "list<A>", "list<A>", lambda items: list(reversed(items))),
    member("distinct", "list<A>", "list<A>", _distinct),
    member("first", "list<A>", "optional_type<A>", _end(0)),
    member("last", "list<A>", "optional_type<A>", _end(-1)),
    function("sets.contains", "list<A> list<A>", "bool", _within),
    function("sets.equivalent", "list<A> list<A>", "bool", lambda a, b: _within(a, b) and _within(b, a)),
    function("sets.intersects", "list<A> list<A>", "bool", lambda a, b: any(equal(x, y) for x in a for y in b)),
)
