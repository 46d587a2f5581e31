"""`format`: `'%s has %.1f'.format([...])`, with numbers as in American English."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from reconciler.kube.cel.library.conversions import double_text, duration_text
from reconciler.kube.cel.library.times import timestamp_text
from reconciler.kube.cel.values import INT64, CelError, kind_of
from reconciler.kube.patterns import later

_CLAUSE = later(r"(?:\.([0-9]*))?([\s\S])")
_PRECISION, _MAX_PRECISION, _MAX_DIGITS = 6, 1000, 64
_TIMES = "\u00d7"
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_TAKES: dict[str, tuple[str, ...]] = {
    "s": ("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type",
          "null_type"),
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "X": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
}  # fmt: skip
"""The types that a clause takes."""


class Clause(NamedTuple):
    """`%.2f`, or the text between two clauses."""

    text: str
    verb: str = ""
    precision: int = _PRECISION


def clauses(shape: str) -> Iterator[Clause]:
    """Yield the parts of a format string. Raises CelError."""
    position = 0
    while position < len(shape):
        mark = shape.find("%", position)
        if mark < 0:
            yield Clause(shape[position:])
            return
        if mark > position:
            yield Clause(shape[position:mark])
        if shape[mark + 1 : mark + 2] == "%":
            yield Clause("%")
            position = mark + 2
            continue
        match = _CLAUSE.match(shape, mark + 1)
        if match is None:
            raise CelError("unexpected end of string")
        if match[2] not in _TAKES:
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{match[2]}"')
        yield Clause("", match[2], _precision(match[1]))
        position = match.end()


def _precision(digits: str | None) -> int:
    if digits is None:
        return _PRECISION
    if not digits or len(digits) > _MAX_DIGITS or int(digits) not in INT64:
        raise CelError(f"error while parsing precision: {digits[:80]!r} is no number of 64 bits")
    return int(digits)


def takes(verb: str, kind: str) -> bool:
    """Return whether a clause takes values of a type."""
    return kind in _TAKES[verb]


def format_text(shape: str, arguments: list[Any]) -> str:
    """Return the text with its clauses replaced by the arguments. Raises CelError."""
    parts = []
    used = 0
    for clause in clauses(shape):
        if not clause.verb:
            parts.append(clause.text)
            continue
        if used >= len(arguments):
            raise CelError(f"index {used} out of range")
        parts.append(_formatted(clause, arguments[used]))
        used += 1
    return "".join(parts)


def _formatted(clause: Clause, value: Any) -> str:
    kind = kind_of(value)
    if clause.precision > _MAX_PRECISION or not takes(clause.verb, kind):
        raise CelError(f"error during formatting: %{clause.verb} does not take a value of type {kind}")
    if clause.verb == "s":
        return shown(value)
    if clause.verb in "fe":
        return _number(value, clause)
    if clause.verb == "d":
        return str(int(value))
    if clause.verb in "xX" and kind in ("string", "bytes"):
        digits = bytes(value.encode() if kind == "string" else value).hex()
    else:
        digits = format(int(value), clause.verb.lower())
    return digits.upper() if clause.verb == "X" else digits


def _number(value: Any, clause: Clause) -> str:
    if isinstance(value, str):
        if value not in ("NaN", "Infinity", "-Infinity"):
            raise CelError("error during formatting: fixed-point clause can only be used on doubles, was given string")
        value = float(value.lower())
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
        return text.rjust(clause.precision) if clause.verb == "e" else text
    if clause.verb == "f":
        return f"{value:,.{clause.precision}f}"
    mantissa, _, exponent = f"{value:.{clause.precision}e}".partition("e")
    power = f"{'-' if int(exponent) < 0 else ''}{abs(int(exponent)):02d}"
    return f"{mantissa} {_TIMES} 10{power.translate(_SUPERSCRIPTS)}"


_SHOWN: dict[str, Callable[[Any], str]] = {
    "null_type": lambda _: "null",
    "bool": lambda value: "true" if value else "false",
    "int": str,
    "uint": lambda value: str(int(value)),
    "double": double_text,
    "string": str,
    "bytes": lambda value: value.decode("utf-8", "replace"),
    "type": lambda value: value.name,
    "timestamp": timestamp_text,
    "duration": duration_text,
}


def shown(value: Any) -> str:
    """Return a value as `%s` prints it. Raises CelError."""
    kind = kind_of(value)
    if kind == "list":
        return f"[{', '.join(_nested(item) for item in value)}]"
    if kind == "map":
        pairs = sorted(f"{_key(key)}:{_nested(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if kind not in _SHOWN:
        raise CelError(f"error during formatting: string clause can not be used on {kind}")
    return _SHOWN[kind](value)


def _key(key: Any) -> str:
    if kind_of(key) not in ("string", "bool", "int", "uint"):
        raise CelError(f"no formatting function for map key of type {kind_of(key)}")
    return _nested(key)


def _nested(value: Any) -> str:
    kind = kind_of(value)
    if kind in ("timestamp", "duration"):
        return f'{kind}("{shown(value)}")'
    if kind == "double":
        if math.isnan(value) or math.isinf(value):
            return f'"{double_text(value)}"'
        return f"{value:.6f}"
    text = shown(value)
    if kind in ("string", "bytes"):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'{"b" if kind == "bytes" else ""}"{escaped}"'
    return text
