"""FieldMap of maps and items of lists, of plain and of optional values."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.kube.cel.values import MISSING, NONE, CelError, FieldMap, Optional, kind_of, lookup, no_overload

_CONTAINERS = ("list", "map")


class LiveMap(dict[str, Any]):
    """A map of which only a live API server knows all fields; `unknown` are the others, by their full names."""

    unknown: Mapping[str, str]

    def __init__(self, known: Mapping[str, Any], unknown: Mapping[str, str]) -> None:
        super().__init__(known)
        self.unknown = unknown

    def field(self, name: str) -> Any:
        """Return a field or MISSING. Raises CelError for one that is unknown."""
        full = self.unknown.get(name)
        if full is not None:
            raise CelError(f"only a live API server knows `{full}`", unanswerable=full)
        return self.get(name, MISSING)


def _field(value: Any, name: str) -> Any:
    if type(value) is dict:  # most values
        return value.get(name, MISSING)
    if isinstance(value, LiveMap):
        return value.field(name)
    if isinstance(value, Mapping):
        return value.get(name, MISSING)
    raise CelError(f"no such overload: {kind_of(value)} has no field {name!r}")


def wrap(found: Any) -> Optional:
    """Return an optional value: of a value, or of MISSING."""
    return NONE if found is MISSING else Optional(found)


def select(value: Any, name: str) -> Any:
    """Return `value.name`."""
    if isinstance(value, Optional):
        return wrap(find(value, name))
    found = _field(value, name)
    if found is MISSING:
        raise CelError(f"no such key: {name}")
    return found


def has(value: Any, name: str) -> bool:
    """Return `has(value.name)`."""
    if isinstance(value, Optional):
        return value.present and has(value.value, name)
    found = find(value, name)
    return found is not MISSING and (found is not None or not isinstance(value, FieldMap))


def find(value: Any, name: str) -> Any:
    """Return the content of `value.?name`, or MISSING."""
    if type(value) is dict:
        return value.get(name, MISSING)
    if value is MISSING:
        return MISSING
    if type(value) is Optional:
        return find(value.value, name) if value.present else MISSING
    return _field(value, name) if isinstance(value, Mapping) else find_item(value, name)


def _position(key: Any, size: int) -> int | None:
    """Return the position that a key means in a list, or None if it is not in the list."""
    kind = kind_of(key)
    if kind not in ("int", "uint", "double") or key != key or key in (float("inf"), float("-inf")):  # noqa: PLR0124
        raise CelError(f"unsupported index type '{kind}' in list")
    if int(key) != key:
        raise CelError(f"unsupported index value {key}")
    return int(key) if 0 <= key < size else None


def _item(value: Any, key: Any) -> Any:
    kind = kind_of(value)
    if kind == "list":
        position = _position(key, len(value))
        return MISSING if position is None else value[position]
    if kind == "map":
        return value.field(key) if isinstance(value, LiveMap) and isinstance(key, str) else lookup(value, key)
    raise CelError(f"no such overload: {kind} has no items")


def index(value: Any, key: Any) -> Any:
    """Return `value[key]`."""
    if type(value) is dict and type(key) is str:
        found = value.get(key, MISSING)
    elif isinstance(value, Optional):
        return wrap(find_item(value, key))
    else:
        found = _item(value, key)
    if found is MISSING:
        what = "index out of bounds" if kind_of(value) == "list" else "no such key"
        raise CelError(f"{what}: {key if isinstance(key, str | int | float) else kind_of(key)}")
    return found


def find_item(value: Any, key: Any) -> Any:
    """Return the content of `value[?key]`, or MISSING. Raises CelError for a key of a wrong type."""
    if isinstance(value, Optional):
        return find_item(value.value, key) if value.present else MISSING
    return _item(value, key) if kind_of(value) in _CONTAINERS else MISSING


def check_items(value: Any) -> None:
    """Raise CelError for a value that has no items."""
    kind = kind_of(value)
    if kind not in _CONTAINERS:
        raise no_overload(f"{kind} has no items")


def pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the keys and values of a map, or the positions and items of a list."""
    return value.items() if kind_of(value) == "map" else enumerate(value)


def merge(found: dict[Any, Any], entry: Any) -> None:
    """Add the keys of a map to another one. Raises CelError for one that is there."""
    if kind_of(entry) != "map":
        raise no_overload("cel.@mapInsert")
    for key, value in entry.items():
        if key in found:
            raise CelError(f"insert failed: key {key} already exists")
        found[key] = value
