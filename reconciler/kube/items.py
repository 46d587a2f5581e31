"""The items of two lists, matched by the keys of the list, and the label of an item in printed paths."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from reconciler.kube.objects import FieldPath, escape_text

ListKeys = Callable[[FieldPath], tuple[str, ...] | None]
"""Returns the keys of the list at a path; `()` if its items match by position; None if no schema is known."""


class ItemPair(NamedTuple):
    """Positions of one list item on both sides (None: absent), and its label in paths."""

    before: int | None
    after: int | None
    label: str


class Pairing(NamedTuple):
    """Matched items in their order after the change, removed ones last. `moved` has the labels in both orders."""

    items: list[ItemPair]
    moved: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    keys: tuple[str, ...] = ()  # fields that the labels contain


_KEYS_BY_FIELD: dict[str, tuple[str, ...]] = {
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
"""Keys of lists without a schema: patchMergeKey of k8s.io/api, and list-map-keys of Kueue and KubeRay."""

_COMMON_KEYS = (("name",), ("key",), ("port", "protocol"), ("mountPath",), ("groupName",), ("type",), ("id",))
_DEFAULTS = {"protocol": "TCP"}
_UNORDERED = frozenset(("accessModes", "finalizers", "verbs", "apiGroups", "resourceNames", "coveredResources"))
_SCALARS = (str, int, float, bool)


def match_items(path: FieldPath, before: list[Any], after: list[Any], list_keys: ListKeys) -> Pairing | None:
    """Match the items of a keyed list. Return None if the items match by position."""
    for label in _labellers(path, list_keys):
        left, right = label.read(before), label.read(after)
        if left is not None and right is not None:
            return _match(left, right, label.keys)
    return None


def find_item(path: FieldPath, items: list[Any], label: str, list_keys: ListKeys) -> int | None:
    """Return the position of the item that a printed path names by `label`; None if there is none."""
    if label.isascii() and label.isdecimal():
        return int(label) if int(label) < len(items) else None
    for labeller in _labellers(path, list_keys):
        labels = labeller.read(items)
        if labels is not None and label in labels:
            return labels.index(label)
    return None


class _Labeller(NamedTuple):
    """One way to label the items of a list: by the values of `keys`; without keys the items are strings themselves."""

    keys: tuple[str, ...]

    def read(self, items: list[Any]) -> list[str] | None:
        return _labels(items, self.keys) if self.keys else _as_set(items)


def _labellers(path: FieldPath, list_keys: ListKeys) -> Iterable[_Labeller]:
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    if name in _UNORDERED and path and path[-1] == name:
        return (_Labeller(()),)
    keys = list_keys(path)
    if keys is not None:
        return (_Labeller(keys),) if keys else ()
    fixed = _KEYS_BY_FIELD.get(name)
    candidates = () if fixed == () else (fixed, *_COMMON_KEYS) if fixed else _COMMON_KEYS
    return map(_Labeller, candidates)


def _as_set(items: list[Any]) -> list[str] | None:
    names = [_format_key(item) for item in items if type(item) is str]
    names = [f'"{name}"' if name.isdecimal() else name for name in names]  # a bare number is a position
    return names if len(set(names)) == len(items) else None


def _labels(items: list[Any], keys: tuple[str, ...]) -> list[str] | None:
    """Label each item by `keys`. Return None if an item lacks the first one, or if two items have the same label."""
    names = []
    for item in items:
        if type(item) is not dict or type(item.get(keys[0])) not in _SCALARS:
            return None
        parts = []
        for key in keys:
            value = item.get(key, _DEFAULTS.get(key))
            if value is None and len(keys) > 1:
                continue
            if type(value) not in _SCALARS:
                return None
            parts.append(f"{key}={_format_key(value)}")
        names.append(",".join(parts))
    return names if len(set(names)) == len(names) else None


def _format_key(value: Any) -> str:
    text = "true" if value is True else "false" if value is False else str(value)
    if text and text.isprintable() and not any(character in text for character in '[]"\\,= '):
        return text
    return f'"{escape_text(text)}"'


def _match(left: list[str] | None, right: list[str] | None, keys: tuple[str, ...]) -> Pairing | None:
    if left is None or right is None:
        return None
    old = {name: index for index, name in enumerate(left)}
    items = [ItemPair(old.get(name), index, name) for index, name in enumerate(right)]
    remaining = set(right)
    items += [ItemPair(index, None, name) for index, name in enumerate(left) if name not in remaining]
    both_before = tuple(name for name in left if name in remaining)
    both_after = tuple(name for name in right if name in old)
    return Pairing(items, (both_before, both_after) if keys and both_before != both_after else None, keys)


def match_by_position(before: Sequence[Any], after: Sequence[Any]) -> Pairing:
    """Match by position between equal starts and ends, so that an inserted item is one change."""
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
            items.append(ItemPair(index, index, str(index)))
            continue
        left = index if index < len(before) - tail else None
        right = index if index < len(after) - tail else None
        items.append(ItemPair(left, right, str(index)))
    offset = len(after) - len(before)
    items += [ItemPair(index - offset, index, str(index)) for index in range(len(after) - tail, len(after))]
    return Pairing(items)
