"""What an API server refuses in literals that have types: mixed lists, durations, patterns, formats."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.cel.library import OVERLOADS
from reconciler.core.cel.library.formatting import clauses, takes
from reconciler.core.cel.library.regexes import pattern_error
from reconciler.core.cel.library.times import parse_duration, parse_timestamp
from reconciler.core.cel.syntax import Call, Constant, ListLiteral, MapLiteral, Node, children
from reconciler.core.cel.types import CelType
from reconciler.core.cel.values import MISSING, CelError, UInt, kind_of

_Fault = tuple[int, str]
_READERS = {"duration": parse_duration, "timestamp": parse_timestamp}
_CONVERSIONS = ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
"""Functions that a server evaluates when it installs a policy, if their argument is a constant."""
_OF_PATTERNS = ("matches", "find", "findAll")
"""Functions of a text and a pattern."""
_INDEXES = ("string", "int", "uint", "double", "bool")
"""Types of constants in brackets, of which a server makes a qualifier when it installs a policy."""


def literal_errors(tree: Node, types: Mapping[int, CelType]) -> Iterator[_Fault]:
    """Yield the offset and the message of each error below a node."""
    yield from _errors(tree, types, is_exempt=False)


def _errors(node: Node, types: Mapping[int, CelType], *, is_exempt: bool) -> Iterator[_Fault]:
    if isinstance(node, Call | MapLiteral):
        try:
            _plan(node)
        except CelError as error:
            yield node.at, f"program instantiation failed: {error}"
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
        if index in optional:
            if not kind.parameters:  # an API server panics, and closes the connection
                yield item.at, f"expected type 'optional_type' but found '{kind}'"
                return
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
        elif node.function == "matches" and isinstance(first.value, str) and pattern_error(first.value):
            yield first.at, "invalid matches argument"
    if node.function == "format" and isinstance(node.target, Constant) and isinstance(first, ListLiteral):
        yield from _format_errors(node, str(node.target.value), first, types)


def _unreadable(function: str, literal: Constant) -> Iterator[_Fault]:
    if literal.kind == "int" and function == "duration":
        yield literal.at, "invalid duration argument"
        return
    try:
        _READERS[function](literal.value)
    except CelError:
        yield literal.at, f"invalid {function} argument"


def _plan(node: Call | MapLiteral) -> None:
    """Compute what a server computes of a node when it installs a policy. Raises CelError."""
    if isinstance(node, MapLiteral):
        _folded(node)
        return
    arguments = node.arguments if node.target is None else (node.target, *node.arguments)
    if node.function in ("_[_]", "_[?_]"):
        key = _folded(node.arguments[1])
        if key is not MISSING and kind_of(key) not in _INDEXES:
            raise CelError(f"invalid qualifier type: {kind_of(key)}")
    elif node.function in _OF_PATTERNS and len(arguments) > 1:
        pattern = _folded(arguments[1])
        if isinstance(pattern, str) and pattern_error(pattern):
            raise CelError(pattern_error(pattern))
    else:
        _folded(node)


def _folded(node: Node) -> Any:
    """Return the value of a constant, converted as often as the text says; MISSING for anything else."""
    match node:
        case Constant(kind=kind, value=value):
            return UInt(value) if kind == "uint" else value
        case ListLiteral(items=items, optional=()):
            values = [_folded(item) for item in items]
            return MISSING if any(value is MISSING for value in values) else values
        case MapLiteral(keys=keys, values=items, optional=()):
            values = [_folded(part) for part in (*keys, *items)]
            if any(value is MISSING for value in values):
                return MISSING
            if any(kind_of(key) == "bytes" for key in values[: len(keys)]):
                raise CelError("unsupported key type: bytes")  # an API server panics, and closes the connection
            return {}  # only its type matters
        case Call(target=None, arguments=(argument,), function=function) if function in _CONVERSIONS:
            value = _folded(argument)
            return value if value is MISSING else _converted(function, value)
    return MISSING


def _converted(function: str, value: Any) -> Any:
    kind = kind_of(value)
    for signature in OVERLOADS[function]:
        takes = signature.parameters[0]
        if signature.run is not None and (takes.is_variable or takes.name == kind):
            return signature.run(value)
    raise CelError(f"no such overload: {function}({kind})")


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
