"""Figures of repeated measurements: percentiles, and how the noise looks."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pstdev


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which a part of the values are: the nearest one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def noise(values: Sequence[float]) -> dict[str, float]:
    """Return the variation of repeated measurements: relative deviation, skew, and correlation with the one before."""
    mean, deviation = fmean(values), pstdev(values)
    if deviation == 0 or mean == 0:
        return {"n": len(values), "mean": round(mean, 4), "cv": 0.0, "skew": 0.0, "lag1": 0.0}
    parts = [(value - mean) / deviation for value in values]
    lagged = [one * other for one, other in pairwise(parts)]
    return {
        "n": len(values),
        "mean": round(mean, 4),
        "best": round(max(values), 4),
        "cv": round(deviation / mean, 6),
        "skew": round(fmean(part**3 for part in parts), 4),
        "lag1": round(sum(lagged) / len(values), 4),
    }
