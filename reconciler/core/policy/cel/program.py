"""Composing: one expression with the variables it needs bound around it, rewritten for the engine, and evaluated."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from reconciler.core.policy.cel import names, runtime
from reconciler.core.policy.cel.checker import readable
from reconciler.core.policy.cel.names import Call, Token

_LIVE = ("authorizer", "request.userInfo", "request.options", "request")
"""What only a live API server knows; `request` stands for itself where it is passed on as a whole."""
_MARK = "live_"


class EvaluationError(Exception):
    """An expression gave no answer. `unanswerable` names what cannot be known offline, where that was the cause."""

    def __init__(self, message: str, *, unanswerable: str = "") -> None:
        super().__init__(message)
        self.unanswerable = unanswerable


class Program(Struct, frozen=True, kw_only=True, eq=False):
    """A composed expression. `reads` are the activation's names that it may read."""

    expression: Any
    reads: frozenset[str]

    def evaluate(self, activation: Any) -> Any:
        """Return a bool, a string or None; EvaluationError for an error or a value of any other type."""
        try:
            value = self.expression.eval(activation)
            kind = value.type().name()
            if kind in ("BOOL", "STRING", "NULL"):
                return value.value()
            text = str(value.value()) if kind == "ERROR" else f"the result is {kind.lower()}, not bool or string"
        except TypeError:  # the binding has no Python value for optionals and other abstract types
            text = "the result is neither bool nor string"
        except (RuntimeError, ValueError, MemoryError) as error:
            text = str(error)
        raise _error(text)


def _error(text: str) -> EvaluationError:
    """Name what cannot be known offline, where the missing value is one of our marks."""
    if '"namespaceObject" found' in text:
        message = "the Namespace object is not in the repository"
        return EvaluationError(message, unanswerable="namespaceObject")
    for live in _LIVE:
        if f'"{_mark(live)}"' in text:
            return EvaluationError(f"`{live}` is known to a live API server only", unanswerable=live)
    return EvaluationError(readable(text))


def _mark(live: str) -> str:
    """Return a name that no activation has."""
    return _MARK + live.replace(".", "_")


class Part(Struct, frozen=True, kw_only=True):
    """A bool expression, the variables it may refer to, in order, and free names to rename (`params`)."""

    expression: str
    variables: Sequence[tuple[str, str]] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)


def compose(parts: Sequence[Part]) -> Program:
    """Join parts by `&&` and bind the variables they need around them, each distinct one once.

    A bound variable is evaluated when it is first read and once, as Kubernetes does. RuntimeError where the engine
    refuses the text.
    """
    bound: dict[str, str] = {}  # text of a variable: its name in the program
    bodies = []
    reads: set[str] = set()

    def written(prepared: list[Token]) -> str:
        reads.update(token.text for token in prepared if token.kind in ("name", "native"))
        return names.write(prepared)

    for part in parts:
        named: dict[tuple[str, str], str] = {}
        needed = _needed(part.expression, dict(part.variables))
        for name, source in part.variables:
            if name in needed:
                text = written(_prepare(source, part.renamed, named))
                named["variables", name] = bound.setdefault(text, f"k8s_v{len(bound)}")
        bodies.append(written(_prepare(part.expression, part.renamed, named)))
    text = bodies[0] if len(bodies) == 1 else " && ".join(f"({body})" for body in bodies)
    for source, name in reversed(bound.items()):
        text = f"cel.bind({name}, {source}, {text})"
    return Program(expression=runtime.parse(text), reads=frozenset(reads))


def _needed(expression: str, variables: Mapping[str, str]) -> set[str]:
    """Variables that an expression refers to, directly or through other variables."""
    found: set[str] = set()
    waiting = [expression]
    while waiting:
        for name in names.fields(names.tokens(waiting.pop()), "variables"):
            if name in variables and name not in found:
                found.add(name)
                waiting.append(variables[name])
    return found


def _prepare(expression: str, renamed: Mapping[str, str], variables: Mapping[tuple[str, str], str]) -> list[Token]:
    """Rename, mark what cannot be answered, and rewrite functions that the engine runs in another form."""
    parts = names.tokens(expression)
    selected = {("request", field): f"{_mark(f'request.{field}')}.value" for field in ("userInfo", "options")}
    plain = {"authorizer": _mark("authorizer")}
    if "" in names.fields(parts, "request"):
        plain["request"] = _mark("request")
    parts = names.rename(parts, {**renamed, **plain}, {**selected, **variables})
    while call := names.find_call(parts, _TEMPLATES):
        parts = [*parts[: call.start], *_rewrite(parts, call), *parts[call.end :]]
    return parts


def _rewrite(parts: list[Token], call: Call) -> list[Token]:
    """Write a call as functions of the engine; a name marked native is not looked at again."""
    receiver, arguments = parts[call.start : call.dot], parts[call.opener + 1 : call.end - 1]
    template = _TEMPLATES[call.name]
    if call.name in (".indexOf", ".lastIndexOf") and _has_two(arguments):
        template = f"RECEIVER.{call.name[1:]}_NATIVE(ARGUMENTS)"  # an offset, which only strings take
    result: list[Token] = []
    for part in names.tokens(template):
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
