"""What calls of functions cost an API server at most, and how long their results can be.

Sources: k8s.io/apiserver/pkg/cel/library/cost.go (Kubernetes 1.36); checker/cost.go, ext/lists.go and ext/sets.go of
cel-go 0.26.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from reconciler.core.cel.estimates.sizes import MOST, REGEX, UNKNOWN, SizeRange, capped, exactly, scaled
from reconciler.core.cel.library import Signature
from reconciler.core.cel.syntax import Constant, Node
from reconciler.core.cel.types import CelType

_LIST = 10  # a new list
_FORMAT = 128 * REGEX  # of a named format, whose pattern has at most so many characters
_FORMAT_SIZE = 64
_ADDRESS = SizeRange(4, 16)  # bytes


class Operand(NamedTuple):
    """An argument of a call. `item` is the size of its items, if it is a list."""

    node: Node
    kind: CelType
    size: SizeRange
    item: SizeRange


class CallCost(NamedTuple):
    """What a call costs besides its arguments, and the size of its result; None: that of its type."""

    cost: int
    size: SizeRange | None = None


def call_cost(name: str, signature: Signature, target: Operand | None, arguments: Sequence[Operand]) -> CallCost:
    """Return what one overload of a function costs. `target` is the receiver of a member function."""
    operands = arguments if target is None else (target, *arguments)
    estimate = _FUNCTIONS.get(name)
    found = estimate(signature, operands) if estimate is not None and operands else None
    return found or CallCost(1)


_Estimate = Callable[[Signature, Sequence[Operand]], CallCost | None]


def _kind(signature: Signature) -> str:
    return signature.parameters[0].name


def _is_text(kind: CelType) -> bool:
    return kind.name in ("string", "bytes")


def _read(position: int, factor: float = 1.0, *, keeps: bool = False) -> _Estimate:
    """Return an estimate of functions that look at one operand; `keeps`: the result can be as long."""

    def estimate(_: Signature, operands: Sequence[Operand]) -> CallCost:
        size = operands[position].size
        return CallCost(size.cost(factor * 0.1), size if keeps else None)

    return estimate


def _each(_: Signature, operands: Sequence[Operand]) -> CallCost:
    """Estimate functions that compare all items of a list, or look for a part of a text."""
    target = operands[0]
    if not target.kind.parameters:
        return CallCost(target.size.cost())
    cost = 1 + (target.item.cost() if _is_text(target.kind.parameters[0]) else 0)
    return CallCost(capped(target.size.most * capped(cost)))


def _replace(_: Signature, operands: Sequence[Operand]) -> CallCost:
    text, old, new = (one.size for one in operands[:3])
    if old.least == 0:
        most, kept_most = capped(text.most + 1), text.most
    elif new.most <= old.least:
        most, kept_most = 0, text.most
    else:
        most, kept_most = math.ceil(float(text.most) / float(old.least)), 0
    if old.most == 0:
        least, kept_least = capped(text.least + 1), text.least
    elif old.most <= new.least:
        least, kept_least = 0, text.least
    else:
        least, kept_least = math.ceil(float(text.least) / float(old.most)), 0
    size = SizeRange(capped(least), capped(most)).times(new).plus(SizeRange(kept_least, kept_most))
    return CallCost(text.cost(0.2), size)


def _constant(operand: Operand, otherwise: int) -> int:
    value = operand.node.value if isinstance(operand.node, Constant) else None
    return value if type(value) is int else otherwise


def _split(_: Signature, operands: Sequence[Operand]) -> CallCost:
    size = operands[0].size
    most = size.most if len(operands) < 3 else _constant(operands[2], size.most) & MOST  # noqa: PLR2004 - with a limit
    return CallCost(size.cost(0.2), SizeRange(0, most))


def _join(_: Signature, operands: Sequence[Operand]) -> CallCost:
    items = operands[0].size
    size = items.times(operands[0].item) if operands[0].kind.parameters else exactly(0)
    if len(operands) > 1:
        gaps = SizeRange(max(items.least - 1, 0), max(items.most - 1, 0))
        size = size.plus(operands[1].size.times(gaps))
    return CallCost(size.cost(), size)


def _pattern(_: Signature, operands: Sequence[Operand]) -> CallCost:
    text, pattern = operands[0].size, operands[1].size
    return CallCost(capped(text.plus(exactly(1)).cost() * pattern.cost(REGEX)))


def _find(signature: Signature, operands: Sequence[Operand]) -> CallCost:
    return CallCost(_pattern(signature, operands).cost, SizeRange(0, operands[0].size.most))


def _matches(signature: Signature, operands: Sequence[Operand]) -> CallCost | None:
    return _pattern(signature, operands) if signature.is_member else None


def _contains(signature: Signature, operands: Sequence[Operand]) -> CallCost | None:
    text, part = operands[0].size, operands[1].size
    return CallCost(capped(text.cost() * part.cost())) if _kind(signature) == "string" else None


def _ip(signature: Signature, operands: Sequence[Operand]) -> CallCost:
    return CallCost(1) if _kind(signature) == "cidr" else CallCost(operands[-1].size.cost())


def _within(extra: int) -> _Estimate:
    """Return an estimate of comparisons of addresses; a text is read first."""

    def estimate(signature: Signature, operands: Sequence[Operand]) -> CallCost:
        cost = _ADDRESS.plus(_ADDRESS).cost() + extra
        return CallCost(capped(cost + operands[1].size.cost() * (signature.parameters[1].name == "string")))

    return estimate


def _named(_: Signature, operands: Sequence[Operand]) -> CallCost:
    return CallCost(scaled(operands[-1].size.cost(), _FORMAT))


def _smaller(operands: Sequence[Operand]) -> CallCost:
    return CallCost(scaled(min(operands[0].size.most, operands[1].size.most), 0.1))


def _compared(signature: Signature, operands: Sequence[Operand]) -> CallCost | None:
    is_text = all(map(_is_text, signature.parameters))
    return _smaller(operands) if is_text else None


def _equal(_: Signature, operands: Sequence[Operand]) -> CallCost:
    one, other = operands
    if one.kind == other.kind:
        if one.kind.name in ("ip", "cidr", "quantity", "semver"):
            return CallCost(1)
        if one.kind.name == "format":
            return CallCost(scaled(_FORMAT_SIZE, 0.1))
        if one.kind.name == "url":
            return CallCost(scaled(1 if other.size == UNKNOWN else other.size.most, 0.1))
    return _smaller(operands)


def _added(signature: Signature, operands: Sequence[Operand]) -> CallCost | None:
    size = operands[0].size.plus(operands[1].size)
    if _kind(signature) == "list":
        return CallCost(1, size)
    return CallCost(size.cost(), size) if _is_text(signature.parameters[0]) else None


def _in(signature: Signature, operands: Sequence[Operand]) -> CallCost | None:
    return CallCost(operands[1].size.most) if signature.parameters[1].name == "list" else None


def _text_of(signature: Signature, operands: Sequence[Operand]) -> CallCost | None:
    size = operands[0].size
    return CallCost(size.cost(), SizeRange(size.least // 4, size.most)) if _kind(signature) == "bytes" else None


def _bytes_of(signature: Signature, operands: Sequence[Operand]) -> CallCost | None:
    size = operands[0].size
    return CallCost(size.cost(), SizeRange(size.least, size.most * 4 & MOST)) if _kind(signature) == "string" else None


def _quote(_: Signature, operands: Sequence[Operand]) -> CallCost:
    size = operands[0].size
    return CallCost(size.cost(), SizeRange(capped(size.least + 2), size.most * 2 + 2 & MOST))


def _sets(factor: float) -> _Estimate:
    def estimate(_: Signature, operands: Sequence[Operand]) -> CallCost:
        return CallCost(capped(operands[0].size.times(operands[1].size).cost(factor) + 1))

    return estimate


def _new_list(size: SizeRange, factor: float = 1.0) -> CallCost:
    return CallCost(capped(size.cost(factor) + 1 + _LIST), size)


def _position(operand: Operand, otherwise: int) -> int:
    return max(_constant(operand, otherwise), 0)


def _slice(_: Signature, operands: Sequence[Operand]) -> CallCost:
    first, last = _position(operands[1], 0), _position(operands[2], operands[0].size.most)
    return _new_list(exactly(last - first & MOST))


def _range(_: Signature, operands: Sequence[Operand]) -> CallCost:
    return _new_list(exactly(_position(operands[0], MOST)))


def _reverse(signature: Signature, operands: Sequence[Operand]) -> CallCost | None:
    return _new_list(operands[0].size) if _kind(signature) == "list" else None


def _flatten(_: Signature, operands: Sequence[Operand]) -> CallCost:
    depth = _position(operands[1], MOST) if len(operands) > 1 else 1
    return _new_list(operands[0].size, float(depth))


def _distinct(_: Signature, operands: Sequence[Operand]) -> CallCost:
    return _new_list(operands[0].size.times(operands[0].size), 2.0)


def _sort(signature: Signature, operands: Sequence[Operand]) -> CallCost:
    keys = signature.parameters[-1]
    factor = 2.1 if keys.parameters and _is_text(keys.parameters[0]) else 2.0
    return _new_list(operands[-1].size.times(operands[-1].size), factor)


_FUNCTIONS: Mapping[str, _Estimate] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each),
    **dict.fromkeys(
        ("url", "jsonpatch.escapeKey", "lowerAscii", "upperAscii", "substring", "trim"), _read(0, keeps=True)
    ),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver", "format"), _read(0)),
    **dict.fromkeys(("startsWith", "endsWith"), _read(1)),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), _sort),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1.0)),
    "sets.equivalent": _sets(2.0),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "matches": _matches,
    "contains": _contains,
    "ip": _ip,
    "ip.isCanonical": _read(0, 2.0),
    "containsIP": _within(0),
    "containsCIDR": _within(_ADDRESS.cost() + 1),
    "validate": _named,
    "strings.quote": _quote,
    "string": _text_of,
    "bytes": _bytes_of,
    "@in": _in,
    "_==_": _equal,
    "_!=_": lambda _, operands: _smaller(operands),
    "_+_": _added,
    "slice": _slice,
    "lists.range": _range,
    "reverse": _reverse,
    "flatten": _flatten,
    "distinct": _distinct,
}
"""Functions that cost more than 1, or whose results have a size, by their names."""
