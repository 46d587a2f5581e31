"""Kubernetes quantities (`1Gi`, `500m`, `2e3`): exact values, comparison, canonical form.

Grammar, rounding and canonical form: k8s.io/apimachinery/pkg/api/resource/quantity.go and suffix.go.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from reconciler.kube.patterns import later

_QUANTITY = later(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:(Ki|Mi|Gi|Ti|Pi|Ei)|([numkMGTPE]?)|[eE]([+-]?[0-9]+))", re.ASCII
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_NAMES = {power: suffix for suffix, power in _BINARY.items()} | {0: ""}
_DECIMAL_NAMES = {power: suffix for suffix, power in _DECIMAL.items()}

_NANO = 10**9  # the finest step that an API server keeps
_MAX_BINARY = 2**63 - 1  # an API server lowers larger values to it
_MAX_LENGTH = 256
_MAX_EXPONENT = 512
"""A larger exponent only costs an API server time; no real quantity has one."""
_KILO, _KIBI = 1000, 1024

_Form = Literal["binary", "decimal", "exponent"]


def parse_quantity(text: str | int | float) -> Fraction | None:  # noqa: PYI041 - floats occur in parsed YAML
    """Return the value as an API server holds it, or None if `text` is not a quantity.

    Exact down to 1n; smaller fractions are rounded away from zero, and binary quantities are limited to 2**63 - 1, as
    in apimachinery. Text longer than 256 characters and exponents beyond 512 are not accepted.
    """
    parsed = _parse(text)
    return parsed[0] if parsed else None


@lru_cache(maxsize=1024, typed=True)
def canonical(text: str | int | float) -> str:  # noqa: PYI041 - as above
    """Return the canonical form: no fraction, the largest suffix of the same kind (`1024Mi` is `1Gi`).

    Text that is not a quantity is returned unchanged.
    """
    parsed = _parse(text)
    if parsed is None:
        return str(text)
    value, form = parsed
    if form == "binary" and abs(value) >= _KIBI and value.denominator == 1:
        number, power = _reduce(value.numerator, _KIBI, 10, limit=60)
        return f"{number}{_BINARY_NAMES[power]}"
    number, power = _reduce(int(value * _NANO), _KILO, 3, start=-9, limit=None if form == "exponent" else 18)
    if form == "exponent":
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_DECIMAL_NAMES[power]}"


def same_quantity(one: object, other: object) -> bool:
    """Return whether both are quantities of the same value (`1Gi` and `1024Mi`, `0.5` and `500m`)."""
    values = [parse_quantity(item) if isinstance(item, str | int | float) else None for item in (one, other)]
    return values[0] is not None and values[0] == values[1]


def is_positive(value: object) -> bool:
    """Return whether a value is a quantity above 0."""
    amount = parse_quantity(value) if isinstance(value, str | int | float) else None
    return amount is not None and amount > 0


def _parse(text: str | float) -> tuple[Fraction, _Form] | None:
    if isinstance(text, bool):
        return None
    literal = text if isinstance(text, str) else f"{text:d}" if isinstance(text, int) else _json_number(text)
    return _parse_literal(literal) if len(literal) <= _MAX_LENGTH else None


@lru_cache(maxsize=4096)
def _parse_literal(literal: str) -> tuple[Fraction, _Form] | None:
    """Parse a literal. Cached: most objects use the same few quantities."""
    match = _QUANTITY.fullmatch(literal)
    if match is None:
        return None
    sign, number, binary, decimal, exponent = match.groups()
    form: _Form = "binary" if binary else "exponent" if exponent else "decimal"
    if exponent and abs(int(exponent)) > _MAX_EXPONENT:
        return None
    value = Fraction(number + "0" if number.endswith(".") else number)
    value *= 2 ** _BINARY[binary] if binary else Fraction(10) ** int(exponent or _DECIMAL[decimal or ""])
    value = Fraction(-(-value * _NANO // 1), _NANO)  # up, away from zero: the sign comes last
    if binary:
        value = min(value, Fraction(_MAX_BINARY))
        if 0 < value < 1:
            form = "decimal"
    return -value if sign == "-" else value, form


def _json_number(value: float) -> str:
    """Return a float as it is written in JSON, which is what an API server parses."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)  # noqa: PLR2004 - Go's JSON


def _reduce(number: int, step: int, power: int, *, start: int = 0, limit: int | None) -> tuple[int, int]:
    """Divide by `step` while it is a factor, adding `power` to the exponent each time, up to `limit`."""
    exponent = start
    while number and number % step == 0 and (limit is None or exponent < limit):
        number //= step
        exponent += power
    return (number, exponent) if number else (0, 0)
