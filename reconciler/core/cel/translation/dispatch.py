"""Calls of functions: the overload is chosen by the values, among those that the checker left."""

from collections.abc import Callable, Sequence
from typing import Any

from reconciler.core.cel.library import Signature
from reconciler.core.cel.translation.code import TYPES, FunctionBody, TranslatedValue
from reconciler.core.cel.types import CelType
from reconciler.core.cel.values import CelError, Opaque, kind_of

_CERTAIN = ("bool", "string")
"""The types of results that functions keep to. A number can be of another type where items of lists are mixed."""
_FOLDED, _LONGEST_FOLDED = (str, int, bool), 10_000


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
    """Whether a parameter takes only lists of certain items."""
    lists = (parameter for parameter in signature.parameters if parameter.name == "list")
    return any(not _takes_all(one.parameters[0]) for one in lists)


def _takes_all(parameter: CelType) -> bool:
    return parameter.is_variable or parameter.name == "dyn"


def _takes(parameter: CelType, value: Any) -> bool:
    """Whether a parameter takes a value; of a list, the first item decides, as on a server."""
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
    return result if type(result) in _FOLDED and len(str(result)) <= _LONGEST_FOLDED else None


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
