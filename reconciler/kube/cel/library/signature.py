"""`Signature`: one overload of a function, with its types for the checker and its implementation."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from reconciler.kube.cel.types import CelType, type_of


class Signature(Struct, frozen=True, kw_only=True):
    """`name(parameters) -> returns`; a member function takes its receiver as the first parameter.

    Without `run` the function is only declared: the evaluator has it built in, or it cannot be evaluated offline.
    inline: the same as an expression of Python, for arguments whose Python types are those of the parameters; for a
    parameter of any type, a text.
    """

    name: str
    parameters: tuple[CelType, ...]
    returns: CelType
    is_member: bool = False
    run: Callable[..., Any] | None = None
    inline: str = ""


_Run = Callable[..., Any]


def function(name: str, parameters: str, returns: str, run: _Run | None = None, inline: str = "") -> Signature:
    """Declare a global function; `parameters` are separated by spaces."""
    return Signature(name=name, parameters=_types(parameters), returns=type_of(returns), run=run, inline=inline)


def member(name: str, parameters: str, returns: str, run: _Run | None = None, inline: str = "") -> Signature:
    """Declare a member function; the first of `parameters` is its receiver."""
    return structs.replace(function(name, parameters, returns, run, inline), is_member=True)


def both(name: str, parameters: str, returns: str, run: _Run | None = None, inline: str = "") -> tuple[Signature, ...]:
    """Declare a function that can be called either way."""
    return (function(name, parameters, returns, run, inline), member(name, parameters, returns, run, inline))


def _types(text: str) -> tuple[CelType, ...]:
    return tuple(type_of(part) for part in text.split())
