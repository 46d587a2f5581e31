"""The additions of Kubernetes to CEL: `quantity()`, `semver()`, and the permissions of a user.

Quantities have exact arithmetic; whether one is an integer depends on how it is written, as on a server. Versions are
ordered as in semver.org 2.0.0, without build metadata. What a user may do is unknown offline, so it is only declared.
"""

from collections.abc import Callable
from fractions import Fraction

from msgspec import Struct

from reconciler.kube.cel.library.signature import Signature, function, member
from reconciler.kube.cel.values import INT64, UINT64, CelError, Opaque
from reconciler.kube.patterns import later
from reconciler.kube.quantities import parse_quantity

_WRITTEN = later(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?([KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)")
_WITHOUT_DIGITS = later(r"[+-]?\.?(?:[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)")
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_DIGITS, _MAX_BINARY_DIGITS, _NANO = 18, 14, -9
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PART = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = later(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MAX_LENGTH = 1024


class _Amount(Struct, frozen=True, eq=False):
    """A value, and the power of ten in which a server counts it; None if it keeps an arbitrary decimal."""

    value: Fraction
    scale: int | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Amount) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def _parse(text: str) -> Opaque:
    value = Fraction(0) if _is_empty(text) else parse_quantity(text)
    if value is None:
        raise CelError(f"{text[:80]!r} is not a quantity such as 1Gi, 500m or 8")
    return Opaque("quantity", _Amount(value, _scale(text)))


def _is_empty(text: str) -> bool:
    """Return whether a quantity has no digits, which a server takes for 0."""
    return bool(text) and _WITHOUT_DIGITS.fullmatch(text) is not None


def _is_quantity(text: str) -> bool:
    return _is_empty(text) or parse_quantity(text) is not None


def _scale(text: str) -> int | None:
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    digits, fraction, suffix = match[1] or "0", match[2] or "", match[3]
    if suffix in _BINARY:
        room = _MAX_BINARY_DIGITS - len(digits) - int(_BINARY[suffix] * 0.3)
        return 0 if room >= 0 and not fraction else None
    power = int(suffix[1:]) if suffix[:1] in ("e", "E") and len(suffix) > 1 else _POWERS[suffix]
    scale = power - len(fraction)
    return scale if len(digits) + len(fraction) <= _MAX_DIGITS and scale >= _NANO else None


def _sum(one: Opaque, other: Opaque, sign: int) -> Opaque:
    first, second = one.value, other.value
    total = first.value + sign * second.value
    scale: int | None = None
    if first.scale is not None and second.scale is not None:
        scale = second.scale if not first.value else first.scale if not second.value else min(first.scale, second.scale)
        scale = scale if int(total / Fraction(10) ** scale) in INT64 else None
    return Opaque("quantity", _Amount(total, scale))


def _whole(number: int) -> Opaque:
    return Opaque("quantity", _Amount(Fraction(number), 0))


def _is_integer(one: Opaque) -> bool:
    amount: _Amount = one.value
    return amount.scale is not None and amount.scale >= 0 and amount.value.numerator in INT64


def _as_integer(one: Opaque) -> int:
    if not _is_integer(one):
        raise CelError("cannot convert value to integer")
    return int(one.value.value)


def _compare(one: Opaque, other: Opaque) -> int:
    first, second = one.value.value, other.value.value
    return int(first > second) - int(first < second)


_ZERO = _whole(0)


def _normalize(text: str) -> str:
    """Drop a leading `v`, add missing minor and patch numbers, drop leading zeros."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in tuple("0123456789") else "0" + stripped
    short = len(parts) < 3  # noqa: PLR2004 - major.minor.patch
    if short and any(sign in parts[-1] for sign in "+-"):
        raise CelError("a short version cannot contain pre-release or build metadata")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _parse_version(text: str, normalize: bool = False) -> Opaque:  # noqa: FBT001, FBT002 - as CEL calls it
    match = _VERSION.fullmatch(_normalize(text) if normalize else text) if len(text) <= _MAX_LENGTH else None
    numbers = [] if match is None else [*match.groups()[:3], *(match[4] or "").split(".")]
    if match is None or any(part.isdigit() and int(part) not in UINT64 for part in numbers):
        raise CelError(f"{text[:80]!r} is not a semantic version such as 1.2.3")
    major, minor, patch, pre = match.groups()
    return Opaque("semver", f"{major}.{minor}.{patch}" + (f"-{pre}" if pre else ""))


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002 - as CEL calls it
    try:
        _parse_version(text, normalize)
    except CelError:
        return False
    return True


def _numbers(one: Opaque) -> tuple[int, int, int]:
    major, minor, patch = one.value.partition("-")[0].split(".")
    return int(major), int(minor), int(patch)


def _number(place: int) -> Callable[[Opaque], int]:
    """Return a function that reads a number of a version, the highest of whose 64 bits is the sign, as on a server."""
    return lambda one: (_numbers(one)[place] + 2**63) % 2**64 - 2**63


def _precedence(one: Opaque) -> tuple[object, ...]:
    pre = one.value.partition("-")[2]
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split(".")) if pre else ()
    return (*_numbers(one), not pre, parts)


def _compare_versions(left: Opaque, right: Opaque) -> int:
    """-1, 0 or 1 by precedence as in semver.org, section 11."""
    one, other = _precedence(left), _precedence(right)
    return (one > other) - (one < other)


SIGNATURES: tuple[Signature, ...] = (
    function("semver", "string", "semver", _parse_version),
    function("semver", "string bool", "semver", _parse_version),
    function("isSemver", "string", "bool", _is_semver),
    function("isSemver", "string bool", "bool", _is_semver),
    member("isGreaterThan", "semver semver", "bool", lambda one, other: _compare_versions(one, other) > 0),
    member("isLessThan", "semver semver", "bool", lambda one, other: _compare_versions(one, other) < 0),
    member("compareTo", "semver semver", "int", _compare_versions),
    *(member(name, "semver", "int", _number(place)) for place, name in enumerate(("major", "minor", "patch"))),
    function("quantity", "string", "quantity", _parse),
    function("isQuantity", "string", "bool", _is_quantity),
    function("sign", "quantity", "int", lambda one: _compare(one, _ZERO)),
    member("isGreaterThan", "quantity quantity", "bool", lambda one, other: _compare(one, other) > 0),
    member("isLessThan", "quantity quantity", "bool", lambda one, other: _compare(one, other) < 0),
    member("compareTo", "quantity quantity", "int", _compare),
    member("asApproximateFloat", "quantity", "double", lambda one: float(one.value.value)),
    member("asInteger", "quantity", "int", _as_integer),
    member("isInteger", "quantity", "bool", _is_integer),
    member("add", "quantity quantity", "quantity", lambda one, other: _sum(one, other, 1)),
    member("add", "quantity int", "quantity", lambda one, other: _sum(one, _whole(other), 1)),
    member("sub", "quantity quantity", "quantity", lambda one, other: _sum(one, other, -1)),
    member("sub", "quantity int", "quantity", lambda one, other: _sum(one, _whole(other), -1)),
    member("path", "authorizer string", "path-check"),
    member("group", "authorizer string", "group-check"),
    member("serviceAccount", "authorizer string string", "authorizer"),
    member("resource", "group-check string", "resource-check"),
    member("subresource", "resource-check string", "resource-check"),
    member("namespace", "resource-check string", "resource-check"),
    member("name", "resource-check string", "resource-check"),
    member("fieldSelector", "resource-check string", "resource-check"),
    member("labelSelector", "resource-check string", "resource-check"),
    member("check", "path-check string", "decision"),
    member("check", "resource-check string", "decision"),
    member("allowed", "decision", "bool"),
    member("reason", "decision", "string"),
    member("errored", "decision", "bool"),
    member("error", "decision", "string"),
)
