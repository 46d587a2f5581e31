"""The fields of a live object that belong to other controllers: applies leave them, and they are never drift.

The row of a kind names the fields that a queue or an operator writes (`Pods.suspend`, `Life.controlled`); the managers
of the object tell what an autoscaler sets. Everything else that controllers add lies beside what people wrote, where a
server-side apply never touches it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.facts import Body
from reconciler.kinds.kind import Kinds
from reconciler.kinds.pods import is_stopped
from reconciler.kube.items import ListKeys
from reconciler.kube.objects import FieldPath
from reconciler.kube.printed_paths import find_path
from reconciler.kube.values import mapping, value_at, with_value, without_value
from reconciler.plan.live.managers import applied_only_by_us, scaled_fields
from reconciler.plan.live.projection import without

KUEUE = "Kueue"
AUTOSCALER = "autoscaler"
PLACEMENT: tuple[FieldPath, ...] = (
    ("spec", "nodeSelector"),
    ("spec", "tolerations"),
    ("spec", "schedulingGates"),
    ("metadata", "labels"),
    ("metadata", "annotations"),
)
"""Fields that Kueue adds to the pod templates of a workload that it starts: pkg/podset/podset.go (Merge)."""


class ControlledField(Struct, frozen=True, kw_only=True):
    """A field of one live object that `by` writes. If it `adds`, the object has what people wrote as well."""

    path: FieldPath
    by: str
    adds: bool = False
    key: str = ""  # of the items of a list that a server merges


def controlled_fields(kinds: Kinds, live: Body) -> tuple[ControlledField, ...]:
    """Return the fields of a live object that other controllers write."""
    row = kinds.of(live)
    found = [ControlledField(path=path, by=AUTOSCALER) for path in scaled_fields(live)]
    for one in row.life.controlled:
        if one.applies(live):
            found += [
                ControlledField(path=path, by=one.by, adds=one.adds, key=one.key) for path in _expanded(live, one.path)
            ]
    if kinds.is_queued(live):
        found += [ControlledField(path=row.pods.suspend, by=KUEUE)] if row.pods.suspend else []
        if value_at(live, row.pods.suspend) is not True:  # Kueue takes back what it added when it suspends a workload
            found += _placement(kinds, live, is_template=bool(row.pods.suspend))
    return tuple(found)


def as_sent(desired: Body, live: Body, fields: tuple[ControlledField, ...], list_keys: ListKeys) -> dict[str, Any]:
    """Return what an apply sends: the desired object without the fields that belong to others.

    A server replaces a list whose items have no keys as a whole, so that there the live values are sent. So is the
    value of a field that nobody but us has applied: it would vanish if it were left out.
    """
    sent: dict[str, Any] = _with_empties(dict(desired), live, (), list_keys)
    for field in _left(desired, fields):
        place = _counterpart(desired, live, field.path)
        if place is None:
            continue
        value, theirs = _find(desired, place), _find(live, field.path)
        replaced = _is_in_replaced_list(field.path, list_keys)
        if field.adds and field.key and not replaced:
            continue  # the server keeps the items of others
        if field.adds:
            if value is not _ABSENT or replaced:
                sent = _with(sent, place, _merged(value, theirs))
        else:
            stays = replaced or applied_only_by_us(live, field.path)
            sent = _with(sent, place, theirs if stays else _ABSENT)
    return sent


def as_desired(live: Body, desired: Body, fields: tuple[ControlledField, ...]) -> dict[str, Any]:
    """Return the live object as it is compared: with the desired values in the fields that belong to others.

    Of a list that a controller extends, only as many items as people wrote: it adds its own behind them. The keys that
    it adds to a mapping are in nobody's way.
    """
    seen = dict(live)
    for field in _left(desired, fields):
        place = _counterpart(desired, live, field.path)
        value = _ABSENT if place is None else _find(desired, place)
        theirs = _find(live, field.path)
        if not field.adds:
            seen = _with(seen, field.path, value)
        elif isinstance(value, list) and isinstance(theirs, list):
            seen = _with(seen, field.path, _own_items(value, theirs, field.key))
    return seen


def _own_items(value: list[Any], theirs: list[Any], key: str) -> list[Any]:
    """Return the items of a live list that people wrote: those with the same keys, or as many as they wrote."""
    if not key:
        return theirs[: len(value)]
    names = {mapping(item).get(key) for item in value}
    return [item for item in theirs if mapping(item).get(key) in names]


def without_controlled(live: Body, fields: tuple[ControlledField, ...]) -> Body:
    """Return a live object without the fields that others may change at any time."""
    return without(live, sorted({field.path for field in fields}, key=str)) if fields else live


_ABSENT: Any = object()


def _left(desired: Body, fields: tuple[ControlledField, ...]) -> Iterator[ControlledField]:
    """Yield the fields that are left to others: the number of pods is ours where a person stops an object."""
    return (field for field in fields if field.by != AUTOSCALER or not is_stopped(desired))


def _placement(kinds: Kinds, live: Body, *, is_template: bool) -> Iterator[ControlledField]:
    """Yield what Kueue adds when it starts a workload: to the templates of one that is suspended, else to a pod."""
    for pods in kinds.pod_sets(live) or ():
        template, rest = find_path(live, pods.prefix.removesuffix("."), lambda _: None)
        for path in PLACEMENT if not rest and bool(template) is is_template else ():
            yield ControlledField(path=(*template, *path), by=KUEUE, adds=True)


def _expanded(node: Any, pattern: tuple[str, ...], path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths of a pattern in an object; its last step may be absent there."""
    if not pattern:
        yield path
        return
    step, rest = pattern[0], pattern[1:]
    if step == "*":
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for name, inner in items:
            yield from _expanded(inner, rest, (*path, name))
    elif isinstance(node, dict) and (step in node or not rest):
        yield from _expanded(node.get(step), rest, (*path, step))


def _counterpart(desired: Body, live: Body, path: FieldPath) -> FieldPath | None:
    """Return the path in the desired object of a field of the live one; None if it lacks what would hold the field."""
    place: FieldPath = ()
    ours: Any = desired
    for at, step in enumerate(path):
        if isinstance(ours, list) and isinstance(step, int):
            position = _same_item(ours, value_at(live, path[: at + 1]), step)
            if position is None:
                return None
            place, ours = (*place, position), ours[position]
        elif isinstance(ours, dict) and (step in ours or at == len(path) - 1):
            place, ours = (*place, step), ours.get(step)
        else:
            return None
    return place


_NAMES = ("name", "groupName")


def _same_item(items: list[Any], other: Any, position: int) -> int | None:
    """Return the position of the item that has the name of another one; without names the position of that one."""
    for key in _NAMES:
        name = mapping(other).get(key)
        if isinstance(name, str):
            return next((at for at, item in enumerate(items) if mapping(item).get(key) == name), None)
    return position if position < len(items) else None


def _is_in_replaced_list(path: FieldPath, list_keys: ListKeys) -> bool:
    return any(isinstance(step, int) and not list_keys(path[:at]) for at, step in enumerate(path))


def _with_empties(desired: Any, live: Any, path: FieldPath, list_keys: ListKeys, *, is_replaced: bool = False) -> Any:
    """Return a desired value with the empty ones that a live one has besides it, where lists are replaced as a whole.

    A controller that updates an object writes all of it, with an empty value in each field that is not optional in Go.
    """
    if isinstance(desired, dict) and isinstance(live, dict):
        made = {
            name: _with_empties(value, live.get(name), (*path, name), list_keys, is_replaced=is_replaced)
            for name, value in desired.items()
        }
        added = {name: value for name, value in live.items() if name not in desired and value in _EMPTY}
        return {**made, **added} if is_replaced else made
    if isinstance(desired, list) and isinstance(live, list) and len(desired) == len(live):
        replaced = is_replaced or not list_keys(path)
        pairs = enumerate(zip(desired, live, strict=True))
        return [_with_empties(*pair, (*path, at), list_keys, is_replaced=replaced) for at, pair in pairs]
    return desired


_EMPTY: tuple[Any, ...] = ({}, [], None)


def _merged(value: Any, theirs: Any) -> Any:
    """Return the authored fields together with those that a controller added."""
    if isinstance(theirs, Mapping):
        return {**theirs, **mapping(value)}
    if isinstance(theirs, list):
        ours = value if isinstance(value, list) else []
        return [*ours, *(item for item in theirs if item not in ours)]
    return value


def _find(body: Body, path: FieldPath) -> Any:
    node: Any = body
    for step in path:
        inside = step in node if isinstance(node, dict) else isinstance(node, list) and isinstance(step, int)
        if not inside or (isinstance(node, list) and isinstance(step, int) and step >= len(node)):
            return _ABSENT
        node = node[step]
    return node


def _with(body: Any, path: FieldPath, value: Any) -> Any:
    return without_value(body, path) if value is _ABSENT else with_value(body, path, value)
