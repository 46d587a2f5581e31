"""Functions on lists.

An optional value that is passed to a Python function crashes the process (engine 0.1.3), and lists can contain them.
So the program rewrites these members with functions of the engine, and only `sum` runs here, on numbers only.
`lists.range` is limited to the engine's iteration budget: a longer list could not be iterated.
"""

from reconciler.core.policy.cel.library.signature import Signature, function, member

_MAX_RANGE = 10_000


def _bounded_range(count: int) -> list[int]:
    if not 0 <= count <= _MAX_RANGE:
        raise ValueError(f"lists.range: {count} is not between 0 and {_MAX_RANGE}")
    return list(range(count))


def _not_a_number() -> float:
    raise ValueError("sum() requires a list of numbers")


SIGNATURES: tuple[Signature, ...] = (
    member("isSorted", "list", "bool"),
    member("sum", "list", "dyn"),
    member("min", "list", "dyn"),
    member("max", "list", "dyn"),
    member("indexOf", "list dyn", "int"),
    member("lastIndexOf", "list dyn", "int"),
)

RUN_ONLY: tuple[Signature, ...] = (
    function("k8s_sum", "list", "dyn", sum),
    function("k8s_not_a_number", "", "double", _not_a_number),
    function("k8s_range", "int", "list", _bounded_range),
)
