"""Amounts of GPUs: in quotas, and of pods that share devices."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from reconciler.kube.quantities import parse_quantity

Gpus = int | float
"""GPUs that are requested: whole ones are integers, shares of them have two digits (`exact`)."""

_SHARE_DIGITS = 2
"""KAI counts hundredths of a GPU: `gpuPortionsAsDecimalsRoundingFactor` of gpu_resource_requirment.go (0.12)."""


def exact(amount: Gpus) -> Gpus:
    """Return an amount without what sums of floats add to it: `0.3`, and `1` for 1.0."""
    if type(amount) is int:
        return amount
    rounded = round(amount, _SHARE_DIGITS)
    return int(rounded) if rounded == int(rounded) else rounded


def total(amounts: Iterable[Gpus]) -> Gpus:
    """Return the sum of amounts."""
    return exact(sum(amounts))


MAX_QUOTA = 10**15
"""Larger quotas are mistakes; the bound keeps them exact as floats."""


def gpu_quantity(value: Any) -> float | None:
    """Return a quantity of GPUs between 0 and 1e15; None if it is absent or malformed."""
    if type(value) is int:
        return float(min(max(value, 0), MAX_QUOTA))
    exact = parse_quantity(value) if type(value) in (str, float) else None
    return None if exact is None else float(min(max(exact, Fraction(0)), Fraction(MAX_QUOTA)))
