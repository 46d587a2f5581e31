"""Compose expressions and the variables they need into one program, rewrite it for the engine, and evaluate it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.core.policy.cel import environment, tokens
from reconciler.core.policy.cel.environment import readable
from reconciler.core.policy.cel.tokens import CelCall, Token
from reconciler.errors import one_line

_LIVE = ("authorizer", "request.userInfo", "request.options", "request")
"""Values that only a live API server knows; `request` by itself is the whole request."""
_MARK = "live_"
_NO_MEMORY = "std::bad_alloc"
_MOST_JOINED = 14
"""Variables of several clauses in one program: each is a level of nesting, of which the engine takes 32 in all."""


class EvaluationError(Exception):
    """An expression could not be evaluated. `unanswerable` names the value that is unknown offline, if any."""

    def __init__(self, message: str, *, unanswerable: str = "") -> None:
        super().__init__(message)
        self.unanswerable = unanswerable


class CelProgram(Struct, frozen=True, kw_only=True, eq=False):
    """A composed expression. `reads` are the variables that it may read."""

    expression: Any
    reads: frozenset[str]

    def evaluate(self, activation: Any) -> Any:
        """Return a bool, a string or None. Raises EvaluationError for an error or any other type, and MemoryError."""
        try:
            value = self.expression.eval(activation)
            kind = value.type().name()
            if kind in ("BOOL", "STRING", "NULL"):
                return value.value()
            text = str(value.value()) if kind == "ERROR" else f"the result is {kind.lower()}, not bool or string"
        except TypeError:  # the binding has no Python value for optionals and other abstract types
            text = "the result is neither bool nor string"
        except (RuntimeError, ValueError) as error:
            text = str(error)
        raise _error(text)


def _error(text: str) -> EvaluationError:
    """Convert an error of the engine; a missing variable may be a value that is unknown offline."""
    if readable(text) == _NO_MEMORY:  # of an expression that a function evaluates
        raise MemoryError
    if '"namespaceObject" found' in text:
        message = "the Namespace object is not in the repository"
        return EvaluationError(message, unanswerable="namespaceObject")
    for live in _LIVE:
        if f'"{_mark(live)}"' in text:
            return EvaluationError(f"only a live API server knows `{live}`", unanswerable=live)
    return EvaluationError(one_line(readable(text)))


def _mark(live: str) -> str:
    """Return the name of a variable that is never set."""
    return _MARK + live.replace(".", "_")


class Clause(Struct, frozen=True, kw_only=True):
    """A bool expression, the variables that it may use, in order, and names (`params`) with their new names."""

    expression: str
    variables: tuple[tuple[str, str], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()


def compose(clauses: Sequence[Clause]) -> CelProgram:
    """Join clauses with `&&` and bind the variables that they need, each distinct one once.

    As in Kubernetes, a variable is evaluated once, on first use. Raises RuntimeError if the engine rejects the
    program, and before that if several clauses need too many variables.
    """
    bound: dict[str, str] = {}  # text of a variable: its name in the program
    bodies = []
    reads: set[str] = set()

    def write(prepared: list[Token]) -> str:
        reads.update(token.text for token in prepared if token.kind in ("name", "native"))
        return tokens.write(prepared)

    for clause in clauses:
        named: dict[tuple[str, str], str] = {}
        needed = _needed(clause.expression, dict(clause.variables))
        for name, source in clause.variables:
            if name in needed:
                text = write(_prepare(source, dict(clause.renamed), named))
                constant = text if _is_constant(source) else ""  # each bound variable is a level of nesting
                named["variables", name] = constant or bound.setdefault(text, f"k8s_v{len(bound)}")
        bodies.append(write(_prepare(clause.expression, dict(clause.renamed), named)))
    if len(clauses) > 1 and len(bound) > _MOST_JOINED:
        raise RuntimeError(f"{len(bound)} variables are too many for one program")
    text = bodies[0] if len(bodies) == 1 else " && ".join(f"({body})" for body in bodies)
    for source, name in reversed(bound.items()):
        text = f"cel.bind({name}, {source}, {text})"
    return CelProgram(expression=environment.parse(text), reads=frozenset(reads))


def _is_constant(expression: str) -> bool:
    parts = tokens.tokens(expression)
    return len(parts) == 1 and parts[0].kind in ("string", "number")


def _needed(expression: str, variables: Mapping[str, str]) -> set[str]:
    """Return the variables that an expression uses, directly or through other variables."""
    needed: set[str] = set()
    pending = [expression]
    while pending:
        for name in tokens.fields(tokens.tokens(pending.pop()), "variables"):
            if name in variables and name not in needed:
                needed.add(name)
                pending.append(variables[name])
    return needed


def _prepare(expression: str, renamed: Mapping[str, str], variables: Mapping[tuple[str, str], str]) -> list[Token]:
    """Rename identifiers, mark values that are unknown offline, and rewrite functions that the engine lacks."""
    parts = tokens.tokens(expression)
    selected = {("request", field): f"{_mark(f'request.{field}')}.value" for field in ("userInfo", "options")}
    plain = {"authorizer": _mark("authorizer")}
    if "" in tokens.fields(parts, "request"):
        plain["request"] = _mark("request")
    parts = tokens.rename(parts, {**renamed, **plain}, {**selected, **variables})
    while call := tokens.find_call(parts, _TEMPLATES):
        parts = [*parts[: call.start], *_rewrite(parts, call), *parts[call.end :]]
    return parts


def _rewrite(parts: list[Token], call: CelCall) -> list[Token]:
    """Rewrite a call with functions of the engine; names marked NATIVE are not rewritten again."""
    receiver, arguments = parts[call.start : call.dot], parts[call.opener + 1 : call.end - 1]
    template = _TEMPLATES[call.name]
    if call.name in (".indexOf", ".lastIndexOf") and _has_two(arguments):
        template = f"RECEIVER.{call.name[1:]}_NATIVE(ARGUMENTS)"  # an offset, which only strings take
    result: list[Token] = []
    for part in tokens.tokens(template):
        if part.text == "RECEIVER":
            result.extend(receiver)
        elif part.text == "ARGUMENTS":
            result.extend(arguments)
        else:
            name = part.text.removesuffix("_NATIVE")
            result.append(Token("native", name) if name != part.text else part)
    return result


def _has_two(arguments: list[Token]) -> bool:
    depth = 0
    for part in arguments:
        depth += part.text in ("(", "[", "{")
        depth -= part.text in (")", "]", "}")
        if part.text == "," and depth == 0:
            return True
    return False


def _position(name: str, which: str) -> str:
    return (
        f"cel.bind(k8s_list, RECEIVER, type(k8s_list) == string ? k8s_list.{name}_NATIVE(ARGUMENTS) : "
        f"k8s_list.transformList(k8s_index, k8s_item, k8s_item == (ARGUMENTS), k8s_index).{which}().orValue(-1))"
    )


_TEMPLATES = {
    ".isSorted": "cel.bind(k8s_list, RECEIVER, k8s_list.sort() == k8s_list)",
    # Calling into Python costs more than the rest of a typical rule, and most sums have one term.
    ".sum": (
        "cel.bind(k8s_list, RECEIVER.map(k8s_item, type(k8s_item) in [int, uint, double] ? k8s_item : "
        "k8s_not_a_number()), k8s_list.size() == 0 ? 0 : k8s_list.size() == 1 ? k8s_list[0] : "
        "k8s_sum(k8s_list))"
    ),
    ".min": "RECEIVER.sort().first().value()",
    ".max": "RECEIVER.sort().last().value()",
    ".indexOf": _position("indexOf", "first"),
    ".lastIndexOf": _position("lastIndexOf", "last"),
    ".validate": "optional.ofNonZeroValue(RECEIVER.validate_NATIVE(ARGUMENTS))",
    "format.named": "optional.ofNonZeroValue(format.named_NATIVE(ARGUMENTS))",
    "lists.range": "k8s_range(ARGUMENTS)",
}


_Encoded = tuple[frozenset[str], bytes, str]
"""The variables that a program may read, its serialized form, and why the engine rejects it (empty: it does not)."""


class ProgramCache:
    """Composes each program once, and remembers rejected ones. `made` are the new ones, encoded for a later run."""

    def __init__(self) -> None:
        self.made: dict[str, bytes] = {}
        self._known: Mapping[str, bytes] = {}
        self._composed: dict[str, CelProgram | str] = {}

    def recall(self, known: Mapping[str, bytes]) -> None:
        """Use the `made` of an earlier run of the same engine."""
        self._known = known

    def add(self, made: Mapping[str, bytes]) -> None:
        """Use what another process has made."""
        self.made.update(made)
        self._known = {**self._known, **made}

    def compose(self, clauses: Sequence[Clause]) -> CelProgram:
        """Return the program of these clauses. Raises RuntimeError if the engine rejects it."""
        key = sha256(repr(clauses).encode()).hexdigest()
        program = self._composed.get(key) or self._decode(key)
        if program is None:
            program, self.made[key] = _composed(tuple(clauses))
        self._composed[key] = program
        if isinstance(program, CelProgram):
            return program
        raise RuntimeError(program)

    def _decode(self, key: str) -> CelProgram | str | None:
        raw = self._known.get(key)
        if raw is None:
            return None
        try:
            reads, form, rejection = _decoder.decode(raw)
            return rejection or CelProgram(expression=environment.deserialize(form), reads=reads)
        except (msgspec.MsgspecError, RuntimeError, ValueError):
            return None


@lru_cache(maxsize=512)
def _composed(clauses: tuple[Clause, ...]) -> tuple[CelProgram | str, bytes]:
    """Return a program, or why the engine rejects it, and the encoded form of either."""
    try:
        program = compose(clauses)
    except RuntimeError as error:
        rejection = str(error) or "rejected"
        return rejection, _encoder.encode((frozenset(), b"", rejection))
    return program, _encoder.encode((program.reads, program.expression.serialize(), ""))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Encoded)
