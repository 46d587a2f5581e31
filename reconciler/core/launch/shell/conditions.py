"""Evaluates conditions whose operands are known: `[ "$A" = 1 ]`, `[[ -n $B ]]`, `true`."""

import re
from collections.abc import Callable

from reconciler.core.launch.shell.ast import ConditionalExpression, Node, Pipeline, Script, SimpleCommand, Word
from reconciler.core.launch.shell.expansion import UNKNOWN, Expander

_TESTS = frozenset({"[", "test", "true", ":", "false"})
_UNARY: dict[str, Callable[[str], bool]] = {"-z": lambda text: not text, "-n": bool}
_STRINGS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")  # with a leading zero, `[` and `[[` disagree
_PATTERN = re.compile(r"[*?\[\\]")
_BINARY_WORDS = 3


def evaluate_condition(condition: Script, expander: Expander) -> bool | None:
    """Return the result of a condition, or of the left side of `&&`; None where it is only known at run time."""
    return _evaluate(condition[0], expander) if len(condition) == 1 else None


def _evaluate(node: Node, expander: Expander) -> bool | None:  # noqa: PLR0911 - one line for each form
    if isinstance(node, Pipeline) and len(node.parts) == 1:
        result = _evaluate(node.parts[0], expander)
        return None if result is None else not result
    if isinstance(node, ConditionalExpression):
        words = [_expand_unsplit(word, expander) for word in node.words]
        known = [word for word in words if word is not None]
        return _test(known, patterns=True) if len(known) == len(words) else None
    # Other commands are not expanded here: `${NAME:=default}` would be set too early.
    if not isinstance(node, SimpleCommand) or node.assignments or not node.words or node.words[0].text not in _TESTS:
        return None
    fields = [field for word in node.words for field in expander.fields(word)]
    if not fields or any(UNKNOWN in field.text for field in fields):
        return None
    name, *rest = (field.text for field in fields)
    if name in {"true", ":", "false"}:
        return name != "false"
    if name == "[" and rest[-1:] == ["]"]:
        return _test(rest[:-1], patterns=False)
    return _test(rest, patterns=False) if name == "test" else None


def _expand_unsplit(word: Word, expander: Expander) -> str | None:
    """Expand a word of `[[ … ]]` without splitting; None where it is unknown."""
    text = expander.scalar(word).text
    return None if UNKNOWN in text else text


def _test(words: list[str], *, patterns: bool) -> bool | None:  # noqa: PLR0911 - one line for each form
    negations = 0
    while negations < len(words) - 1 and words[negations] == "!":
        negations += 1
    if negations:
        result = _test(words[negations:], patterns=patterns)
        return None if result is None else result is (negations % 2 == 0)
    if len(words) < 2:  # noqa: PLR2004 - one word is true unless it is empty
        return bool(words and words[0])
    if len(words) == 2:  # noqa: PLR2004 - an operator and its word
        return _UNARY[words[0]](words[1]) if words[0] in _UNARY else None
    if len(words) != _BINARY_WORDS:
        return None
    left, operator, right = words
    if operator in _STRINGS and not (patterns and _PATTERN.search(right)):
        return _STRINGS[operator](left, right)
    if operator in _NUMBERS and _WHOLE.fullmatch(left) and _WHOLE.fullmatch(right):
        return _NUMBERS[operator](int(left), int(right))
    return None
