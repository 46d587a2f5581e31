"""Amounts of GPUs in quotas."""

from fractions import Fraction
from typing import Any

from reconciler.kube.quantities import parse_quantity

MAX_QUOTA = 10**15
"""Larger quotas are mistakes; the bound keeps them exact as floats."""


def gpu_quantity(value: Any) -> float | None:
    """Return a quantity of GPUs between 0 and 1e15; None if it is absent or malformed."""
    if type(value) is int:
        return float(min(max(value, 0), MAX_QUOTA))
    exact = parse_quantity(value) if type(value) in (str, float) else None
    return None if exact is None else float(min(max(exact, Fraction(0)), Fraction(MAX_QUOTA)))
