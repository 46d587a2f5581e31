"""Values that may be absent. The evaluator has `or`, `orValue`, `.?field` and `[?key]` built in."""

from typing import Any

from reconciler.kube.cel.library.signature import Signature, function, member
from reconciler.kube.cel.values import NONE, CelError, Duration, Optional, kind_of, present


def is_zero(value: Any) -> bool:
    """Return whether a value is the zero or the empty value of its type."""
    kind = kind_of(value)
    if kind == "null_type":
        return True
    if kind in ("list", "map", "string", "bytes", "int", "uint", "double", "bool"):
        return not value
    if kind == "duration":
        return bool(value == Duration(0))
    return kind == "optional_type" and (not value.present or is_zero(value.value))


def _value(one: Optional) -> Any:
    if not one.present:
        raise CelError("optional.none() dereference")
    return one.value


def _unwrapped(items: list[Any]) -> list[Any]:
    return [item.value for item in items if present(item)]


SIGNATURES: tuple[Signature, ...] = (
    function("optional.of", "A", "optional_type<A>", Optional),
    function("optional.ofNonZeroValue", "A", "optional_type<A>", lambda one: NONE if is_zero(one) else Optional(one)),
    function("optional.none", "", "optional_type<A>", lambda: NONE),
    member("value", "optional_type<A>", "A", _value),
    member("hasValue", "optional_type<A>", "bool", lambda one: one.present),
    function("optional.unwrap", "list<optional_type<A>>", "list<A>", _unwrapped),
    member("unwrapOpt", "list<optional_type<A>>", "list<A>", _unwrapped),
    member("or", "optional_type<A> optional_type<A>", "optional_type<A>"),
    member("orValue", "optional_type<A> A", "A"),
    function("_[?_]", "list<A> int", "optional_type<A>"),
    function("_[?_]", "optional_type<list<A>> int", "optional_type<A>"),
    function("_[?_]", "map<A,B> A", "optional_type<B>"),
    function("_[?_]", "optional_type<map<A,B>> A", "optional_type<B>"),
    function("_[_]", "optional_type<list<A>> int", "optional_type<A>"),
    function("_[_]", "optional_type<map<A,B>> A", "optional_type<B>"),
)
