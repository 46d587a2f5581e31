"""`Signature`: one overload of a function, typed for the checker and with its implementation for the run.

The engine knows no types of ours, so a quantity, an address or a URL is for the checker a type of its own (see
`checker`), and at run time bytes: objects come from JSON, which has no bytes, so no object can pose as such a value.
The bytes are canonical, so that equality of two values is equality of their bytes.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

OPAQUE = ("quantity", "ip", "cidr", "url", "semver", "format", "authorizer", "path-check", "group-check",
          "resource-check", "decision")  # fmt: skip
"""Types that only functions make and read."""


class Signature(Struct, frozen=True, kw_only=True):
    """`name(parameters) -> returns`; a member function takes its receiver as the first parameter.

    Without `run` the function is known to the checker, and evaluating it is an error: it cannot be answered offline
    or the program rewrites it into functions of the engine.
    """

    name: str
    parameters: tuple[str, ...]
    returns: str
    member: bool = False
    run: Callable[..., Any] | None = None

    @property
    def overload(self) -> str:
        """A unique id for the overload."""
        kind = "member" if self.member else "global"
        return "_".join(("k8s", kind, self.name, *self.parameters)).replace("<", "_").replace(">", "")


def function(name: str, parameters: str, returns: str, run: Callable[..., Any] | None = None) -> Signature:
    """Declare a global function; `parameters` are separated by spaces."""
    return Signature(name=name, parameters=tuple(parameters.split()), returns=returns, run=run)


def member(name: str, parameters: str, returns: str, run: Callable[..., Any] | None = None) -> Signature:
    """Declare a member function; the first of `parameters` is its receiver."""
    return Signature(name=name, parameters=tuple(parameters.split()), returns=returns, member=True, run=run)


def seal(kind: str, text: str) -> bytes:
    """Make an opaque value."""
    return f"{kind}:{text}".encode()


def unseal(kind: str, value: bytes) -> str:
    """Read an opaque value of one kind; ValueError where it is another."""
    found, _, text = bytes(value).decode().partition(":")
    if found != kind:
        raise ValueError(f"no such overload: expected {kind}")
    return text
