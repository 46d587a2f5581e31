"""`Signature`: one overload of a function, with its types for the checker and its implementation.

The engine does not support custom types. A quantity, an address or a URL is a separate type for the checker (see
`environment`) and bytes at run time. Objects come from JSON, which has no bytes, so no object can contain such a value.
The bytes are canonical: two values are equal if their bytes are.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

OPAQUE = ("quantity", "ip", "cidr", "url", "semver", "format", "authorizer", "path-check", "group-check",
          "resource-check", "decision")  # fmt: skip
"""Types that only functions create and read."""


class Signature(Struct, frozen=True, kw_only=True):
    """`name(parameters) -> returns`; a member function takes its receiver as the first parameter.

    Without `run` the function is only declared: it cannot be evaluated offline, or the program rewrites it with
    functions of the engine.
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
    """Return an opaque value."""
    return f"{kind}:{text}".encode()


def unseal(kind: str, value: bytes) -> str:
    """Return the text of an opaque value. Raises ValueError if it is of another kind."""
    actual, _, text = bytes(value).decode().partition(":")
    if actual != kind:
        raise ValueError(f"no such overload: expected {kind}")
    return text
