"""`semver()`, ordered as in semver.org 2.0.0, without build metadata."""

from collections.abc import Callable

from reconciler.core.cel.library.signature import Signature, function, member
from reconciler.core.cel.values import UINT64, CelError, Opaque
from reconciler.core.patterns import later

_NUMBER = r"(?:0|[1-9][0-9]*)"
_PART = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = later(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_LONGEST = 1024


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
    match = _VERSION.fullmatch(_normalize(text) if normalize else text) if len(text) <= _LONGEST else None
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
)
