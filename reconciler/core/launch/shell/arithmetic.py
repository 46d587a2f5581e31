"""Arithmetic of `$(( … ))`."""

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"[ \t\n]*(0[xX][0-9a-fA-F]+|[0-9]+|\$?\{?[A-Za-z_][A-Za-z0-9_]*\}?|\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>!])"
)
_PRECEDENCE = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "<<": 5, ">>": 5} | {
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
}
_SIGNED_64_BITS = 1 << 63
_MAX_TOKENS = 200
_MAX_SHIFT = 63


def evaluate_arithmetic(expression: str, variable: Callable[[str], str | None]) -> int | None:
    """Return the value; None where it is unknown or invalid. `variable` returns the text of a name."""
    tokens: list[str] = []
    position = 0
    text = expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or len(tokens) == _MAX_TOKENS:
            return None
        tokens.append(match[1])
        position = match.end()
    try:
        return _ArithmeticEvaluator(tokens, variable).result()
    except (ValueError, IndexError, ZeroDivisionError):
        return None


class _ArithmeticEvaluator:
    """Precedence climbing over the tokens. Raises ValueError for unknown operands."""

    def __init__(self, tokens: list[str], variable: Callable[[str], str | None]) -> None:
        self.tokens = tokens
        self.position = 0
        self.variable = variable

    def result(self) -> int:
        value = self._binary(1)
        if self.position != len(self.tokens):
            raise ValueError(self.tokens[self.position])
        return value

    def _binary(self, lowest: int) -> int:
        left = self._unary()
        while self.position < len(self.tokens):
            operator = self.tokens[self.position]
            precedence = _PRECEDENCE.get(operator, 0)
            if precedence < lowest:
                break
            self.position += 1
            left = _wrap(_apply(operator, left, self._binary(precedence + 1)))
        return left

    def _unary(self) -> int:
        token = self.tokens[self.position]
        self.position += 1
        if token == "-":  # noqa: S105 - an operator
            return _wrap(-self._unary())
        if token == "+":  # noqa: S105 - an operator
            return self._unary()
        if token == "!":  # noqa: S105 - an operator
            return int(not self._unary())
        if token == "(":  # noqa: S105 - an operator
            value = self._binary(1)
            if self.tokens[self.position] != ")":
                raise ValueError(token)
            self.position += 1
            return value
        return _wrap(self._number(token))

    def _number(self, token: str) -> int:
        if token[0].isdigit():
            return _constant(token)
        text = self.variable(token.strip("${}"))
        if text is None:
            raise ValueError(token)
        text = text.strip()
        return _constant(text.lstrip("-")) * (-1 if text.startswith("-") else 1) if text else 0


def _constant(text: str) -> int:
    if not text.isascii() or not text.isalnum() or len(text) > len(str(_SIGNED_64_BITS)):
        raise ValueError(text)
    if text[:2] in {"0x", "0X"}:
        return int(text, 16)
    return int(text, 8) if text.startswith("0") else int(text)


def _apply(operator: str, left: int, right: int) -> int:
    if operator in {"/", "%"}:
        # The shell rounds towards zero, Python downwards.
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator in {"<<", ">>"}:
        if not 0 <= right <= _MAX_SHIFT:
            raise ValueError(operator)
        return left << right if operator == "<<" else left >> right
    return _SIMPLE[operator](left, right)


_SIMPLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "<": lambda left, right: int(left < right),
    "<=": lambda left, right: int(left <= right),
    ">": lambda left, right: int(left > right),
    ">=": lambda left, right: int(left >= right),
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "&&": lambda left, right: int(bool(left and right)),
    "||": lambda left, right: int(bool(left or right)),
}


def _wrap(value: int) -> int:
    """Keep 64 bits, as the shell does."""
    return (value + _SIGNED_64_BITS) % (2 * _SIGNED_64_BITS) - _SIGNED_64_BITS
