"""Flux's variable substitution (`postBuild.substitute`): `${NAME}` with defaults and changes of the value.

Flux uses its fork of drone/envsubst, version 1.5.0 (github.com/fluxcd/pkg/envsubst): this follows its `parse` and
`funcs.go`. A name without a value and a default is empty there; here it is reported.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from reconciler.kube.patterns import later

_START = later(r"\$\$|\$\{")
_NAME = later(r"\w+")
SWITCH = "kustomize.toolkit.fluxcd.io/substitute"
"""The label or annotation of an object; with the value `disabled` nothing is substituted in it."""


class Substitution:
    """Substitutes variables, and remembers what it could not: names without a value, and expressions."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = {name: value.replace("\n", "") for name, value in variables.items()}  # as Flux does
        self.unknown: dict[str, None] = {}
        self.refused: dict[str, None] = {}

    def apply(self, text: str) -> str:
        """Return a text with its variables replaced. `$${NAME}` becomes `${NAME}`."""
        parts, position = [], 0
        while start := _START.search(text, position):
            parts.append(text[position : start.start()])
            if start[0] == "$$":
                parts.append("$")
                position = start.end()
                continue
            end = _end(text, start.end())
            expression = text[start.end() : end]
            value = self._expand(expression) if end < len(text) else None
            if value is None:
                self.refused[f"${{{expression[:40]}}}"] = None
            parts.append(value or "")
            position = end + 1
        return "".join((*parts, text[position:]))

    def _expand(self, expression: str) -> str | None:
        """Return the value of what stands between the braces; None where Flux refuses it."""
        if expression.startswith("#") and _NAME.fullmatch(expression, 1):
            return str(len(self._value(expression[1:]).encode()))
        name = _NAME.match(expression)
        if name is None:
            return None
        rest = expression[name.end() :]
        for sign in (":=", ":-", ":?", ":+", "="):  # all mean the default there
            if rest.startswith(sign):
                return self._variables.get(name[0]) or self.apply(rest[len(sign) :])
        return _changed(rest, self._value(name[0]))

    def _value(self, name: str) -> str:
        if name not in self._variables:
            self.unknown[name] = None
        return self._variables.get(name, "")


def _end(text: str, start: int) -> int:
    """Return the position of the brace that closes an expression, or the end of the text."""
    depth = 1
    for position in range(start, len(text)):
        if text.startswith("${", position):
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if not depth:
                return position
    return len(text)


_CASES: Mapping[str, Callable[[str], str]] = {
    "": str,
    "^^": str.upper,
    ",,": str.lower,
    "^": lambda text: text[:1].upper() + text[1:],
    ",": lambda text: text[:1].lower() + text[1:],
}


def _changed(rest: str, value: str) -> str | None:
    """Return a value as what follows the name changes it; None where Flux refuses it."""
    if rest in _CASES:
        return _CASES[rest](value)
    if rest[0] == ":":
        start, _, length = rest[1:].partition(":")
        end = int(start) + int(length) if start.isdigit() and length.isdigit() else None
        return value[int(start) : end] if start.isdigit() else value
    if rest[0] == "/" and rest.count("/", 1 if rest[1:2] != "/" else 2) == 1:
        return _replaced(rest[1:], value)
    if rest[0] in "#%":
        return _trimmed(rest, value)
    return None


def _replaced(rest: str, value: str) -> str:
    sign = rest[0] if rest[0] in "/#%" else ""
    old, _, new = rest[len(sign) :].partition("/")
    if sign == "/":
        return value.replace(old, new)
    if sign == "#":
        return new + value.removeprefix(old) if value.startswith(old) else value
    if sign == "%":
        return value.removesuffix(old) + new if value.endswith(old) else value
    return value.replace(old, new, 1)


def _trimmed(rest: str, value: str) -> str:
    """Return the value without the shortest (one sign) or longest (two signs) match at its start or end."""
    sign = rest[0]
    pattern = rest.lstrip(sign) if rest[1:2] == sign else rest[1:]
    lengths = range(len(value) + 1)
    for length in reversed(lengths) if rest[1:2] == sign else lengths:
        head, tail = (
            (value[:length], value[length:])
            if sign == "#"
            else (value[len(value) - length :], value[: len(value) - length])
        )
        if fnmatchcase(head, pattern):
            return tail
    return value
