"""Operators, `size`, `in` and `type`. The evaluator has `&&`, `||`, `?:`, `==`, `!=` and indexing built in."""

import math
from collections.abc import Callable
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any

from reconciler.kube.cel.library.signature import Signature, both, function
from reconciler.kube.cel.values import (
    MISSING,
    CelError,
    Duration,
    Timestamp,
    UnorderedList,
    checked_int,
    checked_uint,
    compare_numbers,
    equal,
    kind_of,
    lookup,
    type_value,
)

_EARLIEST, _LATEST = -62135596800 * 10**9, 253402300799 * 10**9 + 999_999_999  # the years 1 to 9999


def moment(nanoseconds: int) -> Timestamp:
    """Return a point in time. Raises CelError if it is before the year 1 or after 9999."""
    if not _EARLIEST <= nanoseconds <= _LATEST:
        raise CelError("timestamp overflow")
    return Timestamp(nanoseconds)


def length(nanoseconds: int) -> Duration:
    """Return a duration. Raises CelError if it has more than 64 bits."""
    checked_int(nanoseconds)
    return Duration(nanoseconds)


def _quotient(one: int, other: int) -> int:
    """Divide towards zero."""
    if other == 0:
        raise CelError("division by zero")
    return checked_int(abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1))


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise CelError("modulus by zero")
    return one - other * _quotient(one, other)


def _divided(one: float, other: float) -> float:
    if other == 0:
        sign = math.copysign(1, one) * math.copysign(1, other)
        return math.nan if one == 0 or math.isnan(one) else sign * math.inf
    return one / other


def _unsigned(divide: Callable[[int, int], int], message: str) -> Callable[[int, int], int]:
    def run(one: int, other: int) -> int:
        if other == 0:
            raise CelError(message)
        return checked_uint(divide(one, other))

    return run


def _arithmetic(sign: str, run: Callable[[Any, Any], Any]) -> tuple[Signature, ...]:
    name = f"_{sign}_"
    return (
        function(name, "int int", "int", lambda one, other: checked_int(run(one, other))),
        function(name, "uint uint", "uint", lambda one, other: checked_uint(run(int(one), int(other)))),
        function(name, "double double", "double", run),
    )


_INLINE = dict.fromkeys(("int", "string"), "{{0}} {} {{1}}")


def _comparison(sign: str, run: Callable[[Any, Any], bool]) -> tuple[Signature, ...]:
    name = f"_{sign}_"
    numbers = ("int", "uint", "double")

    def mixed(one: Any, other: Any) -> bool:
        order = compare_numbers(one, other)
        if order is None:
            raise CelError("NaN values cannot be ordered")
        return run(order, 0)

    same = ("bool", "int", "uint", "string", "bytes", "timestamp", "duration")
    return (
        *(function(name, f"{kind} {kind}", "bool", run, _INLINE.get(kind, "").format(sign)) for kind in same),
        *(
            function(name, f"{one} {other}", "bool", mixed)
            for one in numbers
            for other in numbers
            if one != other or one == "double"
        ),
    )


_WITHOUT_HASH = ("bytes", "semver", "format")


def _contains(item: Any, items: Any) -> bool:
    return any(equal(item, one) for one in items)


def within_literal(item: Any, items: Any) -> bool:
    """Return `item in items`, of a literal, in which a server looks items up by their hash. Raises CelError."""
    if kind_of(item) in _WITHOUT_HASH:
        raise CelError(f"hash of unhashable type {kind_of(item)}")
    return _has_key(item, items) if isinstance(items, dict) else _contains(item, items)


def _has_key(key: Any, items: Any) -> bool:
    return lookup(items, key) is not MISSING


def _joined(one: list[Any], other: list[Any]) -> list[Any]:
    return one.joined(other) if isinstance(one, UnorderedList) else [*one, *other]


def _nanoseconds(build: Callable[[int], Any], run: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    return lambda one, other: build(run(one.nanoseconds, other.nanoseconds))


SIGNATURES: tuple[Signature, ...] = (
    function("_?_:_", "bool A A", "A"),
    function("_&&_", "bool bool", "bool"),
    function("_||_", "bool bool", "bool"),
    function("!_", "bool", "bool", lambda one: not one, "not {0}"),
    function("_==_", "A A", "bool"),
    function("_!=_", "A A", "bool"),
    function("_[_]", "list<A> int", "A"),
    function("_[_]", "map<A,B> A", "B"),
    *_comparison("<", lt),
    *_comparison("<=", le),
    *_comparison(">", gt),
    *_comparison(">=", ge),
    *_arithmetic("+", add),
    *_arithmetic("-", sub),
    *_arithmetic("*", mul),
    function("_+_", "string string", "string", add, "{0} + {1}"),
    function("_+_", "bytes bytes", "bytes", add),
    function("_+_", "list<A> list<A>", "list<A>", _joined, "{0} + {1}"),
    function("_+_", "duration duration", "duration", _nanoseconds(length, add)),
    function("_+_", "duration timestamp", "timestamp", _nanoseconds(moment, add)),
    function("_+_", "timestamp duration", "timestamp", _nanoseconds(moment, add)),
    function("_-_", "duration duration", "duration", _nanoseconds(length, sub)),
    function("_-_", "timestamp duration", "timestamp", _nanoseconds(moment, sub)),
    function("_-_", "timestamp timestamp", "duration", _nanoseconds(length, sub)),
    function("_/_", "int int", "int", _quotient),
    function("_/_", "uint uint", "uint", _unsigned(lambda one, other: one // other, "division by zero")),
    function("_/_", "double double", "double", _divided),
    function("_%_", "int int", "int", _remainder),
    function("_%_", "uint uint", "uint", _unsigned(lambda one, other: one % other, "modulus by zero")),
    function("-_", "int", "int", lambda one: checked_int(-one)),
    function("-_", "double", "double", lambda one: -one),
    function("@in", "A list<A>", "bool", _contains, "{0} in {1}"),
    function("@in", "A map<A,B>", "bool", _has_key, "{0} in {1}"),
    *both("size", "string", "int", len, "len({0})"),
    *both("size", "bytes", "int", len),
    *both("size", "list<A>", "int", len, "len({0})"),
    *both("size", "map<A,B>", "int", len, "len({0})"),
    function("type", "A", "type<A>", type_value),
    function("dyn", "A", "dyn", lambda one: one),
)
