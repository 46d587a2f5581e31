"""Fields, items, and the operators that do not evaluate all their operands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from reconciler.kube.cel.syntax import Call, Node
from reconciler.kube.cel.translation.code import FunctionBody, TranslatedValue, Translator, unless

_COMPARED = ("string", "int", "bool")
"""Types whose values are equal if Python says so."""


# --- fields and items -----------------------------------------------------------------------------------------------


def select(code: FunctionBody, value: TranslatedValue, field: str) -> TranslatedValue:
    """Translate `value.field`."""
    text, general = value.text, f"select({value.value}, {field!r})"
    if value.kind == "map":
        return code.assigned(f"{text}[{field!r}] if {field!r} in {text} else {general}")
    return code.assigned(f"{text}[{field!r}] if type({text}) is dict and {field!r} in {text} else {general}")


def find(code: FunctionBody, value: TranslatedValue, field: str) -> TranslatedValue:
    """Translate `value.?field`."""
    expression = unless(value, "map", f"{value.text}.get({field!r}, MISSING)", f"find({value.text}, {field!r})")
    return code.assigned(expression, is_optional=True)


def has(code: FunctionBody, value: TranslatedValue, field: str) -> TranslatedValue:
    """Translate `has(value.field)`."""
    return code.assigned(unless(value, "map", f"{field!r} in {value.text}", f"has({value.value}, {field!r})"), "bool")


def _index(code: FunctionBody, value: TranslatedValue, key: TranslatedValue) -> TranslatedValue:
    if value.is_optional:
        return _find_item(code, value, key)
    text, at = value.text, key.text
    conditions = {
        "string": f"type({text}) is dict and {at} in {text}",
        "int": f"type({text}) is list and 0 <= {at} < len({text})",
        "": f"type({text}) is dict and type({at}) is str and {at} in {text}",
    }
    if value.kind == "list":
        conditions["int"] = f"0 <= {at} < len({text})"
    general = f"index({text}, {key.value})"
    condition = None if key.is_optional else conditions.get(key.kind)
    return code.assigned(f"{text}[{at}] if {condition} else {general}" if condition else general)


def _find_item(code: FunctionBody, value: TranslatedValue, key: TranslatedValue) -> TranslatedValue:
    general = f"find_item({value.text}, {key.value})"
    if key.kind == "string":
        general = unless(value, "map", f"{value.text}.get({key.text}, MISSING)", general)
    return code.assigned(general, is_optional=True)


def _equals(code: FunctionBody, one: TranslatedValue, other: TranslatedValue) -> TranslatedValue:
    first, second = one.value, other.value
    general = f"equal({first}, {second})"
    kinds = {operand.kind for operand in (one, other)}
    if not (one.is_optional or other.is_optional) and kinds <= {"", *_COMPARED}:
        quick = f"{first} == {second}"
        if one.kind:
            general = unless(other, one.kind, quick, general)
        elif other.kind:
            general = unless(one, other.kind, quick, general)
        else:
            general = f"{quick} if type({first}) is str and type({second}) is str else {general}"
    return code.assigned(general, "bool", can_fail=False)


def _differs(code: FunctionBody, one: TranslatedValue, other: TranslatedValue) -> TranslatedValue:
    return code.assigned(f"not {_equals(code, one, other).text}", "bool", can_fail=False)


# --- optional values ------------------------------------------------------------------------------------------------


def optional_of(code: FunctionBody, value: TranslatedValue) -> TranslatedValue:
    """Translate `optional.of(value)`."""
    return code.assigned(value.value, is_optional=True, can_fail=False)


def unwrapped(code: FunctionBody, value: TranslatedValue, function: str = "") -> TranslatedValue:
    """Return an optional value as a variable that has what is in it, or MISSING. `function` is named in the error."""
    if value.is_optional:
        return value
    return code.assigned(f"unwrap({value.text}, {function!r})", is_optional=True)


def _has_value(code: FunctionBody, value: TranslatedValue) -> TranslatedValue:
    return code.assigned(f"{unwrapped(code, value, 'hasValue').text} is not MISSING", "bool", can_fail=False)


def _or_value(translation: Translator, node: Call) -> TranslatedValue:
    """Translate `target.orValue(otherwise)`."""
    code = translation.code
    target = unwrapped(code, _target(translation, node), "orValue")
    with code.block(f"if {target.text} is MISSING:"):
        code.line(f"{target.text} = {translation.branch(node.arguments[0]).value}", can_fail=False)
    return TranslatedValue(target.text)


def _or(translation: Translator, node: Call) -> TranslatedValue:
    """Translate `target.or(otherwise)`."""
    code = translation.code
    given = _target(translation, node)
    target = unwrapped(code, given, "or")
    result = code.assigned(given.value, can_fail=False)
    with code.block(f"if {target.text} is MISSING:"):
        code.line(f"{result.text} = {translation.branch(node.arguments[0]).value}", can_fail=False)
    return result


def _target(translation: Translator, node: Call) -> TranslatedValue:
    if node.target is None:
        raise TypeError(f"{node.function} is not a global function")
    return translation.operand(node.target)


@contextmanager
def entry(code: FunctionBody, value: TranslatedValue, *, is_optional: bool) -> Iterator[str]:
    """Yield what to add to a list or a map. Lines in this context are for entries that have a value."""
    if not is_optional:
        yield value.value
    elif value.is_optional:
        with code.block(f"if {value.text} is not MISSING:"):
            yield value.text
    else:
        with code.block(f"if present({value.text}):"):
            yield f"{value.text}.value"


# --- operators that do not evaluate all operands --------------------------------------------------------------------


def _terms(node: Node, function: str) -> list[Node]:
    """Return the operands of operators of one kind within each other, in order."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Call) and one.function == function:
            waiting.extend(reversed(one.arguments))
        else:
            found.append(one)
    return found


def _logical(translation: Translator, node: Call) -> TranslatedValue:
    """Translate `&&` and `||`: an operand that decides outweighs errors of others."""
    code = translation.code
    decisive = node.function == "_||_"
    result, failure = code.assigned(repr(decisive), "bool", can_fail=False), code.assigned("None", can_fail=False)
    fails = False
    with code.block("while True:"):
        for term in _terms(node, node.function):
            add = partial(_decide, translation, term, failure, decisive=decisive)
            fails |= code.attempt(failure, add)
        if fails:
            code.line(f"if {failure.text} is not None: raise {failure.text}")
        code.line(f"{result.text} = {not decisive}", can_fail=False)
        code.line("break", can_fail=False)
    return result


def _decide(translation: Translator, node: Node, failure: TranslatedValue, *, decisive: bool) -> None:
    decide(translation.code, translation.branch(node), failure, decisive=decisive)


def decide(code: FunctionBody, value: TranslatedValue, failure: TranslatedValue, *, decisive: bool) -> None:
    """Leave the loop if a value decides; one that is no bool is a failure."""
    code.line(f"if {value.value} is {decisive}: break", can_fail=False)
    if value.kind != "bool":
        code.line(f"if {value.value} is not {not decisive}: {failure.text} = {failure.text} or no_overload()")


def _conditional(translation: Translator, node: Call) -> TranslatedValue:
    """Translate `condition ? chosen : otherwise`, where `otherwise` can be another one."""
    code = translation.code
    result, otherwise = code.new(), node
    with code.block("while True:"):
        while True:
            condition, chosen, rest = otherwise.arguments
            value = translation.operand(condition)
            with code.block(f"if {value.value} is True:"):
                branch = translation.branch(chosen)
                code.line(f"{result} = {branch.value}", can_fail=False)
                code.line("break", can_fail=False)
            if value.kind != "bool":
                code.line(f"if {value.value} is not False: raise no_overload()")
            if not (isinstance(rest, Call) and rest.function == "_?_:_"):
                break
            otherwise = rest
        branch = translation.branch(rest)
        code.line(f"{result} = {branch.value}", can_fail=False)
        code.line("break", can_fail=False)
    return TranslatedValue(result)


LAZY: dict[str, Callable[[Translator, Call], TranslatedValue]] = {
    "_&&_": _logical,
    "_||_": _logical,
    "_?_:_": _conditional,
    "orValue": _or_value,
    "or": _or,
}
"""Operators that do not evaluate all their operands."""
SPECIAL: dict[str, Callable[..., TranslatedValue]] = {
    "_==_": _equals,
    "_!=_": _differs,
    "_[_]": _index,
    "_[?_]": _find_item,
    "hasValue": _has_value,
    "dyn": lambda _, value: value,
}
"""Functions with rules of their own."""
