"""`quantity()` and its members. Arithmetic is exact."""

from fractions import Fraction

from reconciler.core.policy.cel.library import semver
from reconciler.core.policy.cel.library.signature import Signature, function, member, seal, unseal
from reconciler.core.quantities import parse_quantity

INT64 = range(-(2**63), 2**63)


def _parse(text: str) -> Fraction:
    value = parse_quantity(text)
    if value is None:
        raise ValueError(f"{text[:80]!r} is not a quantity such as 1Gi, 500m or 8")
    return value


def _make(value: Fraction) -> bytes:
    return seal("quantity", f"{value.numerator}/{value.denominator}")


def _value(sealed: bytes) -> Fraction:
    return Fraction(unseal("quantity", sealed))


def _is_integer(sealed: bytes) -> bool:
    value = _value(sealed)
    return value.denominator == 1 and value.numerator in INT64


def _as_integer(sealed: bytes) -> int:
    if not _is_integer(sealed):
        raise ValueError("cannot convert value to integer")
    return int(_value(sealed))


def _sign(sealed: bytes) -> int:
    value = _value(sealed)
    return (value > 0) - (value < 0)


def compare(left: bytes, right: bytes) -> int:
    """-1, 0 or 1; of two quantities or of two semantic versions, which share these members' names."""
    if bytes(left).startswith(b"semver:"):
        return semver.compare(left, right)
    one, other = _value(left), _value(right)
    return (one > other) - (one < other)


SIGNATURES: tuple[Signature, ...] = (
    function("quantity", "string", "quantity", lambda text: _make(_parse(text))),
    function("isQuantity", "string", "bool", lambda text: parse_quantity(text) is not None),
    function("sign", "quantity", "int", _sign),
    member("isGreaterThan", "quantity quantity", "bool", lambda one, other: compare(one, other) > 0),
    member("isLessThan", "quantity quantity", "bool", lambda one, other: compare(one, other) < 0),
    member("compareTo", "quantity quantity", "int", compare),
    member("asApproximateFloat", "quantity", "double", lambda one: float(_value(one))),
    member("asInteger", "quantity", "int", _as_integer),
    member("isInteger", "quantity", "bool", _is_integer),
    member("add", "quantity quantity", "quantity", lambda one, other: _make(_value(one) + _value(other))),
    member("add", "quantity int", "quantity", lambda one, other: _make(_value(one) + other)),
    member("sub", "quantity quantity", "quantity", lambda one, other: _make(_value(one) - _value(other))),
    member("sub", "quantity int", "quantity", lambda one, other: _make(_value(one) - other)),
)
