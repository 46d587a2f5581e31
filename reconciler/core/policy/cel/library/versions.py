"""`quantity()` with exact arithmetic, and `semver()` ordered as in semver.org 2.0.0, without build metadata."""

from fractions import Fraction

from reconciler.core.patterns import later
from reconciler.core.policy.cel.library.signature import Signature, function, member, seal, unseal
from reconciler.core.quantities import parse_quantity

_NUMBER = r"(?:0|[1-9][0-9]*)"
_PART = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = later(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_LONGEST = 1024


def _normalise(text: str) -> str:
    """Drop a leading `v`, add missing minor and patch numbers, drop leading zeros."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in tuple("0123456789") else "0" + stripped
    short = len(parts) < 3  # noqa: PLR2004 - major.minor.patch
    if short and any(sign in parts[-1] for sign in "+-"):
        raise ValueError("a short version cannot contain pre-release or build metadata")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _parse_version(text: str, normalise: bool = False) -> bytes:  # noqa: FBT001, FBT002 - as CEL calls it
    match = _VERSION.fullmatch(_normalise(text) if normalise else text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:80]!r} is not a semantic version such as 1.2.3")
    major, minor, patch, pre = match.groups()
    return seal("semver", f"{major}.{minor}.{patch}" + (f"-{pre}" if pre else ""))


def _is_semver(text: str, normalise: bool = False) -> bool:  # noqa: FBT001, FBT002 - as CEL calls it
    try:
        _parse_version(text, normalise)
    except ValueError:
        return False
    return True


def _numbers(sealed: bytes) -> tuple[int, int, int]:
    major, minor, patch = unseal("semver", sealed).partition("-")[0].split(".")
    return int(major), int(minor), int(patch)


def _precedence(sealed: bytes) -> tuple[object, ...]:
    pre = unseal("semver", sealed).partition("-")[2]
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split(".")) if pre else ()
    return (*_numbers(sealed), not pre, parts)


def _compare_versions(left: bytes, right: bytes) -> int:
    """-1, 0 or 1 by precedence as in semver.org, section 11."""
    one, other = _precedence(left), _precedence(right)
    return (one > other) - (one < other)


_SEMVER: tuple[Signature, ...] = (
    function("semver", "string", "semver", _parse_version),
    function("semver", "string bool", "semver", _parse_version),
    function("isSemver", "string", "bool", _is_semver),
    function("isSemver", "string bool", "bool", _is_semver),
    member("isGreaterThan", "semver semver", "bool"),  # the implementations for quantities run these
    member("isLessThan", "semver semver", "bool"),
    member("compareTo", "semver semver", "int"),
    member("major", "semver", "int", lambda one: _numbers(one)[0]),
    member("minor", "semver", "int", lambda one: _numbers(one)[1]),
    member("patch", "semver", "int", lambda one: _numbers(one)[2]),
)


_INT64 = range(-(2**63), 2**63)


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
    return value.denominator == 1 and value.numerator in _INT64


def _as_integer(sealed: bytes) -> int:
    if not _is_integer(sealed):
        raise ValueError("cannot convert value to integer")
    return int(_value(sealed))


def _sign(sealed: bytes) -> int:
    value = _value(sealed)
    return (value > 0) - (value < 0)


def compare(left: bytes, right: bytes) -> int:
    """Return -1, 0 or 1 for two quantities, or for two semantic versions, which have the same members."""
    if bytes(left).startswith(b"semver:"):
        return _compare_versions(left, right)
    first, second = _value(left), _value(right)
    return (first > second) - (first < second)


SIGNATURES: tuple[Signature, ...] = (
    *_SEMVER,
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
