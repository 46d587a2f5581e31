"""The fields that differ between two bodies of an object.

No library is used, because items of lists are matched by their keys, quantities can be equal although they are written
differently (`1Gi`, `1024Mi`), and secrets must be masked before they become part of a plan.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reconciler.kube.items import ItemPair, ListKeys, match_by_position, match_items
from reconciler.kube.objects import FieldPath, format_key
from reconciler.kube.printed_paths import ORDER
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.reasons import Why
from reconciler.kube.secrets import MASK, follows_secret_flag, is_secret_field, mask_text
from reconciler.plan.causes import Cause
from reconciler.plan.plan import FieldChange

Reasoner = Callable[[FieldPath], Why]
"""Returns the reason of the value at a path of the new body."""

CauseFinder = Callable[[FieldPath | None, FieldPath | None], Cause]
"""Returns the edited lines behind a difference, by its path in the new and in the old body; None where it is absent."""

Quantities = Callable[[FieldPath], bool]
"""Returns whether the schema defines the value at a path as a quantity."""


def differences(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    list_keys: ListKeys = lambda _: None,
    is_quantity: Quantities = lambda _: False,
    why: Reasoner | None = None,
    cause: CauseFinder | None = None,
) -> tuple[FieldChange, ...]:
    """Return the fields that differ, in the order of the new body. A body is None if the object does not exist.

    Items of keyed lists are matched by their keys; a changed order is one difference, `… (order)`. An object that is
    created or deleted differs in all its leaves. Secret values are masked.
    """
    kind = (after or before or {}).get("kind")
    walker = _Walker(kind if isinstance(kind, str) else "", list_keys, is_quantity, why, cause)
    if before is not None and after is not None:
        walker.compare(dict(before), dict(after), _ROOT)
    elif after is not None:
        walker.leaves(dict(after), _ROOT, added=True)
    elif before is not None:
        walker.leaves(dict(before), _ROOT, added=False)
    return tuple(walker.changes)


def same(before: Any, after: Any, *, quantity: bool = False) -> bool:
    """Return whether two leaves are equal. A boolean never equals a number, and `"1"` equals 1 only as a quantity."""
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if before == after:
        return True
    if not quantity or not isinstance(before, str | int | float) or not isinstance(after, str | int | float):
        return False
    left = parse_quantity(before)
    return left is not None and left == parse_quantity(after)


def in_notation_of(other: Any, value: Any, list_keys: ListKeys, is_quantity: Quantities, path: FieldPath = ()) -> Any:
    """Return a value whose quantities are written as in another one where they are equal: `"1"` for 1, `1Gi`."""
    if value is other or value == other:
        return value
    if isinstance(value, dict) and isinstance(other, dict):
        return {
            name: in_notation_of(other[name], inner, list_keys, is_quantity, (*path, name)) if name in other else inner
            for name, inner in value.items()
        }
    if isinstance(value, list) and isinstance(other, list):
        pairs = match_items(path, other, value, list_keys) or match_by_position(other, value)
        found = {pair.after: pair.before for pair in pairs.items if pair.before is not None and pair.after is not None}
        return [
            in_notation_of(other[found[at]], item, list_keys, is_quantity, (*path, at)) if at in found else item
            for at, item in enumerate(value)
        ]
    is_known = not _QUANTITIES.isdisjoint(path[-1:]) or not _QUANTITY_MAPS.isdisjoint(path[-2:-1])
    return other if (is_known or is_quantity(path)) and same(other, value, quantity=True) else value


CHANGED = " (changed)"
"""Marks a masked value that differs, although both sides look the same."""


class _Position(NamedTuple):
    """A position in a body. `field` is its path, `near` the nearest path that exists in the new body.

    `old` is the path in the old body, which differs where an item has another position.
    """

    text: str
    field: FieldPath
    near: FieldPath
    old: FieldPath
    secret: bool
    quantity: bool


_ROOT = _Position("", (), (), (), secret=False, quantity=False)
_QUANTITY_MAPS = frozenset(("limits", "requests", "hard", "capacity", "minResources", "overhead", "defaultRequest"))
_QUANTITIES = frozenset(("sizeLimit", "nominalQuota", "borrowingLimit", "lendingLimit", "divisor"))


class _Walker:
    __slots__ = ("cause", "changes", "is_quantity", "kind", "list_keys", "why")

    def __init__(
        self,
        kind: str,
        list_keys: ListKeys,
        is_quantity: Quantities,
        why: Reasoner | None,
        cause: CauseFinder | None,
    ) -> None:
        self.cause = cause
        self.is_quantity = is_quantity
        self.kind = kind
        self.list_keys = list_keys
        self.why = why
        self.changes: list[FieldChange] = []

    def compare(self, before: Any, after: Any, at: _Position) -> None:
        """Compare two values that both exist."""
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

    def mappings(self, before: dict[str, Any], after: dict[str, Any], at: _Position) -> None:
        """Compare two mappings."""
        for name, value in after.items():
            if name in before and _identical(before[name], value):
                continue
            below = self.step(at, after, name, present=True)
            if name in before:
                # Both sides decide whether the value is secret, because its name can change together with it.
                hidden = below.secret or self.step(at, before, name, present=True).secret
                self.compare(before[name], value, below._replace(secret=hidden))
            else:
                self.leaves(value, below, added=True)
        for name, value in before.items():
            if name not in after:
                self.leaves(value, self.step(at, before, name, present=False), added=False)

    def lists(self, before: list[Any], after: list[Any], at: _Position) -> None:
        """Compare two lists by the keys of their items, or else by position."""
        pairs = match_items(at.field, before, after, self.list_keys)
        if pairs is None:
            pairs = match_by_position(before, after)
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
            order = at._replace(text=f"{at.text}{ORDER}")
            self.change(order, list(pairs.moved[0]), list(pairs.moved[1]))

    def leaves(self, value: Any, at: _Position, *, added: bool) -> None:
        """List every leaf of a value that exists on one side only."""
        if type(value) is dict and value:
            for name, inner in value.items():
                self.leaves(inner, self.step(at, value, name, present=added), added=added)
        elif type(value) is list and value:
            pairs = match_items(at.field, [] if added else value, value if added else [], self.list_keys)
            if pairs is None:
                pairs = match_by_position([], value) if added else match_by_position(value, [])
            for pair in pairs.items:
                index = pair.after if added else pair.before
                self.item_leaves(value[index or 0], _item(at, pair, value, present=added), pairs.keys, added=added)
        elif added:
            self.changes.append(
                FieldChange(
                    path=at.text,
                    after=_shown(value, at.secret),
                    has_before=False,
                    why=self.reason(at, has_before=False),
                )
            )
        else:
            self.changes.append(
                FieldChange(
                    path=at.text, before=_shown(value, at.secret), has_after=False, why=self.reason(at, has_after=False)
                )
            )

    def item_leaves(self, item: Any, at: _Position, keys: tuple[str, ...], *, added: bool) -> None:
        """List the leaves of an item without its keys, which its path contains, unless it has nothing else."""
        if keys and type(item) is dict and len(item) > sum(key in item for key in keys):
            for name, inner in item.items():
                if name not in keys:
                    self.leaves(inner, self.step(at, item, name, present=added), added=added)
        else:
            self.leaves(item, at, added=added)

    def change(self, at: _Position, before: Any, after: Any) -> None:
        """Add a field whose value differs, with a marker if both values look the same because they are masked."""
        left, right = _shown(before, at.secret), _shown(after, at.secret)
        if left == right and isinstance(right, str):
            right += CHANGED
        self.changes.append(FieldChange(path=at.text, before=left, after=right, why=self.reason(at)))

    def reason(self, at: _Position, *, has_before: bool = True, has_after: bool = True) -> Why | None:
        """Return the reason of the value, or of the nearest one that still exists, with the edited lines."""
        why = self.why(at.near) if self.why else None
        if why is None:
            return None
        if not has_after:
            why = replace(why, rule="plan.removed", text="not set any more")
        cause = self.cause(at.field if has_after else None, at.old if has_before else None) if self.cause else Cause()
        return replace(why, edited=cause.edited, removed=cause.removed) if cause else why

    def step(self, at: _Position, holder: dict[str, Any], name: Any, *, present: bool) -> _Position:
        """Return the position of a value in a mapping."""
        key = str(name)
        piece = format_key(key)
        text = f"{at.text}.{piece}" if at.text and piece[0] != "[" else at.text + piece
        depth = len(at.field)
        parent = at.field[-1] if depth else ""
        secret = at.secret or is_secret_field(self.kind, depth, str(parent), holder, key)
        quantity = key in _QUANTITIES or parent in _QUANTITY_MAPS
        field = (*at.field, name)
        return _Position(text, field, field if present else at.near, (*at.old, name), secret, quantity)


_CONTAINERS = (dict, list)


def _identical(before: Any, after: Any) -> bool:
    """Return whether two values are equal, quickly. The encoding distinguishes True from 1, which `==` does not."""
    return before is after or (bool(before == after) and _ENCODE(before) == _ENCODE(after))


_ENCODE = msgspec.json.Encoder().encode


def _item(at: _Position, pair: ItemPair, items: list[Any], *, present: bool) -> _Position:
    index = (pair.after if present else pair.before) or 0
    field = (*at.field, index)
    secret = at.secret or follows_secret_flag(items, index)
    near, old = field if present else at.near, (*at.old, pair.before or 0)
    return _Position(f"{at.text}[{pair.label}]", field, near, old, secret, at.quantity)


def _shown(value: Any, secret: bool) -> Any:  # noqa: FBT001 - the only flag
    if secret:
        return MASK
    return mask_text(value) if type(value) is str else value
