"""Counters over several sweeps: how much one grew, and how fast. One that fell was reset, and counts from there."""

from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct

from reconciler.nodehealth.checks.check import DAY, CheckInput, Unmeasured, as_number
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.readings import ReadingId, Sweep


class CounterChange(Struct, frozen=True, kw_only=True):
    """The growth of a counter, its duration, and the number of sweeps."""

    difference: float
    seconds: float
    samples: int

    @property
    def per_second(self) -> float:
        """The rate."""
        return self.difference / self.seconds


def change(
    given: CheckInput, name: ReadingId, key: str = "", *, seconds: float, any_boot: bool = False
) -> CounterChange | None:
    """Return how a counter changed within a time, up to the last sweep; None without an earlier value.

    `any_boot` is for counters that the device keeps when it is restarted.
    """
    points = [
        (sweep.taken_at, value)
        for sweep in (*given.earlier(seconds, any_boot=any_boot), given.sweep)
        if (value := _value(sweep, name, key, given.slot)) is not None
    ]
    if len(points) < 2 or points[-1][0] != given.sweep.taken_at:  # noqa: PLR2004 - a change needs two
        return None
    grown = sum(
        max(0.0, later - earlier) if later >= earlier else later for (_, earlier), (_, later) in pairwise(points)
    )
    return CounterChange(difference=grown, seconds=points[-1][0] - points[0][0], samples=len(points))


def rate(given: CheckInput, name: ReadingId, key: str = "", *, seconds: float) -> CounterChange:
    """Return how a counter changed. Raises `Unmeasured`: SKIP without an earlier sweep, or why it cannot be read."""
    given.field(name, key) if key else given.number(name)
    found = change(given, name, key, seconds=seconds)
    if found is None:
        raise Unmeasured(CheckStatus.SKIP, f"{name}: a rate needs an earlier sweep")
    return found


def since_zero(given: CheckInput, name: ReadingId, key: str = "", *, seconds: float) -> CounterChange:
    """Return how a counter changed; no change where it is 0 now, with or without an earlier sweep."""
    value = given.field(name, key) if key else given.number(name)
    if value == 0 and change(given, name, key, seconds=seconds) is None:
        return CounterChange(difference=0.0, seconds=seconds, samples=1)
    return rate(given, name, key, seconds=seconds)


def lasting(given: CheckInput, seconds: float, holds: Callable[[CheckInput], bool]) -> bool:
    """Say whether something held in every sweep of a time up to now, with sweeps from most of that time."""
    sweeps = given.earlier(seconds)
    return (
        bool(sweeps)
        and given.sweep.taken_at - sweeps[0].taken_at >= seconds * _COVERED
        and holds(given)
        and all(_holds(given.at(sweep), holds) for sweep in sweeps)
    )


def in_a_row(given: CheckInput, holds: Callable[[CheckInput], bool]) -> int:
    """Return in how many sweeps in a row, up to this one, something held."""
    count = 0
    for sweep in (given.sweep, *reversed(given.earlier(DAY))):
        if not _holds(given.at(sweep), holds):
            break
        count += 1
    return count


_COVERED = 0.9


def _holds(given: CheckInput, holds: Callable[[CheckInput], bool]) -> bool:
    try:
        return holds(given)
    except Unmeasured:
        return False


def _value(sweep: Sweep, name: ReadingId, key: str, slot: str) -> float | None:
    reading = sweep.find(name, slot)
    if reading is None or reading.error is not None:
        return None
    value = reading.value
    number = as_number(value.get(key) if key and isinstance(value, dict) else None if key else value)
    return number if number is not None and number >= 0 else None
