"""Building blocks of `Kind.immutable`: fields that the API server accepts only on a new object."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]
Check = Callable[[Body, Body], Sequence[str]]
"""Returns the paths of the fields that differ and cannot be changed in place, as `spec.selector`."""


def value_of(body: Any, path: str) -> Any:
    """Return the value at a dotted path of mappings; None if there is none."""
    for part in path.split("."):
        body = body.get(part) if isinstance(body, Mapping) else None
    return body


def differing(before: Body, after: Body, *paths: str) -> list[str]:
    """Return the paths whose values differ."""
    return [path for path in paths if value_of(before, path) != value_of(after, path)]


def only(*paths: str, defaults: Mapping[str, Any] | None = None) -> Check:
    """Return a check for kinds of which only these fields are immutable; an absent or empty one has its default."""
    values = defaults or {}

    def check(before: Body, after: Body) -> list[str]:
        sides = ([_or_default(body, path, values) for path in paths] for body in (before, after))
        return [path for path, old, new in zip(paths, *sides, strict=True) if old != new]

    return check


def _or_default(body: Body, path: str, defaults: Mapping[str, Any]) -> Any:
    value = value_of(body, path)
    return defaults.get(path) if value is None or value == [] else value


def while_set(*paths: str) -> Check:
    """Return a check for fields that cannot change, but can be set and removed (`self == oldSelf` in a CRD)."""

    def check(before: Body, after: Body) -> list[str]:
        sides = (before, after)
        return [
            path for path in differing(before, after, *paths) if all(value_of(body, path) is not None for body in sides)
        ]

    return check


def all_but(section: str, *mutable: str) -> Check:
    """Return a check for kinds of which all fields of a section are immutable, except these."""

    def check(before: Body, after: Body) -> list[str]:
        left, right = value_of(before, section), value_of(after, section)
        left, right = left if isinstance(left, Mapping) else {}, right if isinstance(right, Mapping) else {}
        names = [name for name in sorted({*left, *right}) if name not in mutable]
        return [f"{section}.{name}" for name in names if left.get(name) != right.get(name)]

    return check


def every(*checks: Check) -> Check:
    """Return a check that finds what any of the checks finds."""

    def check(before: Body, after: Body) -> list[str]:
        return [path for each in checks for path in each(before, after)]

    return check


def omit(value: Any, names: Sequence[str]) -> Any:
    """Return a mapping without some of its keys; None if it is not a mapping."""
    return {key: inner for key, inner in value.items() if key not in names} if isinstance(value, Mapping) else None
