"""The two environments of the CEL engine, both with the functions and macros of Kubernetes 1.36.

The check environment has the declaration of every function and no implementation. Opaque types, which the engine does
not support, are map types that nothing else creates (`map(bool, bytes)` and maps of those).

The run environment has the implementations and does not check types, so that what composed programs add (`cel.bind`,
renamed variables) needs none. The engine stops a program after 10,000 iterations, matches regular expressions with
RE2, and limits an expression to 100,000 characters and 32 levels; exceeding a limit is an evaluation error.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from reconciler.core.policy.cel.library import RUN_ONLY, SIGNATURES, Signature
from reconciler.core.policy.cel.library.signature import OPAQUE

EXTENSIONS = (("sets", 0), ("lists", 2), ("strings", 2), ("optional", 2), ("two-var-comprehensions", 0))
"""The engine's names for what environment/base.go enables: strings version 2, lists with sort and range, ..."""
_COMPARISONS = (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals"))
_NUMBERS = ("int", "uint", "double")
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*?)(?=\n \||\nERROR: |\Z)", re.DOTALL)
_STATUS = re.compile(r"^[A-Z_]+: | ?\[[A-Z_]+\]$")


class CompileError(Struct, frozen=True, kw_only=True):
    """Why an expression does not compile; `line` and `column` within the expression count from 1."""

    line: int
    column: int
    message: str


@cache
def cel() -> Any:
    """Import the engine on first use: `--help` and repositories without policies do not need it."""
    from cel_expr_python import cel as engine  # noqa: PLC0415 - see above

    return engine


@cache
def named_type(name: str) -> Any:
    """Return the engine's type: an opaque one, `list`, `dyn`, `optional_type<...>`, `map<string,list<string>>`."""
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
    """Return the engine's configuration with extensions at fixed versions."""
    lines = "".join(f"- name: {name}\n  version: {version}\n" for name, version in extensions)
    return cel().NewEnvConfigFromYaml(f"extensions:\n{lines}")


def _cross_type_comparisons() -> list[Signature]:
    """Return comparisons of numbers of different types, allowed since Kubernetes 1.28."""
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


def _check_environment(variables: Mapping[str, Any]) -> Any:
    key = tuple((name, kind.name()) for name, kind in variables.items())
    environment = _environments.get(key)
    if environment is None:
        extension = cel().CelExtension("kubernetes", _declarations())
        environment = cel().NewEnv(config=configuration(EXTENSIONS), variables=dict(variables), extensions=[extension])
        _environments[key] = environment
    return environment


def check(expression: str, variables: Mapping[str, Any]) -> tuple[Any, tuple[CompileError, ...]]:
    """Return the type of an expression, or None and its errors."""
    try:
        return _check_environment(variables).compile(expression).return_type(), ()
    except (RuntimeError, ValueError, TypeError) as error:
        return None, _compile_errors(str(error))


def _compile_errors(text: str) -> tuple[CompileError, ...]:
    errors = tuple(
        CompileError(line=int(line), column=int(column), message=readable(message))
        for line, column, message in _ERROR.findall(text)
    )
    return errors or (CompileError(line=1, column=1, message=readable(text)),)


def readable(text: str) -> str:
    """Return an error of the engine on one line, with names for opaque types and without status codes."""
    text = _STATUS.sub("", " ".join(text.split())).replace(" (in container '')", "")
    for index, name in reversed(tuple(enumerate(OPAQUE))):
        text = text.replace("map(bool, " * (index + 1) + "bytes" + ")" * (index + 1), name)
    return text


# --- run --------------------------------------------------------------------------------------------------------------

_RUN_EXTENSIONS = (*EXTENSIONS, ("bindings", 0))


def _kind(name: str) -> str:
    """Return the type at run time: opaque values are bytes."""
    if name in OPAQUE or name.startswith("optional_type<"):
        return "bytes" if "list" not in name else "list"
    return name.partition("<")[0]


def _python(run: Callable[..., Any]) -> Callable[..., Any]:
    """Convert the errors of an implementation to ValueError, which the engine converts to an error value."""

    def call(*arguments: Any) -> Any:
        try:
            return run(*arguments)
        except (ArithmeticError, TypeError) as error:
            raise ValueError(str(error)) from None

    return call


@cache
def _run_environment() -> Any:
    engine = cel()
    types = engine.Type
    kinds = {"list": types.LIST, "map": types.MAP, "dyn": types.DYN}
    functions: dict[str, dict[tuple[object, ...], Any]] = {}
    for signature in (*SIGNATURES, *RUN_ONLY):
        if signature.run is not None:
            parameters = tuple(_kind(name) for name in signature.parameters)
            functions.setdefault(signature.name, {}).setdefault(
                (signature.member, *parameters),
                engine.Overload(
                    signature.overload,
                    return_type=kinds.get(_kind(signature.returns)) or types(_kind(signature.returns)),
                    parameters=[kinds.get(kind) or types(kind) for kind in parameters],
                    is_member=signature.member,
                    impl=_python(signature.run),
                ),
            )
    declarations = [engine.FunctionDecl(name, list(overloads.values())) for name, overloads in functions.items()]
    extension = engine.CelExtension("kubernetes", declarations)
    return engine.NewEnv(config=configuration(_RUN_EXTENSIONS), variables={}, extensions=[extension])


def parse(expression: str) -> Any:
    """Parse an expression without type checking. Raises RuntimeError if the engine rejects it."""
    return _run_environment().compile(expression, disable_check=True)


def deserialize(form: bytes) -> Any:
    """Return an expression from its `serialize()`. Raises RuntimeError for invalid data."""
    return _run_environment().deserialize(form)


def activation(values: Mapping[str, Any]) -> Any:
    """Return the variables of one or several evaluations; values are converted on first use."""
    return _run_environment().Activation(dict(values))
