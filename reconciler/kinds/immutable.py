"""Building blocks of `Life.immutable`: fields that the API server accepts only on a new object."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.kinds.facts import Body

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


def only(*paths: str) -> Check:
    """Return a check for kinds of which only these fields are immutable."""

    def check(before: Body, after: Body) -> list[str]:
        return [path for path in paths if not same(value_of(before, path), value_of(after, path))]

    return check


def once(*paths: str) -> Check:
    """Return a check for fields that can be set later, and neither change nor go then."""
    changed = only(*paths)

    def check(before: Body, after: Body) -> list[str]:
        return [path for path in changed(before, after) if value_of(before, path) is not None]

    return check


def same(before: Any, after: Any) -> bool:
    """Return whether a server finds two values equal. To write an empty list, or to leave it out, is the same."""
    return bool(_written(before) == _written(after))


def _written(value: Any) -> Any:
    """Return a value without nulls and empty lists; None if it is an empty list itself."""
    if isinstance(value, Mapping):
        return {key: _written(inner) for key, inner in value.items() if inner is not None and inner != []}
    return ([_written(item) for item in value] or None) if isinstance(value, list) else value


def all_but(section: str, *mutable: str) -> Check:
    """Return a check for kinds of which all fields of a section are immutable, except these."""

    def check(before: Body, after: Body) -> list[str]:
        left, right = value_of(before, section), value_of(after, section)
        left, right = left if isinstance(left, Mapping) else {}, right if isinstance(right, Mapping) else {}
        names = [name for name in sorted({*left, *right}) if name not in mutable]
        return [f"{section}.{name}" for name in names if not same(left.get(name), right.get(name))]

    return check


def every(*checks: Check) -> Check:
    """Return a check that finds what any of the checks finds."""

    def check(before: Body, after: Body) -> list[str]:
        return [path for each in checks for path in each(before, after)]

    return check


def omit(value: Any, names: Sequence[str]) -> Any:
    """Return a mapping without some of its keys; None if it is not a mapping."""
    return {key: inner for key, inner in value.items() if key not in names} if isinstance(value, Mapping) else None
