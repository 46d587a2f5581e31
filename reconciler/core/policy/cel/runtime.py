"""The engine that evaluates: the library's implementations over the engine's own functions.

Expressions are checked elsewhere (`checker`); here they are parsed only, so that what the composed program adds
(`cel.bind`, renamed variables) needs no types. The engine stops a program after 10,000 iterations, matches by RE2,
and limits an expression to 100,000 characters and 32 levels; beyond any of these an evaluation is an error.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from reconciler.core.policy.cel.checker import EXTENSIONS, cel, configuration
from reconciler.core.policy.cel.library import SIGNATURES, lists
from reconciler.core.policy.cel.library.signature import OPAQUE

_RUN_EXTENSIONS = (*EXTENSIONS, ("bindings", 0))


def _kind(name: str) -> str:
    """Return the run-time type: opaque values are bytes."""
    if name in OPAQUE or name.startswith("optional_type<"):
        return "bytes" if "list" not in name else "list"
    return name.partition("<")[0]


def _python(run: Callable[..., Any]) -> Callable[..., Any]:
    """Let an implementation fail with ValueError only: the engine makes an error value of its text."""

    def call(*arguments: Any) -> Any:
        try:
            return run(*arguments)
        except (ArithmeticError, TypeError) as error:
            raise ValueError(str(error)) from None

    return call


@cache
def _environment() -> Any:
    engine = cel()
    types = engine.Type
    kinds = {"list": types.LIST, "map": types.MAP, "dyn": types.DYN}
    functions: dict[str, dict[tuple[object, ...], Any]] = {}
    for signature in (*SIGNATURES, *lists.RUN_ONLY):
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
    """Parse without type checking; RuntimeError where the engine refuses the text."""
    return _environment().compile(expression, disable_check=True)


def restored(form: bytes) -> Any:
    """Return an expression from its `serialize()`; RuntimeError where it is none."""
    return _environment().deserialize(form)


def activation(values: Mapping[str, Any]) -> Any:
    """Variables for one or several evaluations; values are converted when they are first read."""
    return _environment().Activation(dict(values))
