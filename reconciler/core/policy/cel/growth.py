"""A bound on how much larger than its inputs an expression can make a value, from its text alone.

The engine limits iterations, not the size of results: a chain of `.map(x, x + x)` doubles a string or a list each time.
An API server rejects such policies by their estimated cost. This bound is simpler. It counts, in powers of two, what
copies a value: `+` on names that a macro or a variable binds, and functions that insert text or lists.
"""

from collections.abc import Iterable, Mapping
from math import log2

from reconciler.core.policy.cel.tokens import Token, bracket_pairs, fields, tokens

MAX_GROWTH_BITS = 12.0
"""Values at most 4,096 times as large as the inputs: far more than a message or a comparison needs."""
_BINDERS = frozenset(("map", "filter", "transformList", "transformMap", "transformMapEntry", "optMap", "optFlatMap"))
_MACROS = _BINDERS | {"all", "exists", "exists_one", "existsOne"}
_INSERTERS = frozenset(("replace", "join", "format"))
_INSERTED_BITS = 4.0  # an inserted value that is not a literal
_RANGE_BITS = 7.0  # a list whose length is not a literal


def growth_bits(expression: str, variables: Mapping[str, float]) -> float:
    """Return the bound for an expression, given those of the policy's variables by name."""
    parts = tokens(expression)
    pairs = bracket_pairs(parts)
    total = max((variables.get(name, 0.0) for name in fields(parts, "variables")), default=0.0)
    total += _bits_of_sums(parts)
    for index in range(1, len(parts)):
        name = parts[index - 1]
        if parts[index].text != "(" or index not in pairs or name.kind != "name":
            continue
        arguments = parts[index + 1 : pairs[index]]
        if name.text in _BINDERS:
            total += _bits_of_sums(arguments)
        if name.text in _MACROS:
            total += sum(_ranges(arguments))
        if name.text in _INSERTERS:
            total += _bits_of_inserted(arguments)
    return total


def _bits_of_sums(parts: Iterable[Token]) -> float:
    return log2(1 + sum(part.kind == "sign" and part.text == "+" for part in parts))


def _bits_of_inserted(arguments: list[Token]) -> float:
    if any(part.kind == "name" for part in arguments):
        return _INSERTED_BITS
    return log2(max((len(part.text) for part in arguments if part.kind == "string"), default=1))


def _ranges(arguments: list[Token]) -> Iterable[float]:
    """Yield the bits of each list that a macro builds again for each item."""
    for index, part in enumerate(arguments[:-2]):
        if part.text == "range" and arguments[index + 1].text == "(":
            length = arguments[index + 2].text
            yield log2(max(1, int(length))) if length.isdecimal() else _RANGE_BITS
