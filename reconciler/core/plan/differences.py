"""Two bodies of an object in, the fields that differ out.

Own recursion rather than a library: it knows the lists that go by a key, quantities that are equal though written
differently (`1Gi`, `1024Mi`), and it hides secrets before they become part of a plan.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from reconciler.core.objects import FieldPath
from reconciler.core.plan.listing import ListKeys, Matched, by_position, matched, unknown_lists
from reconciler.core.plan.masking import CHANGED, MASK, follows_secret_flag, is_secret_field, redact
from reconciler.core.plan.plan import FieldChange
from reconciler.core.quantities import parse_quantity
from reconciler.core.reasons import Why

__all__ = ["ListKeys", "Reasoner", "differences", "same", "unknown_lists"]

Reasoner = Callable[[FieldPath], Why]
"""Why the value at a path of the body after is what it is."""


Quantities = Callable[[FieldPath], bool]
"""Whether the schema says that the value at a path is a quantity."""


def no_quantity(_: FieldPath) -> bool:
    """Know of no quantity but those that are told by the name of their field (`limits`, `sizeLimit` ...)."""
    return False


def differences(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    list_keys: ListKeys = unknown_lists,
    is_quantity: Quantities = no_quantity,
    why: Reasoner | None = None,
) -> tuple[FieldChange, ...]:
    """Return the fields that differ, in the order of the body after; None on a side: the object is not there.

    Items of keyed lists are matched by their keys; a new order alone is shown once, as `… (order)`. An object that is
    created or deleted gives all its leaves. Secret values are masked.
    """
    kind = (after or before or {}).get("kind")
    walk = _Walk(kind if isinstance(kind, str) else "", list_keys, is_quantity, why)
    if before is not None and after is not None:
        walk.compare(dict(before), dict(after), _ROOT)
    elif after is not None:
        walk.leaves(dict(after), _ROOT, added=True)
    elif before is not None:
        walk.leaves(dict(before), _ROOT, added=False)
    return tuple(walk.found)


def same(before: Any, after: Any, *, quantity: bool = False) -> bool:
    """Tell whether two leaves mean the same; a bool is no number, and `"1"` is 1 only as a quantity."""
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if before == after:
        return True
    if not quantity or not isinstance(before, str | int | float) or not isinstance(after, str | int | float):
        return False
    left = parse_quantity(before)
    return left is not None and left == parse_quantity(after)


class _At(NamedTuple):
    """Where the walk stands. `field` is the path in the body it walks, `near` the nearest path of the body after."""

    text: str
    field: FieldPath
    near: FieldPath
    secret: bool
    quantity: bool


_ROOT = _At("", (), (), secret=False, quantity=False)
_QUANTITY_MAPS = frozenset(("limits", "requests", "hard", "capacity", "minResources", "overhead", "defaultRequest"))
_QUANTITIES = frozenset(("sizeLimit", "nominalQuota", "borrowingLimit", "lendingLimit", "divisor"))
_UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/")


class _Walk:
    __slots__ = ("found", "is_quantity", "kind", "list_keys", "why")

    def __init__(self, kind: str, list_keys: ListKeys, is_quantity: Quantities, why: Reasoner | None) -> None:
        self.is_quantity = is_quantity
        self.kind = kind
        self.list_keys = list_keys
        self.why = why
        self.found: list[FieldChange] = []

    def compare(self, before: Any, after: Any, at: _At) -> None:
        """Compare two values that are both there."""
        shape = type(before)
        if shape is not type(after) and (shape in _CONTAINERS or type(after) in _CONTAINERS):
            self.leaves(before, at, added=False)
            self.leaves(after, at, added=True)
        elif shape is dict:
            self.mappings(before, after, at)
        elif shape is list:
            self.lists(before, after, at)
        elif not (same(before, after) or same(before, after, quantity=at.quantity or self.is_quantity(at.field))):
            self.change(at, before, after)

    def mappings(self, before: dict[str, Any], after: dict[str, Any], at: _At) -> None:
        """Compare name by name."""
        for name, value in after.items():
            if name in before and _identical(before[name], value):
                continue
            below = self.step(at, after, name, present=True)
            if name in before:
                # Either side may tell that the value is secret: an item's name can change together with its value.
                hidden = below.secret or self.step(at, before, name, present=True).secret
                self.compare(before[name], value, below._replace(secret=hidden))
            else:
                self.leaves(value, below, added=True)
        for name, value in before.items():
            if name not in after:
                self.leaves(value, self.step(at, before, name, present=False), added=False)

    def lists(self, before: list[Any], after: list[Any], at: _At) -> None:
        """Compare items that belong together: by their keys, or else by position."""
        pairs = matched(at.field, before, after, self.list_keys)
        if pairs is None:
            pairs = by_position(before, after)
        for pair in pairs.items:
            if pair.before is None:
                self.item_leaves(after[pair.after or 0], _item(at, pair, after, present=True), pairs.keys, added=True)
            elif pair.after is None:
                self.item_leaves(before[pair.before], _item(at, pair, before, present=False), pairs.keys, added=False)
            elif not _identical(before[pair.before], after[pair.after]):
                below = _item(at, pair, after, present=True)
                hidden = below.secret or _item(at, pair, before, present=False).secret
                self.compare(before[pair.before], after[pair.after], below._replace(secret=hidden))
        if pairs.moved:
            order = at._replace(text=f"{at.text} (order)")
            self.change(order, list(pairs.moved[0]), list(pairs.moved[1]))

    def leaves(self, value: Any, at: _At, *, added: bool) -> None:
        """List every leaf of a value that is on one side only."""
        if type(value) is dict and value:
            for name, inner in value.items():
                self.leaves(inner, self.step(at, value, name, present=added), added=added)
        elif type(value) is list and value:
            pairs = matched(at.field, [] if added else value, value if added else [], self.list_keys)
            if pairs is None:
                pairs = by_position([], value) if added else by_position(value, [])
            for pair in pairs.items:
                index = pair.after if added else pair.before
                self.item_leaves(value[index or 0], _item(at, pair, value, present=added), pairs.keys, added=added)
        elif added:
            self.found.append(
                FieldChange(path=at.text, after=_shown(value, at.secret), has_before=False, why=self.reason(at))
            )
        else:
            self.found.append(
                FieldChange(path=at.text, before=_shown(value, at.secret), has_after=False, why=self.reason(at))
            )

    def item_leaves(self, item: Any, at: _At, keys: tuple[str, ...], *, added: bool) -> None:
        """List the leaves of an item; its keys are told by the path already, unless it holds nothing else."""
        if keys and type(item) is dict and len(item) > sum(key in item for key in keys):
            for name, inner in item.items():
                if name not in keys:
                    self.leaves(inner, self.step(at, item, name, present=added), added=added)
        else:
            self.leaves(item, at, added=added)

    def change(self, at: _At, before: Any, after: Any) -> None:
        """Record one field whose value differs; where masking hides the difference, it says that there is one."""
        left, right = _shown(before, at.secret), _shown(after, at.secret)
        if left == right and isinstance(right, str):
            right += CHANGED
        self.found.append(FieldChange(path=at.text, before=left, after=right, why=self.reason(at)))

    def reason(self, at: _At) -> Why | None:
        """Return why the value, or the nearest one that is still there, is what it is."""
        return self.why(at.near) if self.why else None

    def step(self, at: _At, holder: dict[str, Any], name: Any, *, present: bool) -> _At:
        """Step into a mapping."""
        key = str(name)
        piece = key if key and _UNQUOTED.issuperset(key) else _quoted(key)
        text = f"{at.text}.{piece}" if at.text and piece[0] != "[" else at.text + piece
        depth = len(at.field)
        parent = at.field[-1] if depth else ""
        secret = at.secret
        if not secret and (depth == 0 or type(holder[name]) not in _CONTAINERS):
            secret = is_secret_field(self.kind, depth, str(parent), holder, key)
        quantity = key in _QUANTITIES or parent in _QUANTITY_MAPS
        field = (*at.field, name)
        return _At(text, field, field if present else at.near, secret, quantity)


_CONTAINERS = (dict, list)


def _identical(before: Any, after: Any) -> bool:
    """Tell quickly that nothing differs. `==` alone would take True for 1; the encoding, in C, tells them apart."""
    return before is after or (bool(before == after) and _ENCODE(before) == _ENCODE(after))


_ENCODE = msgspec.json.Encoder().encode


def _item(at: _At, pair: Matched, items: list[Any], *, present: bool) -> _At:
    index = (pair.after if present else pair.before) or 0
    field = (*at.field, index)
    secret = at.secret or follows_secret_flag(items, index)
    return _At(f"{at.text}[{pair.label}]", field, field if present else at.near, secret, at.quantity)


def _quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'["{escaped}"]'


def _shown(value: Any, secret: bool) -> Any:  # noqa: FBT001 - the one flag says it all
    if secret:
        return MASK
    return redact(value) if type(value) is str else value
