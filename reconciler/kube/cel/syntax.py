"""The syntax tree of a CEL expression. `at` is the offset of a node in the expression, for messages."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct


class Constant(Struct, frozen=True, array_like=True, tag="literal"):
    """A constant; `kind` is its type: int, uint, double, string, bytes, bool or null_type."""

    at: int
    kind: str
    value: Any


class Identifier(Struct, frozen=True, array_like=True, tag="name"):
    """An identifier."""

    at: int
    name: str


class Select(Struct, frozen=True, array_like=True, tag="select"):
    """`operand.field`, with `is_optional` `operand.?field`, with `is_test` `has(operand.field)`."""

    at: int
    operand: "Node"
    field: str
    is_optional: bool = False
    is_test: bool = False


class Call(Struct, frozen=True, array_like=True, tag="call"):
    """A call of a function or an operator (`_+_`); a member call has a target."""

    at: int
    function: str
    target: "Node | None"
    arguments: tuple["Node", ...]


class ListLiteral(Struct, frozen=True, array_like=True, tag="list"):
    """`[a, ?b]`; `optional` are the positions of optional items."""

    at: int
    items: tuple["Node", ...]
    optional: tuple[int, ...] = ()


class MapLiteral(Struct, frozen=True, array_like=True, tag="map"):
    """`{key: value}`; `optional` are the positions of optional entries."""

    at: int
    keys: tuple["Node", ...]
    values: tuple["Node", ...]
    optional: tuple[int, ...] = ()


class Message(Struct, frozen=True, array_like=True, tag="message"):
    """`Object.spec{field: value}`."""

    at: int
    name: str
    fields: tuple[str, ...]
    values: tuple["Node", ...]
    optional: tuple[int, ...] = ()


class Fold(Struct, frozen=True, array_like=True, tag="fold"):
    """A macro that evaluates `bodies` with `names` set: for each item of `target`, or for the value of an optional."""

    at: int
    macro: str
    target: "Node"
    names: tuple[str, ...]
    bodies: tuple["Node", ...]


Node = Constant | Identifier | Select | Call | ListLiteral | MapLiteral | Message | Fold


_CHILDREN: dict[type, Callable[[Any], tuple["Node", ...]]] = {
    Select: lambda node: (node.operand,),
    Call: lambda node: node.arguments if node.target is None else (node.target, *node.arguments),
    ListLiteral: lambda node: node.items,
    MapLiteral: lambda node: (*node.keys, *node.values),
    Message: lambda node: node.values,
    Fold: lambda node: (node.target, *node.bodies),
}


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below a node."""
    below = _CHILDREN.get(type(node))
    return below(node) if below is not None else ()


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        if below := children(found):
            waiting.extend(reversed(below))


def qualified_name(node: Node) -> str:
    """Return the dotted name that a node spells (`a.b`), or the empty string."""
    match node:
        case Identifier(name=name):
            return name
        case Select(operand=operand, field=field, is_optional=False, is_test=False):
            prefix = qualified_name(operand)
            return f"{prefix}.{field}" if prefix else ""
    return ""
