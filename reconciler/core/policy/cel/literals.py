"""What an API server refuses in literals that have types: mixed lists, durations, patterns, formats."""

from collections.abc import Iterator, Mapping

from reconciler.core.policy.cel.library import OVERLOADS
from reconciler.core.policy.cel.library.formatting import clauses, takes
from reconciler.core.policy.cel.library.regexes import pattern_error
from reconciler.core.policy.cel.library.times import parse_duration, parse_timestamp
from reconciler.core.policy.cel.syntax import Call, Constant, ListLiteral, MapLiteral, Node, children
from reconciler.core.policy.cel.types import CelType
from reconciler.core.policy.cel.values import INT64, CelError, UInt

_Fault = tuple[int, str]
_READERS = {"duration": parse_duration, "timestamp": parse_timestamp}
_CONVERSIONS = ("bool", "bytes", "double", "int", "string", "uint")
"""Functions that a server evaluates when it installs a policy, if their argument is a constant."""


def literal_errors(tree: Node, types: Mapping[int, CelType]) -> Iterator[_Fault]:
    """Yield the offset and the message of each error below a node."""
    yield from _errors(tree, types, is_exempt=False)


def _errors(node: Node, types: Mapping[int, CelType], *, is_exempt: bool) -> Iterator[_Fault]:
    if isinstance(node, Call):
        yield from _call_errors(node, types)
        is_exempt = is_exempt or node.function == "format"
    elif not is_exempt and isinstance(node, ListLiteral):
        yield from _mixed(node.items, node.optional, types, stops=True)
    elif not is_exempt and isinstance(node, MapLiteral):
        yield from _mixed(node.keys, (), types)
        yield from _mixed(node.values, node.optional, types)
    for child in children(node):
        yield from _errors(child, types, is_exempt=is_exempt)


def _mixed(
    items: tuple[Node, ...], optional: tuple[int, ...], types: Mapping[int, CelType], *, stops: bool = False
) -> Iterator[_Fault]:
    first: CelType | None = None
    for index, item in enumerate(items):
        kind = types[id(item)]
        if index in optional and kind.parameters:
            kind = kind.parameters[0]
        first = first or kind
        if first != kind:
            yield item.at, f"expected type '{first}' but found '{kind}'"
            if stops:
                return


def _call_errors(node: Call, types: Mapping[int, CelType]) -> Iterator[_Fault]:
    first = node.arguments[0] if node.arguments else None
    if isinstance(first, Constant):
        if node.function in _READERS and node.target is None:
            yield from _unreadable(node.function, first)
        elif node.function in _CONVERSIONS and node.target is None and len(node.arguments) == 1:
            yield from _inconvertible(node.function, first)
        elif node.function == "matches" and isinstance(first.value, str) and pattern_error(first.value):
            yield first.at, "invalid matches argument"
        elif node.function in ("find", "findAll") and isinstance(first.value, str) and pattern_error(first.value):
            yield first.at, f"program instantiation failed: {pattern_error(first.value)}"
    if node.function == "format" and isinstance(node.target, Constant) and isinstance(first, ListLiteral):
        yield from _format_errors(node, str(node.target.value), first, types)


def _unreadable(function: str, literal: Constant) -> Iterator[_Fault]:
    if literal.kind == function or (literal.kind == "int" and function == "duration" and literal.value in INT64):
        return
    try:
        _READERS[function](literal.value)
    except CelError:
        yield literal.at, f"invalid {function} argument"


def _inconvertible(function: str, literal: Constant) -> Iterator[_Fault]:
    value = UInt(literal.value) if literal.kind == "uint" else literal.value
    for signature in OVERLOADS[function]:
        if signature.parameters[0].name == literal.kind and signature.run is not None:
            try:
                signature.run(value)
            except CelError as error:
                yield literal.at, f"program instantiation failed: {error}"


def _format_errors(node: Call, shape: str, given: ListLiteral, types: Mapping[int, CelType]) -> Iterator[_Fault]:
    used = 0
    try:
        for clause in clauses(shape):
            if not clause.verb:
                continue
            if used >= len(given.items):
                yield node.at, f"index {used} out of range"
                return
            kind = types[id(given.items[used])]
            if kind.name != "dyn" and not takes(clause.verb, kind.name):
                yield given.items[used].at, f"error during formatting: %{clause.verb} does not take {kind}"
                return
            used += 1
    except CelError as error:
        yield node.at, str(error)
        return
    if used < len(given.items):
        message = f"too many arguments supplied to string.format (expected {used}, got {len(given.items)})"
        yield node.at, message
