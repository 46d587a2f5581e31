"""Which items of two lists belong together: by the list's keys, or else by position between equal ends."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from reconciler.core.objects import FieldPath

ListKeys = Callable[[FieldPath], tuple[str, ...] | None]
"""Keys of the list at a path: its map keys, `()` for a list that goes by position, None where nobody knows."""


def unknown_lists(_: FieldPath) -> tuple[str, ...] | None:
    """Know of no list by what it goes: the keys are then guessed from what the items hold."""
    return None


class Matched(NamedTuple):
    """Positions of one item on both sides (None: absent there) and how people call it."""

    before: int | None
    after: int | None
    label: str


class Pairs(NamedTuple):
    """Items that belong together, in the order after, removed ones last; `moved` are the names in both orders."""

    items: list[Matched]
    moved: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    keys: tuple[str, ...] = ()  # fields that the labels already tell


_BY_FIELD: dict[str, tuple[str, ...]] = {
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "workerGroupSpecs": ("groupName",),
    "hostAliases": ("ip",),
    "ownerReferences": ("uid",),
    "tolerations": ("key", "operator", "value", "effect"),
    "matchExpressions": ("key",),
    "components": (),
    "resourceGroups": (),
    "args": (),
    "command": (),
}
"""Keys by the list's name where no schema tells: k8s.io/api's patchMergeKey, Kueue's and KubeRay's list-map-keys."""

_GUESSES = (("name",), ("key",), ("port", "protocol"), ("mountPath",), ("groupName",), ("type",), ("id",))
_DEFAULTS = {"protocol": "TCP"}
_UNORDERED = frozenset(("accessModes", "finalizers", "verbs", "apiGroups", "resourceNames", "coveredResources"))
_PLAIN = (str, int, float, bool)


def matched(path: FieldPath, before: list[Any], after: list[Any], list_keys: ListKeys) -> Pairs | None:
    """Match the items of a keyed list; None where the list goes by position."""
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    if name in _UNORDERED and path and path[-1] == name:
        return _match(_as_set(before), _as_set(after), ())
    keys = list_keys(path)
    if keys is not None:
        candidates: Iterable[tuple[str, ...]] = (keys,) if keys else ()
    else:
        fixed = _BY_FIELD.get(name)
        candidates = () if fixed == () else (fixed, *_GUESSES) if fixed else _GUESSES
    for candidate in candidates:
        left, right = _identities(before, candidate), _identities(after, candidate)
        if left is not None and right is not None:
            return _match(left, right, candidate)
    return None


def _as_set(items: list[Any]) -> list[str] | None:
    names = [str(item) for item in items if type(item) is str]
    return names if len(set(names)) == len(items) else None


def _identities(items: list[Any], keys: tuple[str, ...]) -> list[str] | None:
    """Return the name of every item by `keys`, or None where one has no such key or two have the same."""
    names = []
    for item in items:
        if type(item) is not dict:
            return None
        parts = []
        for key in keys:
            value = item.get(key, _DEFAULTS.get(key))
            if value is None and len(keys) > 1:
                continue
            if type(value) not in _PLAIN:
                return None
            parts.append(f"{key}={_legible(value)}")
        if not parts:
            return None
        names.append(",".join(parts))
    return names if len(set(names)) == len(names) else None


def _legible(value: Any) -> str:
    text = "true" if value is True else "false" if value is False else str(value)
    if text.isprintable() and not any(sign in text for sign in '[]",= '):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _match(left: list[str] | None, right: list[str] | None, keys: tuple[str, ...]) -> Pairs | None:
    if left is None or right is None:
        return None
    old = {name: index for index, name in enumerate(left)}
    items = [Matched(old.get(name), index, name) for index, name in enumerate(right)]
    there = set(right)
    items += [Matched(index, None, name) for index, name in enumerate(left) if name not in there]
    both_before = tuple(name for name in left if name in there)
    both_after = tuple(name for name in right if name in old)
    return Pairs(items, (both_before, both_after) if keys and both_before != both_after else None, keys)


def by_position(before: Sequence[Any], after: Sequence[Any]) -> Pairs:
    """Match by position between the equal head and the equal tail, so that one inserted item is one change."""
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    stop = max(len(before), len(after)) - tail
    items = []
    for index in range(stop):
        if index < head:
            items.append(Matched(index, index, str(index)))
            continue
        left = index if index < len(before) - tail else None
        right = index if index < len(after) - tail else None
        items.append(Matched(left, right, str(index)))
    offset = len(after) - len(before)
    items += [Matched(index - offset, index, str(index)) for index in range(len(after) - tail, len(after))]
    return Pairs(items)
