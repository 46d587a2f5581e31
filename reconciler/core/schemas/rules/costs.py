"""What the rules of a definition may cost an API server at most, which decides whether it installs them.

Sources: pkg/cel/common/schemas.go and pkg/cel/types.go of k8s.io/apiserver; pkg/apiserver/schema/cel/compilation.go and
pkg/apis/apiextensions/validation/cel_validation.go of k8s.io/apiextensions-apiserver (Kubernetes 1.36).
"""

from collections.abc import Callable

from reconciler.core.cel.checker import Checked, Types, check_types
from reconciler.core.cel.estimates import MOST, SizeRange, ValuePath, capped, highest_cost
from reconciler.core.schemas.rules.rule import DefinitionRule
from reconciler.core.schemas.rules.shape import Shape, escape
from reconciler.core.schemas.schema import Schema

MOST_OF_A_RULE, MOST_OF_ALL = 10_000_000, 100_000_000
_REQUEST = 3 * 1024 * 1024  # bytes
_TEXT = _REQUEST - 2
_LEAST = {"object": 2, "list": 2, "map": 2, "string": 2, "bytes": 2, "bool": 4, "int": 1, "double": 1, "dyn": 1,
          "duration": 3}  # fmt: skip
"""Bytes of the smallest value of a type in JSON."""
_DATE, _TIME, _LONGEST_TIME = 12, 21, 32


def estimated_cost(text: str, rule: DefinitionRule, times: int = 1) -> int:
    """Return what evaluating an expression of a rule so many times costs at most."""
    found, types = check_types(text, rule.declared)
    if not isinstance(found, Checked):
        return 0
    return priced(found, types, rule.shape, times)


def priced(checked: Checked, types: Types, shape: Shape, times: int = 1) -> int:
    """Do the same for a checked expression."""
    try:
        return capped(highest_cost(checked, types, _sizes_in(shape)) * times)
    except RecursionError:
        return MOST


def _sizes_in(root: Shape) -> Callable[[ValuePath], SizeRange | None]:
    """Return a function that returns the size of a value of a rule about `root`, by its path."""

    def size_of(path: ValuePath) -> SizeRange | None:
        shape: Shape | None = root
        for name in path[1:]:
            if shape is None:
                return None
            if name == "@keys":
                return SizeRange(0, 0) if _kind(shape) == "map" else None
            shape = shape.items if name in ("@items", "@values") else _field(shape, name)
        return None if shape is None else SizeRange(0, _longest(shape))

    return size_of


def _field(shape: Shape, spelled: str) -> Shape | None:
    """Return a field by its escaped name; a reserved word that is spelled as it is leads nowhere."""
    name = "" if shape.items is not None else shape.fields.get(spelled, "")
    return shape.properties[name] if name and escape(name) == spelled else None


def copies(schema: Schema, above: int | None) -> int | None:
    """Return how often what is in a schema can be in an object, `above` being that of the schema; None: no limit."""
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    else:
        return above
    return None if above is None or most is None else above * max(int(most), 0)


def most_copies(shape: Shape) -> int:
    """Return how often a value of a shape fits into one request."""
    return _REQUEST // (_smallest(shape) + 1)


def _kind(shape: Shape) -> str:
    if shape.type is None:
        return ""
    return "object" if "object" in shape.types and shape.items is None else shape.type.name


def _longest(shape: Shape) -> int:
    kind, schema = _kind(shape), shape.schema
    if kind == "list" and shape.items is not None:
        return _limit(schema.get("maxItems"), _TEXT // (_smallest(shape.items) + 1))
    if kind == "map" and shape.items is not None:
        return _limit(schema.get("maxProperties"), _TEXT // (_smallest(shape.items) + 6))
    length = schema.get("maxLength")
    if kind == "bytes":
        return _limit(length, _TEXT)
    if kind in ("duration", "timestamp"):
        return _DATE if schema.get("format") == "date" else _LONGEST_TIME
    if kind not in ("string", "dyn"):
        return 0
    words = [len(one.encode()) for one in schema.get("enum") or () if isinstance(one, str)] if kind == "string" else []
    return _limit(length, max(words, default=_TEXT), 4)


def _limit(written: float | None, otherwise: int, factor: int = 1) -> int:
    return otherwise if written is None else max(int(written), 0) * factor


def _smallest(shape: Shape) -> int:
    kind = _kind(shape)
    if kind == "timestamp":
        return _DATE if shape.schema.get("format") == "date" else _TIME
    size = _LEAST.get(kind, 0)
    required = shape.schema.get("required") or () if kind == "object" else ()
    for name in required:
        below = shape.properties.get(name)
        if below is not None and not below.has_default:
            size += len(name.encode()) + 4 + _smallest(below)
    return size
