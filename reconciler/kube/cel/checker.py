"""`check`: the type of an expression, which overloads its calls can mean, and what is wrong with it.

Accepts and refuses what cel-go does with the options of an API server.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from reconciler.kube.cel.lexer import CelSyntaxError
from reconciler.kube.cel.library import OVERLOADS, Signature
from reconciler.kube.cel.library.formatting import clauses, takes
from reconciler.kube.cel.library.regexes import pattern_error
from reconciler.kube.cel.library.times import parse_duration, parse_timestamp
from reconciler.kube.cel.parser import TOO_DEEP, parse
from reconciler.kube.cel.syntax import (
    Call,
    Constant,
    Fold,
    Identifier,
    ListLiteral,
    MapLiteral,
    Message,
    Node,
    Select,
    children,
    qualified_name,
)
from reconciler.kube.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    CelType,
    Unifier,
    is_dynamic,
    list_of,
    map_of,
    most_general,
    optional_of,
    type_of,
    unwrapped,
)
from reconciler.kube.cel.values import MISSING, CelError, UInt, kind_of

# What an API server refuses in literals that have types: mixed lists, durations, patterns, formats.


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


TYPE_NAMES = {
    **{name: type_of(name) for name in ("bool", "bytes", "double", "int", "string", "uint", "type", "null_type")},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "optional_type": optional_of(DYN),
    "google.protobuf.Timestamp": type_of("timestamp"),
    "google.protobuf.Duration": type_of("duration"),
    "net.IP": type_of("ip"),
    "net.CIDR": type_of("cidr"),
}
"""Names of types that expressions can use as values."""

MOMENTS = ("google.protobuf.Duration", "google.protobuf.Timestamp")

_FIELDS_OF_MOMENTS = {"seconds": type_of("int"), "nanos": type_of("int")}


class CompileError(Struct, frozen=True, kw_only=True):
    """An error of the compiler; `line` and `column` within the expression count from 1."""

    line: int
    column: int
    message: str


class Declarations(Struct, frozen=True, kw_only=True):
    """The variables of an expression, and the fields of the types of objects."""

    variables: Mapping[str, CelType]
    objects: Mapping[str, Mapping[str, CelType]] = {}


class Checked(Struct, frozen=True, kw_only=True, eq=False):
    """An expression that compiles: its tree, its type, and the overloads of its calls by the id of their nodes."""

    tree: Node
    kind: CelType
    overloads: Mapping[int, tuple[Signature, ...]]
    names: Mapping[int, str]
    """Selections and calls that are one qualified name, such as `lists.range`, by the id of their nodes."""


def check(expression: str, declared: Declarations) -> Checked | tuple[CompileError, ...]:
    """Return an expression with its type, or its errors."""
    try:
        tree = parse(expression)
    except CelSyntaxError as error:
        return (_located(expression, error.at, str(error)),)
    try:
        return _checked(expression, tree, declared)
    except RecursionError:  # chains of operators within each other: few levels for the parser, many for the tree
        return (_located(expression, 0, TOO_DEEP),)


def _checked(expression: str, tree: Node, declared: Declarations) -> Checked | tuple[CompileError, ...]:
    checker = _Checker(declared)
    kind = checker.check(tree)
    types = {key: checker.unifier.resolve(found, to_dyn=True) for key, found in checker.types.items()}
    errors = checker.errors or list(literal_errors(tree, types))
    if errors:
        return tuple(_located(expression, at, message) for at, message in sorted(set(errors)))
    kind = checker.unifier.resolve(kind, to_dyn=True)
    return Checked(tree=tree, kind=kind, overloads=checker.overloads, names=checker.names)


def _located(expression: str, at: int, message: str) -> CompileError:
    before = expression[:at]
    return CompileError(line=before.count("\n") + 1, column=at - (before.rfind("\n") + 1) + 1, message=message)


class _Checker:
    def __init__(self, declared: Declarations) -> None:
        self._declared = declared
        self._scopes: list[dict[str, CelType]] = []
        self.unifier = Unifier()
        self.types: dict[int, CelType] = {}
        self.overloads: dict[int, tuple[Signature, ...]] = {}
        self.names: dict[int, str] = {}
        self.errors: list[tuple[int, str]] = []

    def check(self, node: Node) -> CelType:
        """Return the type of a node and remember it."""
        kind = self._check(node)
        self.types[id(node)] = kind
        return kind

    def _check(self, node: Node) -> CelType:  # noqa: PLR0911 - one for each kind of node
        match node:
            case Constant(kind=kind):
                return CelType(kind)
            case Identifier():
                return self._name(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Message():
                return self._message(node)
            case Fold():
                return self._fold(node)

    def _fail(self, at: int, message: str) -> CelType:
        self.errors.append((at, message))
        return ERROR

    # --- names ----------------------------------------------------------------------------------------------

    def _lookup(self, name: str) -> CelType | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        plain = name.removeprefix(".")  # it passes by the variables of macros: a server declares all others at the root
        found = self._declared.variables.get(plain)
        if found is not None:
            return found
        named = TYPE_NAMES.get(plain)
        return None if named is None else CelType("type", (named,))

    def _name(self, node: Identifier) -> CelType:
        found = self._lookup(node.name)
        return self._undeclared(node.at, node.name) if found is None else found

    def _undeclared(self, at: int, name: str) -> CelType:
        return self._fail(at, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Select) -> CelType:
        name = qualified_name(node)
        found = self._lookup(name) if name else None
        if found is not None:
            self.names[id(node)] = name
            return found
        operand = self.unifier.resolve(self.check(node.operand))
        target, was_optional = unwrapped(operand)
        result = self._field(node, target)
        if was_optional or node.is_optional:
            result = optional_of(result)
        return BOOL if node.is_test else self.unifier.resolve(result)

    def _field(self, node: Select, target: CelType) -> CelType:
        if target.name == "map":
            return target.parameters[1]
        fields = self._declared.objects.get(target.name)
        if fields is not None:
            found = fields.get(node.field)
            return self._fail(node.at, f"undefined field '{node.field}'") if found is None else found
        if target.is_variable:
            self.unifier.assign([(DYN, target)])
        elif not is_dynamic(target):
            self._fail(node.at, f"type '{target}' does not support field selection")
        return DYN

    # --- calls ----------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> CelType:
        arguments = [self.check(argument) for argument in node.arguments]
        if node.target is None:
            name = node.function.removeprefix(".")
            if name not in OVERLOADS:
                return self._undeclared(node.at, name)
            return self._resolve(node, name, arguments, is_member=False)
        prefix = qualified_name(node.target).removeprefix(".")
        if prefix and f"{prefix}.{node.function}" in OVERLOADS:
            name = self.names[id(node)] = f"{prefix}.{node.function}"
            return self._resolve(node, name, arguments, is_member=False)
        target = self.check(node.target)
        if node.function not in OVERLOADS:
            return self._undeclared(node.at, node.function)
        return self._resolve(node, node.function, [target, *arguments], is_member=True)

    def _resolve(self, node: Call, name: str, arguments: list[CelType], *, is_member: bool) -> CelType:
        if name in ("_&&_", "_||_"):
            return self._logical(node, arguments)
        matching: list[Signature] = []
        result: CelType | None = None
        for signature in OVERLOADS[name]:
            if signature.is_member != is_member or len(signature.parameters) != len(arguments):
                continue
            returns, *parameters = self.unifier.instantiate((signature.returns, *signature.parameters))
            if self.unifier.assign(list(zip(arguments, parameters, strict=True))):
                matching.append(signature)
                found = self.unifier.resolve(returns)
                if result is None:
                    result = found
                elif result.name != "dyn" and found != result:
                    result = DYN
        if result is None:
            shown = [str(self.unifier.resolve(kind, to_dyn=True)) for kind in arguments]
            text = f"{shown[0]}.({', '.join(shown[1:])})" if is_member else f"({', '.join(shown)})"
            return self._fail(node.at, f"found no matching overload for '{name}' applied to '{text}'")
        self.overloads[id(node)] = tuple(matching)
        return result

    def _logical(self, node: Call, arguments: list[CelType]) -> CelType:
        for argument, kind in zip(node.arguments, arguments, strict=True):
            self._expect(argument, kind, BOOL)
        return BOOL

    def _expect(self, node: Node, kind: CelType, expected: CelType) -> bool:
        if self.unifier.assign([(kind, expected)]):
            return True
        found = self.unifier.resolve(kind, to_dyn=True)
        self._fail(node.at, f"expected type '{expected}' but found '{found}'")
        return False

    # --- literals -------------------------------------------------------------------------------------------

    def _join(self, previous: CelType | None, current: CelType) -> CelType:
        if previous is None:
            return current
        return most_general(previous, current) if self.unifier.assign([(previous, current)]) else DYN

    def _item(self, node: Node, *, is_optional: bool) -> CelType:
        kind = self.check(node)
        if not is_optional:
            return kind
        inner, was_optional = unwrapped(self.unifier.resolve(kind))
        if not was_optional and kind.name != "dyn":
            self._fail(node.at, f"expected type '{optional_of(inner)}' but found '{inner}'")
        return inner

    def _list(self, node: ListLiteral) -> CelType:
        joined: CelType | None = None
        for index, item in enumerate(node.items):
            joined = self._join(joined, self._item(item, is_optional=index in node.optional))
        return list_of(joined or self.unifier.fresh())

    def _map(self, node: MapLiteral) -> CelType:
        keys: CelType | None = None
        values: CelType | None = None
        for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            keys = self._join(keys, self.check(key))
            values = self._join(values, self._item(value, is_optional=index in node.optional))
        return map_of(keys or self.unifier.fresh(), values or self.unifier.fresh())

    def _message(self, node: Message) -> CelType:
        name = node.name.removeprefix(".")
        fields = _FIELDS_OF_MOMENTS if name in MOMENTS else self._declared.objects.get(name)
        kind = self._undeclared(node.at, name) if fields is None else TYPE_NAMES.get(name, CelType(name))
        for index, (field, value) in enumerate(zip(node.fields, node.values, strict=True)):
            found = self._item(value, is_optional=index in node.optional)
            expected = (fields or {}).get(field)
            if fields is not None and expected is None:
                self._fail(node.at, f"undefined field '{field}'")
            elif expected is not None and not self.unifier.assign([(expected, found)]):
                shown = self.unifier.resolve(found, to_dyn=True)
                self._fail(value.at, f"expected type of field '{field}' is '{expected}' but provided type is '{shown}'")
        return kind

    # --- folds ----------------------------------------------------------------------------------------------

    def _fold(self, node: Fold) -> CelType:  # noqa: PLR0911 - one for each kind of macro
        target = self.unifier.resolve(self.check(node.target))
        if node.macro in ("optMap", "optFlatMap"):
            return self._optional_fold(node, target)
        if node.macro == "sortBy":
            return self._sort_by(node, target)
        key, item = self._ranges(node, target)
        with self._scope(dict(zip(node.names, (key, item), strict=False))):
            kinds = [self.check(body) for body in node.bodies]
        *filters, last = zip(node.bodies, kinds, strict=True)
        if node.macro in ("all", "exists", "exists_one", "filter"):
            filters = [last]
        for body, kind in filters:
            self._expect(body, kind, BOOL)
        if node.macro in ("all", "exists", "exists_one"):
            return BOOL
        if node.macro == "filter":
            return list_of(key)
        if node.macro == "transformMap":
            return map_of(key, kinds[-1])
        if node.macro == "transformMapEntry":
            expected = map_of(self.unifier.fresh(), self.unifier.fresh())
            return self.unifier.resolve(kinds[-1]) if self._expect(node.bodies[-1], kinds[-1], expected) else ERROR
        return list_of(self.unifier.resolve(kinds[-1]))

    def _ranges(self, node: Fold, target: CelType) -> tuple[CelType, CelType]:
        """Return the types of the variables of a fold."""
        is_pair = len(node.names) > 1
        if target.name == "list":
            return (INT, target.parameters[0]) if is_pair else (target.parameters[0], DYN)
        if target.name == "map":
            return target.parameters[0], target.parameters[1]
        if target.is_variable:
            self.unifier.assign([(DYN, target)])
        elif not is_dynamic(target):
            message = (
                f"expression of type '{target}' cannot be range of a comprehension (must be list, map, or dynamic)"
            )
            self._fail(node.target.at, message)
        return DYN, DYN

    @contextmanager
    def _scope(self, variables: dict[str, CelType]) -> Iterator[None]:
        self._scopes.append(variables)
        yield
        self._scopes.pop()

    def _optional_fold(self, node: Fold, target: CelType) -> CelType:
        value = self.unifier.fresh()
        if not self.unifier.assign([(target, optional_of(value))]):
            shown = self.unifier.resolve(target, to_dyn=True)
            self._fail(node.target.at, f"found no matching overload for 'hasValue' applied to '{shown}.()'")
        with self._scope({node.names[0]: self.unifier.resolve(value)}):
            result = self.check(node.bodies[0])
        if node.macro == "optMap":
            return optional_of(self.unifier.resolve(result))
        self._expect(node.bodies[0], result, optional_of(self.unifier.fresh()))
        return self.unifier.resolve(result)

    def _sort_by(self, node: Fold, target: CelType) -> CelType:
        key, _ = self._ranges(node, target)
        with self._scope({node.names[0]: key}):
            found = self.unifier.resolve(self.check(node.bodies[0]))
        signatures = OVERLOADS["@sortByAssociatedKeys"]
        items = list_of(self.unifier.fresh())
        if not any(self.unifier.assign([(target, items), (list_of(found), one.parameters[1])]) for one in signatures):
            message = f"found no matching overload for '@sortByAssociatedKeys' applied to '{target}.(list({found}))'"
            self._fail(node.at, message)
        return self.unifier.resolve(items)
