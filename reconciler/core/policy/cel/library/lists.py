"""Functions on lists.

An optional value that reaches a function written in Python ends the process (engine 0.1.3), and a list may hold
some; so the program rewrites these members into functions of the engine, and only `sum` runs here, over numbers that
the rewriting has let through. `lists.range` is bounded by the engine's own iteration budget: a longer list could be
made but not walked.
"""

from reconciler.core.policy.cel.library.signature import Signature, function, member

LONGEST_RANGE = 10_000


def _bounded_range(count: int) -> list[int]:
    if not 0 <= count <= LONGEST_RANGE:
        raise ValueError(f"lists.range: {count} is not in 0 to {LONGEST_RANGE}")
    return list(range(count))


def _not_a_number() -> float:
    raise ValueError("sum() takes a list of numbers")


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
