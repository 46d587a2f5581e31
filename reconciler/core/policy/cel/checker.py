"""Type checking against what an API server of Kubernetes 1.36 knows: its functions, its macros, its variables.

The checker has every function's declaration and none of its implementation; opaque types are told apart by map types
that nothing else makes (`map(bool, bytes)` and maps of those), since the engine has no abstract types of ours.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from reconciler.core.policy.cel.library import SIGNATURES, Signature
from reconciler.core.policy.cel.library.signature import OPAQUE

EXTENSIONS = (("sets", 0), ("lists", 2), ("strings", 2), ("optional", 2), ("two-var-comprehensions", 0))
"""The engine's names for what environment/base.go enables: strings version 2, lists with sort and range, ..."""
_COMPARISONS = (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals"))
_NUMBERS = ("int", "uint", "double")
_FAULT = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*?)(?=\n \||\nERROR: |\Z)", re.DOTALL)
_STATUS = re.compile(r"^[A-Z_]+: | ?\[[A-Z_]+\]$")


class Fault(Struct, frozen=True, kw_only=True):
    """Why an expression does not compile. `line` and `column` count from 1 within the expression."""

    line: int
    column: int
    message: str


@cache
def cel() -> Any:
    """Import the engine late: `--help` and repositories without policies do not pay for it."""
    from cel_expr_python import cel as engine  # noqa: PLC0415 - see above

    return engine


@cache
def named_type(name: str) -> Any:
    """Build the engine's type: an opaque one, `list`, `dyn`, `optional_type<...>`, `map<string,list<string>>`."""
    types = cel().Type
    if name in OPAQUE:
        nested = types.BYTES
        for _ in range(OPAQUE.index(name) + 1):
            nested = types.Map(types.BOOL, nested)
        return nested
    if name.startswith("optional_type<"):
        return types.AbstractType("optional_type", [named_type(name.removeprefix("optional_type<")[:-1])])
    return types.LIST if name == "list" else types(name)


def configuration(extensions: tuple[tuple[str, int], ...]) -> Any:
    """Pin the engine's extensions to versions."""
    lines = "".join(f"- name: {name}\n  version: {version}\n" for name, version in extensions)
    return cel().NewEnvConfigFromYaml(f"extensions:\n{lines}")


def _cross_type_comparisons() -> list[Signature]:
    """Numbers of different types compare since Kubernetes 1.28; the engine's checker needs to be told."""
    return [
        Signature(name=sign, parameters=(left, right), returns="bool")
        for sign, _ in _COMPARISONS
        for left in _NUMBERS
        for right in _NUMBERS
        if left != right
    ]


@cache
def _declarations() -> Any:
    engine = cel()
    functions: dict[str, list[Any]] = {}
    names = dict(_COMPARISONS)
    for signature in (*SIGNATURES, *_cross_type_comparisons()):
        overload = engine.Overload(
            signature.overload.replace(signature.name, names.get(signature.name, signature.name)),
            return_type=named_type(signature.returns),
            parameters=[named_type(name) for name in signature.parameters],
            is_member=signature.member,
        )
        functions.setdefault(signature.name, []).append(overload)
    return [engine.FunctionDecl(name, overloads) for name, overloads in functions.items()]


_environments: dict[tuple[tuple[str, str], ...], Any] = {}


def _environment(variables: Mapping[str, Any]) -> Any:
    key = tuple((name, kind.name()) for name, kind in variables.items())
    found = _environments.get(key)
    if found is None:
        extension = cel().CelExtension("kubernetes", _declarations())
        found = cel().NewEnv(config=configuration(EXTENSIONS), variables=dict(variables), extensions=[extension])
        _environments[key] = found
    return found


def check(expression: str, variables: Mapping[str, Any]) -> tuple[Any, tuple[Fault, ...]]:
    """Type-check: the expression's type and no faults, or None and the faults."""
    try:
        return _environment(variables).compile(expression).return_type(), ()
    except (RuntimeError, ValueError, TypeError) as error:
        return None, _faults(str(error))


def _faults(text: str) -> tuple[Fault, ...]:
    found = tuple(
        Fault(line=int(line), column=int(column), message=readable(message))
        for line, column, message in _FAULT.findall(text)
    )
    return found or (Fault(line=1, column=1, message=readable(text)),)


def readable(text: str) -> str:
    """One line, with our names for opaque types and without the engine's status codes."""
    text = _STATUS.sub("", " ".join(text.split())).replace(" (in container '')", "")
    for index, name in reversed(tuple(enumerate(OPAQUE))):
        text = text.replace("map(bool, " * (index + 1) + "bytes" + ")" * (index + 1), name)
    return text
