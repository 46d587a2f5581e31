"""`build`: the program of a checked expression, and the translation of each kind of node."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from reconciler.kube.cel.checker import TYPE_NAMES, Checked
from reconciler.kube.cel.library import Signature
from reconciler.kube.cel.library.operators import length, within_literal
from reconciler.kube.cel.parser import TOO_DEEP
from reconciler.kube.cel.program import Program, Run
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
    walk,
)
from reconciler.kube.cel.translation import folds, operators
from reconciler.kube.cel.translation.code import TYPES, FunctionBody, TranslatedValue
from reconciler.kube.cel.types import CelType
from reconciler.kube.cel.values import MISSING, CelError, Duration, Opaque, Timestamp, TypeValue, UInt, kind_of

# Calls of functions: the overload is chosen by the values, among those that the checker left.


_CERTAIN = ("bool", "string")
"""The types of results that functions keep to. A number can be of another type where items of lists are mixed."""

_FOLDED, _MAX_FOLDED = (str, int, bool), 10_000


class _Chosen:
    """The implementation of a call, by the types of the values."""

    def __init__(self, name: str, signatures: Sequence[Signature]) -> None:
        self._name = name
        self.known: dict[tuple[type, ...], Callable[..., Any]] = {}
        """Those found by the types of the values alone."""
        self._overloads = [(one.parameters, one.run) for one in signatures]
        self._by_items = len(signatures) > 1 and any(map(_has_items, signatures))

    def find(self, *values: Any) -> Callable[..., Any]:
        """Return the first implementation for these values. Raises CelError if there is none."""
        key = tuple(map(type, values))
        run = self.known.get(key)
        if run is not None:
            return run
        for parameters, run in self._overloads:
            if run is not None and all(map(_takes, parameters, values)):
                if not self._by_items and not any(isinstance(value, Opaque) for value in values):
                    self.known[key] = run
                return run
        raise CelError(f"no such overload: {self._name}({', '.join(map(kind_of, values))})")

    def call(self, *values: Any) -> Any:
        """Return the result for these values. Raises CelError."""
        return (self.known.get(tuple(map(type, values))) or self.find(*values))(*values)


def _has_items(signature: Signature) -> bool:
    """Return whether a parameter takes only lists of certain items."""
    lists = (parameter for parameter in signature.parameters if parameter.name == "list")
    return any(not _takes_all(one.parameters[0]) for one in lists)


def _takes_all(parameter: CelType) -> bool:
    return parameter.is_variable or parameter.name == "dyn"


def _takes(parameter: CelType, value: Any) -> bool:
    """Return whether a parameter takes a value; of a list, the first item decides, as on a server."""
    if _takes_all(parameter):
        return True
    if parameter.name != kind_of(value):
        return False
    if parameter.name == "list" and value:
        return _takes(parameter.parameters[0], value[0])
    return True


def call(
    code: FunctionBody, name: str, signatures: Sequence[Signature], arguments: Sequence[TranslatedValue]
) -> TranslatedValue:
    """Translate a call."""
    chosen = _Chosen(name, signatures)
    folded = _folded(chosen, arguments)
    if folded is not None:
        return code.constant(folded)
    values = [argument.value for argument in arguments]
    expression = f"{code.name(chosen.call, 'call')}({', '.join(values)})"
    returned = {signature.returns.name for signature in signatures}
    kind = next((found for found in _CERTAIN if returned == {found}), "")
    conditions: dict[str, list[str]] = {}
    for signature in signatures:
        condition = _condition(signature, arguments)
        if condition is not None:
            conditions.setdefault(signature.inline.format(*values), []).append(condition)
            kind = kind or ("" if condition else signature.returns.name)
    for special, alternatives in reversed(conditions.items()):
        expression = special if "" in alternatives else f"{special} if {' or '.join(alternatives)} else {expression}"
    return code.assigned(expression, kind if kind in TYPES else "", can_fail="call" in expression)


def _folded(chosen: _Chosen, arguments: Sequence[TranslatedValue]) -> str | int | None:
    """Return the result of a call of constants, such as two texts that are joined, if it is short."""
    constants = [argument.constant for argument in arguments]
    if not constants or not all(type(constant) in _FOLDED for constant in constants):
        return None
    try:
        result = chosen.call(*constants)
    except CelError:  # which is an error whenever the expression is evaluated
        return None
    return result if type(result) in _FOLDED and len(str(result)) <= _MAX_FOLDED else None


def _condition(signature: Signature, arguments: Sequence[TranslatedValue]) -> str | None:
    """Return when the inline expression of an overload applies; empty: always, None: never, or it has none."""
    if not signature.inline:
        return None
    conditions = []
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
        kind = "string" if parameter.is_variable else parameter.name
        if argument.is_optional or argument.kind not in ("", kind):
            return None
        if not argument.kind:
            conditions.append(f"type({argument.text}) is {TYPES[kind]}")
    return " and ".join(conditions)


_MAX_DEPTH = 12
"""How deep blocks are in a function; Python allows 20 loops in each other. What is deeper becomes one of its own."""

_HASHED = ("bool", "double", "int", "string", "uint")

_SMALL = 16
"""Nodes of a branch of a condition that is no function of its own."""


def build(checked: Checked, variables: Mapping[str, Program] | None = None) -> Program:
    """Return the program of an expression; `variables` are the programs of `variables.<name>`."""
    variables = variables or {}
    function = _Function(checked, variables, checked.tree, {})
    program = Program(function, frozenset(_reads(checked, variables)), _constant(checked.tree))
    function.replace = program.use
    return program


def _reads(checked: Checked, variables: Mapping[str, Program]) -> Iterator[str]:
    """Yield the names of what an expression reads besides the variables of its macros."""
    waiting: list[tuple[Node, frozenset[str]]] = [(checked.tree, frozenset())]
    while waiting:
        node, scope = waiting.pop()
        name = node.name if isinstance(node, Identifier) else checked.names.get(id(node), "")
        program = _variable_of(node, variables, scope)
        if program is not None:
            yield from program.reads
        elif name and isinstance(node, Identifier | Select):
            plain = name.removeprefix(".")
            if (name != plain or plain not in scope) and plain not in TYPE_NAMES:
                yield plain
        elif isinstance(node, Fold):
            waiting.append((node.target, scope))
            waiting += ((body, scope | {*node.names}) for body in node.bodies)
        elif isinstance(node, Call) and name:
            waiting += ((argument, scope) for argument in node.arguments)
        else:
            waiting += ((child, scope) for child in children(node))


def _variable_of(node: Node, variables: Mapping[str, Program], scope: Container[str]) -> Program | None:
    """Return the program of `variables.name`, or None for another node."""
    match node:
        case Select(operand=Identifier(name="variables"), field=field) if "variables" not in scope:
            return variables.get(field)
        case Select(operand=Identifier(name=".variables"), field=field):
            return variables.get(field)
    return None


def _constant(node: Node) -> Any:
    """Return the value of a constant, or of a list of them; MISSING for other nodes."""
    match node:
        case Constant(kind=kind, value=value):
            return UInt(value) if kind == "uint" else value
        case ListLiteral(items=items, optional=()) if all(isinstance(item, Constant) for item in items):
            return [_constant(item) for item in items]
    return MISSING


def _is_literal(node: Node) -> bool:
    """Return whether a server looks something up in a node by its hash: a map, or a list of constants."""
    items = _constant(node)
    primitive = items is not MISSING and all(kind_of(item) in _HASHED for item in items)
    return primitive if isinstance(node, ListLiteral) else isinstance(node, MapLiteral)


def _nanoseconds(message: Mapping[str, int]) -> int:
    return message.get("seconds", 0) * 10**9 + message.get("nanos", 0)


_MADE_OF_MESSAGES: Mapping[str, Callable[[Mapping[str, int]], Duration | Timestamp]] = {
    "google.protobuf.Duration": lambda message: length(_nanoseconds(message)),
    "google.protobuf.Timestamp": lambda message: Timestamp(_nanoseconds(message)),
}


class _Function:
    """A node as a function, which is translated when it is first called: few branches of a policy are ever taken.

    `replace` is told the translated function, which takes the place of this one in its caller.
    """

    def __init__(
        self, checked: Checked, variables: Mapping[str, Program], node: Node, scope: Mapping[str, TranslatedValue]
    ) -> None:
        self._checked, self._variables, self._node, self._scope = checked, variables, node, scope
        self.replace: Callable[[Run], None]

    def __call__(self, *arguments: Any) -> Any:
        """Evaluate the node: for the environment, and the variables of macros in the order of the scope."""
        run = self._translated()
        self.replace(run)
        return run(*arguments)

    def _translated(self) -> Run:
        translation = Translation(self._checked, self._variables, self._scope)
        try:
            translation.code.line(f"return {translation.operand(self._node).value}")
            return translation.code.compiled(("env", *(operand.text for operand in self._scope.values())))
        except RecursionError:
            raise CelError(TOO_DEEP) from None


class Translation:
    """The body of a function on its way to Python. `scope` has the variables of macros."""

    def __init__(
        self, checked: Checked, variables: Mapping[str, Program], scope: Mapping[str, TranslatedValue]
    ) -> None:
        self._checked, self._variables = checked, variables
        self.code = FunctionBody()
        self.scope = scope

    def operand(self, node: Node) -> TranslatedValue:  # noqa: PLR0911 - one for each kind of node
        """Add the lines that evaluate a node, and return its value."""
        if self.code.depth > _MAX_DEPTH and not isinstance(node, Constant | Identifier):
            return self._called(node)
        constant = _constant(node)
        if constant is not MISSING:
            return self.code.constant(constant)
        match node:
            case Identifier(name=name):
                return self._name(name)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map([self.operand(key) for key in node.keys], node)
            case Message():
                found = self._map([self.code.constant(field) for field in node.fields], node)
                made = _MADE_OF_MESSAGES.get(node.name.removeprefix("."))
                return found if made is None else self.code.assigned(f"{self.code.name(made, 'f')}({found.text})")
            case Fold():
                return folds.translate(self, node)
        raise TypeError(f"{node} is not a node of an expression")

    def branch(self, node: Node, most: int = _SMALL) -> TranslatedValue:
        """Translate what is not always evaluated: what has more than `most` nodes as a function of its own."""
        is_small = sum(1 for _ in islice(walk(node), most + 1)) <= most
        return self.operand(node) if is_small else self._called(node)

    def _called(self, node: Node) -> TranslatedValue:
        """Translate a call of a function that evaluates a node, given the variables of macros that it reads."""
        names = {found.name for found in walk(node) if isinstance(found, Identifier)}
        taken = [name for name in self.scope if name in names]
        scope = {name: self.scope[name]._replace(text=f"taken{place}") for place, name in enumerate(taken)}
        function = _Function(self._checked, self._variables, node, scope)
        name = self.code.name(function, "function")
        function.replace = partial(self.code.rename, name)
        return self.code.assigned(f"{name}({', '.join(('env', *(self.scope[name].text for name in taken)))})")

    # --- names ----------------------------------------------------------------------------------------------

    def _name(self, name: str) -> TranslatedValue:
        if name in self.scope:
            return self.scope[name]
        plain = name.removeprefix(".")
        if plain in TYPE_NAMES:
            return self.code.constant(TypeValue(plain))
        if plain == "params":
            return self.code.assigned("env[0].params")
        found = self.code.assigned(f"env[0].values.get({plain!r}, MISSING)")
        self.code.line(f"if {found.text} is MISSING: raise env[0].missing({plain!r})")
        return found

    def _variable(self, program: Program) -> TranslatedValue:
        if program.constant is not MISSING:
            return self.code.constant(program.constant)
        return self.code.assigned(f"{self.code.name(program.value, 'variable')}(env[0])")

    def _select(self, node: Select) -> TranslatedValue:
        name = self._checked.names.get(id(node))
        if name is not None:
            return self._name(name)
        operand, field = node.operand, node.field
        program = _variable_of(node, self._variables, self.scope)
        if program is not None:
            found = self._variable(program)
            if node.is_test:
                return self.code.constant(value=True)
            return operators.optional_of(self.code, found) if node.is_optional else found
        value = self.operand(operand)
        if node.is_test:
            return operators.has(self.code, value, field)
        if node.is_optional or value.is_optional:
            return operators.find(self.code, value, field)
        return operators.select(self.code, value, field)

    # --- calls ----------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> TranslatedValue:
        name = self._checked.names.get(id(node), node.function.removeprefix("."))
        lazy = operators.LAZY.get(name)
        if lazy is not None:
            return lazy(self, node)
        if name == "@in" and _is_literal(node.arguments[1]):
            return self._in_literal(*node.arguments)
        arguments = [self.operand(argument) for argument in self._arguments(node)]
        special = operators.SPECIAL.get(name)
        if special is not None:
            return special(self.code, *arguments)
        return call(self.code, name, self._checked.overloads[id(node)], arguments)

    def _in_literal(self, item: Node, items: Node) -> TranslatedValue:
        found = self.operand(items)
        if found.constant == []:
            return self.code.constant(value=False)  # whatever the item is, which a server does not evaluate
        values = self.operand(item).value, found.value
        return self.code.assigned(f"{self.code.name(within_literal, 'within')}({', '.join(values)})", "bool")

    def _arguments(self, node: Call) -> tuple[Node, ...]:
        """Return the arguments of a call; the first of a member call is its target."""
        if node.target is None or id(node) in self._checked.names:
            return node.arguments
        return (node.target, *node.arguments)

    # --- literals -------------------------------------------------------------------------------------------

    def _list(self, node: ListLiteral) -> TranslatedValue:
        if not node.optional:
            items = [self.operand(item).value for item in node.items]
            return self.code.assigned(f"[{', '.join(items)}]", "list", can_fail=False)
        found = self.code.assigned("[]", "list", can_fail=False)
        for position, item in enumerate(node.items):
            with operators.entry(self.code, self.operand(item), is_optional=position in node.optional) as value:
                self.code.line(f"{found.text}.append({value})", can_fail=False)
        return found

    def _map(self, keys: list[TranslatedValue], node: MapLiteral | Message) -> TranslatedValue:
        found = self.code.assigned("{}", "map", can_fail=False)
        for position, (key, item) in enumerate(zip(keys, node.values, strict=True)):
            value = self.operand(item)
            if key.kind not in ("string", "int", "bool"):
                self.code.line(f"check_key({key.value})")
            with operators.entry(self.code, value, is_optional=position in node.optional) as text:
                self.code.line(f"{found.text}[{key.value}] = {text}", can_fail=False)
        return found
