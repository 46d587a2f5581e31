"""One measured GPU: from samples to covered, busy and idle hours, energy, and the trend of its use."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from reconciler.repo.evidence.utilisation import IDLE_PERCENT

Samples = Sequence[tuple[float, float]]
"""Times in seconds since the epoch, ascending, and values."""

_Hour = tuple[float, float, int]
_HOUR = 3600.0
_MAX_GAP = 1.5  # steps; over more than that nothing is known
_FEW = 2


class GpuHours(Struct, frozen=True, kw_only=True):
    """The known figures of a GPU: hours, the highest percent, and energy.

    covered: hours for which there are samples; only these are busy or idle. busy: full-load hours, their mean times
    covered. hourly: of each hour the sum of the times, the sum of the percents, and their number.
    """

    covered: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    peak: float | None = None
    kwh: float | None = None
    hourly: Mapping[int, _Hour] = {}


class Trend(Struct, frozen=True, kw_only=True):
    """A straight line through values over hours: how much it rises per hour, and how well it fits (R²)."""

    slope: float
    r2: float


def measure(busy: Samples, power: Samples, step: float) -> GpuHours:
    """Return what samples of percent and of watts say. Each stands for one step, however long the next one takes."""
    hours = step / _HOUR
    hourly: dict[int, _Hour] = {}
    for time, value in busy:
        _add(hourly, int(time // _HOUR), (time, value, 1))
    return GpuHours(
        covered=len(busy) * hours,
        busy=sum(value for _, value in busy) * hours / 100,
        idle=sum(value < IDLE_PERCENT for _, value in busy) * hours,
        peak=max((value for _, value in busy), default=None),
        kwh=energy(power, step),
        hourly=hourly,
    )


def energy(power: Samples, step: float) -> float | None:
    """Return the kWh of samples in watts: trapezoids between neighbours; None without two of them.

    Over a gap there is no energy, because nothing says what was drawn there.
    """
    pairs = [
        (later[0] - earlier[0], (later[1] + earlier[1]) / 2)
        for earlier, later in pairwise(power)
        if 0 < later[0] - earlier[0] <= _MAX_GAP * step
    ]
    return sum(seconds * watts for seconds, watts in pairs) / _HOUR / 1000 if pairs else None


def trend(points: Samples) -> Trend | None:
    """Return the trend of values over time by least squares; None for fewer than two points in time.

    A line fits a constant series perfectly and explains nothing of it: R² is 0.
    """
    if len({time for time, _ in points}) < _FEW:
        return None
    hours = [(time - points[0][0]) / _HOUR for time, _ in points]
    values = [value for _, value in points]
    slope = statistics.linear_regression(hours, values).slope
    is_constant = max(values) == min(values)
    return Trend(slope=slope, r2=0.0 if is_constant else statistics.correlation(hours, values) ** 2)


def hourly_means(gpus: Iterable[GpuHours]) -> list[tuple[float, float]]:
    """Return the mean percent of several GPUs in each hour that any of them covers, at the mean of their times."""
    sums: dict[int, _Hour] = {}
    for gpu in gpus:
        for hour, found in gpu.hourly.items():
            _add(sums, hour, found)
    return [(times / number, total / number) for _, (times, total, number) in sorted(sums.items())]


def _add(sums: dict[int, _Hour], hour: int, found: _Hour) -> None:
    times, total, number = sums.get(hour, (0.0, 0.0, 0))
    sums[hour] = times + found[0], total + found[1], number + found[2]
