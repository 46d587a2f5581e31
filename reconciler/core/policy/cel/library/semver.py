"""`semver()`: versions as semver.org 2.0.0 orders them; build metadata is read and not compared."""

from reconciler.core.patterns import later
from reconciler.core.policy.cel.library.signature import Signature, function, member, seal, unseal

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


def _parse(text: str, normalise: bool = False) -> bytes:  # noqa: FBT001, FBT002 - as CEL calls it
    match = _VERSION.fullmatch(_normalise(text) if normalise else text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:80]!r} is not a semantic version such as 1.2.3")
    major, minor, patch, pre = match.groups()
    return seal("semver", f"{major}.{minor}.{patch}" + (f"-{pre}" if pre else ""))


def _is_semver(text: str, normalise: bool = False) -> bool:  # noqa: FBT001, FBT002 - as CEL calls it
    try:
        _parse(text, normalise)
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


def compare(left: bytes, right: bytes) -> int:
    """-1, 0 or 1 by the precedence of semver.org, section 11."""
    one, other = _precedence(left), _precedence(right)
    return (one > other) - (one < other)


SIGNATURES: tuple[Signature, ...] = (
    function("semver", "string", "semver", _parse),
    function("semver", "string bool", "semver", _parse),
    function("isSemver", "string", "bool", _is_semver),
    function("isSemver", "string bool", "bool", _is_semver),
    member("isGreaterThan", "semver semver", "bool"),  # `quantity` runs these three for both
    member("isLessThan", "semver semver", "bool"),
    member("compareTo", "semver semver", "int"),
    member("major", "semver", "int", lambda one: _numbers(one)[0]),
    member("minor", "semver", "int", lambda one: _numbers(one)[1]),
    member("patch", "semver", "int", lambda one: _numbers(one)[2]),
)
