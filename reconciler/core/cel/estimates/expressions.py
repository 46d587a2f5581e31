"""The highest cost of an expression, as cel-go estimates it from the sizes that values can have.

Source: cel-go 0.26, checker/cost.go. Macros cost what the loops cost that they stand for (parser/macro.go).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from reconciler.core.cel.checker import Checked
from reconciler.core.cel.estimates.calls import Operand, call_cost
from reconciler.core.cel.estimates.sizes import UNKNOWN, SizeRange, capped, exactly
from reconciler.core.cel.library import OVERLOADS, Signature
from reconciler.core.cel.syntax import (
    Call,
    Constant,
    Fold,
    Identifier,
    ListLiteral,
    MapLiteral,
    Message,
    Node,
    Select,
)
from reconciler.core.cel.types import DYN, CelType

_LIST, _MAP, _MESSAGE = 10, 30, 40
_SCALARS = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
_SORT = "@sortByAssociatedKeys"
_ITEMS, _KEYS, _VALUES, _INDICES = "@items", "@keys", "@values", "@indices"

ValuePath = tuple[str, ...]
"""Where a value comes from: a variable, then fields, or items, keys and values."""
SizeOf = Callable[[ValuePath], SizeRange | None]
"""Returns the size of the value at a path; None if nothing is known of it."""


class _Entries(NamedTuple):
    """The sizes of the entries of a list or map that an expression makes."""

    container: str
    key: SizeRange
    value: SizeRange


class _MacroVariable(NamedTuple):
    """What is known of a variable of a macro."""

    path: ValuePath
    size: SizeRange | None
    entries: _Entries | None = None


class _MacroCost(NamedTuple):
    """What a macro costs: at first, for each item, and at the end. `entries` are those of its result."""

    first: int
    step: int
    last: int = 1
    makes: bool = False
    entries: _Entries | None = None


def highest_cost(checked: Checked, types: Mapping[int, CelType], size_of: SizeOf) -> int:
    """Return the highest cost of an expression with the types of its nodes."""
    return _Estimator(checked, types, size_of).cost(checked.tree)


class _Estimator:
    def __init__(self, checked: Checked, types: Mapping[int, CelType], size_of: SizeOf) -> None:
        self._checked, self._types, self._size_of = checked, types, size_of
        self._bound: dict[str, list[_MacroVariable]] = {}
        self._paths: dict[int, ValuePath] = {}
        self._sizes: dict[int, SizeRange] = {}
        self._entries: dict[int, _Entries] = {}

    def cost(self, node: Node) -> int:  # noqa: PLR0911 - one for each kind of node
        """Return the highest cost of a node, and remember the path and the size of its value."""
        match node:
            case Identifier():
                return self._name(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral(items=items):
                cost = capped(_LIST + sum(map(self.cost, items)))
                self._entries[id(node)] = _Entries("list", exactly(1), self._union(items))
                return cost
            case MapLiteral(keys=keys, values=values):
                cost = capped(_MAP + sum(map(self.cost, (*keys, *values))))
                self._entries[id(node)] = _Entries("map", self._union(keys), self._union(values))
                return cost
            case Message(values=values):
                return capped(_MESSAGE + sum(map(self.cost, values)))
            case Fold():
                return self._fold(node)
        return 0

    # --- what is known of values ----------------------------------------------------------------------------

    def _known(self, name: str) -> _MacroVariable | None:
        found = self._bound.get(name)
        return found[-1] if found else None

    def _kind(self, node: Node) -> CelType:
        return self._types.get(id(node), DYN)

    def _path(self, node: Node) -> ValuePath:
        bound = self._known(node.name) if isinstance(node, Identifier) else None
        return bound.path if bound is not None else self._paths.get(id(node), ())

    def _size(self, node: Node) -> SizeRange | None:
        found = self._sizes.get(id(node)) or _written(node)
        if found is not None:
            return found
        path = self._path(node)
        found = self._size_of(path) if path else None
        if found is not None:
            self._sizes[id(node)] = found
            return found
        if _is_scalar(self._kind(node)):
            return exactly(1)
        bound = self._known(node.name) if isinstance(node, Identifier) else None
        return None if bound is None else bound.size

    def _size_or_unknown(self, node: Node) -> SizeRange:
        return self._size(node) or UNKNOWN

    def _union(self, nodes: Sequence[Node]) -> SizeRange:
        sizes = [self._size_or_unknown(node) for node in nodes] or [exactly(0)]
        return SizeRange(min(one.least for one in sizes), max(one.most for one in sizes))

    def _entries_of(self, node: Node) -> _Entries | None:
        found = self._entries.get(id(node))
        bound = self._known(node.name) if isinstance(node, Identifier) else None
        return found if found is not None or bound is None else bound.entries

    def _keep(self, node: Node, size: SizeRange | None, entries: _Entries | None = None) -> None:
        if size is not None:
            self._sizes[id(node)] = size
        if entries is not None:
            self._entries[id(node)] = entries

    # --- names and calls ------------------------------------------------------------------------------------

    def _name(self, node: Identifier) -> int:
        bound = self._known(node.name)
        self._paths[id(node)] = (node.name,) if bound is None else bound.path
        return 1

    def _select(self, node: Select) -> int:
        if id(node) in self._checked.names:
            return 1
        cost = self.cost(node.operand)
        if node.is_test:
            return cost
        if node.is_optional:  # a call
            return capped(cost + 1)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        kind = self._kind(node.operand)
        has_fields = kind.name == "map" or not (
            kind.parameters or kind.name in _SCALARS or kind.name in ("dyn", "string", "bytes", "null_type")
        )
        return capped(cost + has_fields)

    def _call(self, node: Call) -> int:
        name = self._checked.names.get(id(node), node.function.removeprefix("."))
        target = None if id(node) in self._checked.names else node.target
        costs = [self.cost(one) for one in node.arguments]
        if name == "dyn":
            self._keep(node, self._size(node.arguments[0]), self._entries_of(node.arguments[0]))
            return capped(costs[0] + 1)
        if name in ("_&&_", "_||_"):
            self._keep(node, self._size(node))
            return capped(sum(costs))
        before = 0 if target is None else self.cost(target)
        if name == "_?_:_":
            return self._choice(node, costs)
        receiver = None if target is None else self._operand(target)
        operands = [self._operand(one) for one in node.arguments]
        highest, size = 0, None
        for signature in self._checked.overloads.get(id(node), ()):
            found = call_cost(name, signature, receiver, operands)
            highest = max(highest, found.cost)
            if found.size is not None:
                size = found.size if size is None else size.union(found.size)
            if name == "_[_]":
                size = self._index(node, signature) or size
            elif name == "_+_":
                self._keep(node, None, _joined(*map(self._entries_of, node.arguments)))
            size = size or self._size(node)
        self._keep(node, size)
        return capped(before + highest + sum(costs))

    def _choice(self, node: Call, costs: Sequence[int]) -> int:
        _, one, other = node.arguments
        entries = _joined(self._entries_of(one), self._entries_of(other))
        self._keep(node, self._size_or_unknown(one).union(self._size_or_unknown(other)), entries)
        return capped(costs[0] + max(costs[1:]))

    def _index(self, node: Call, signature: Signature) -> SizeRange | None:
        """Remember where the item of a list or map comes from, and return its size."""
        container = signature.parameters[0].name
        if container not in ("list", "map"):
            return None
        self._paths[id(node)] = (*self._path(node.arguments[0]), _ITEMS if container == "list" else _VALUES)
        entries = self._entries_of(node.arguments[0])
        return None if entries is None else entries.value

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        item = self._size_of((*path, _ITEMS)) if path else None
        return Operand(node, self._kind(node), self._size_or_unknown(node), item or UNKNOWN)

    # --- macros ---------------------------------------------------------------------------------------------

    def _fold(self, node: Fold) -> int:
        if node.macro in ("optMap", "optFlatMap"):
            return self._optional(node)
        if node.macro == "sortBy":
            return self._sort_by(node)
        cost = self.cost(node.target)
        loop = self._loop(node)
        count = self._size_or_unknown(node.target)
        self._keep(node, count if loop.makes else exactly(1), loop.entries)
        return capped(cost + loop.first + loop.last + capped(count.most * loop.step))

    def _loop(self, node: Fold) -> _MacroCost:  # noqa: PLR0911 - one for each kind of macro
        """Return what the macro costs besides the list or map that it goes through."""
        with_names = self._ranges(node)
        for name, bound in with_names:
            self._bound.setdefault(name, []).append(bound)
        costs = [self.cost(body) for body in node.bodies]
        last = node.bodies[-1]
        size = self._size_or_unknown(last)
        item = self._size_of_bound(with_names[0][1], self._kind(node.target))
        for name, _ in with_names:
            self._bound[name].pop()
        filtered = costs[0] if len(costs) > 1 else 0
        match node.macro:
            case "all":
                return _MacroCost(0, capped(costs[0] + 3))
            case "exists":
                return _MacroCost(0, capped(costs[0] + 4))
            case "exists_one":
                return _MacroCost(0, capped(costs[0] + 2), last=2)
            case "filter":
                return _MacroCost(_LIST, capped(costs[0] + 13), makes=True, entries=_appended(item))
            case "map" | "transformList" | "sortBy":
                step = capped(costs[-1] + 12 + filtered)
                return _MacroCost(_LIST, step, makes=True, entries=_appended(size))
            case "transformMapEntry":
                return _MacroCost(_MAP, capped(costs[-1] + 2 + filtered), makes=True)
        return _MacroCost(_MAP, capped(costs[-1] + 3 + filtered), makes=True)

    def _size_of_bound(self, bound: _MacroVariable, container: CelType) -> SizeRange:
        found = self._size_of(bound.path) if bound.path else None
        if found is None and container.parameters and _is_scalar(container.parameters[0]):
            return exactly(1)
        return found or bound.size or UNKNOWN

    def _ranges(self, node: Fold) -> list[tuple[str, _MacroVariable]]:
        """Return the variables of a macro: the items of a list, the keys of a map, or both keys and values."""
        entries, path = self._entries_of(node.target), self._path(node.target)
        is_list = self._kind(node.target).name == "list" if entries is None else entries.container == "list"
        key = _MacroVariable((*path, _INDICES if is_list else _KEYS), None if entries is None else entries.key)
        value = _MacroVariable((*path, _ITEMS if is_list else _VALUES), None if entries is None else entries.value)
        if len(node.names) > 1:
            return [(node.names[0], key), (node.names[1], value)]
        return [(node.names[0], value if is_list else key)]

    def _optional(self, node: Fold) -> int:
        """Estimate `x.hasValue() ? optional.of(<body with x.value()>) : optional.none()`."""
        target = self.cost(node.target)
        inner = self._kind(node.target).parameters
        size = exactly(1) if inner and _is_scalar(inner[0]) else None
        self._bound.setdefault(node.names[0], []).append(_MacroVariable((), size))
        body = self.cost(node.bodies[0])
        found = self._size(node.bodies[0]) if node.macro == "optFlatMap" else None
        self._bound[node.names[0]].pop()
        absent = exactly(1) if _is_scalar(self._kind(node)) else UNKNOWN
        self._keep(node, absent.union(found or absent))
        made = _LIST + target + 1 + body + (node.macro == "optMap")
        return capped(target + 1 + made)

    def _sort_by(self, node: Fold) -> int:
        """Estimate the call that sorts a list by the list of its keys."""
        target = self.cost(node.target)
        count = self._size_or_unknown(node.target)
        bound = _MacroVariable(self._path(node.target), count, self._entries_of(node.target))
        loop = self._loop(node)
        keys = capped(1 + loop.first + loop.last + capped(count.most * loop.step))
        key = self._kind(node.bodies[0])
        signatures = [one for one in OVERLOADS[_SORT] if key in (DYN, one.parameters[1].parameters[0])]
        keys_of = Operand(node, DYN, count, UNKNOWN)
        sorting = max(call_cost(_SORT, signature, None, [keys_of]) for signature in signatures)
        self._keep(node, sorting.size, bound.entries)
        return capped(_LIST + target + 1 + sorting.cost + keys)


def _written(node: Node) -> SizeRange | None:
    """Return the size of a value that is written in the expression."""
    match node:
        case Constant(value=str() | bytes() as value):
            return exactly(len(value))
        case Constant():
            return exactly(1)
        case ListLiteral(items=items):
            return exactly(len(items))
        case MapLiteral(keys=keys):
            return exactly(len(keys))
    return None


def _is_scalar(kind: CelType) -> bool:
    return kind.name in _SCALARS or (kind.name == "optional_type" and _is_scalar(kind.parameters[0]))


def _joined(one: _Entries | None, other: _Entries | None) -> _Entries | None:
    if one is None or other is None:
        return None
    return _Entries(one.container, one.key.union(other.key), one.value.union(other.value))


def _appended(item: SizeRange) -> _Entries:
    """Return the entries of a list that began empty."""
    return _Entries("list", exactly(1), item.union(exactly(0)))
