"""`JobSeries`: what was measured of a running job, and what is normal for it."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

WARM_UP_SECONDS, WARM_UP_STEPS = 600.0, 10
_FINE, _COARSE, _LONGEST = 3600.0, 600.0, 4 * 3600.0


class GpuActivity(Struct, frozen=True, kw_only=True):
    """One GPU at one time."""

    node: str
    slot: str
    watts: float
    utilization: float  # percent


class JobSample(Struct, frozen=True, kw_only=True):
    """A job at one time. Unknown is None: bytes moved between GPUs per second, seconds of a step, age of the heartbeat.

    checkpoint: whether the job says that it writes one. steps: completed so far.
    """

    at: float
    gpus: tuple[GpuActivity, ...]
    bytes_per_second: float | None = None
    step_seconds: float | None = None
    heartbeat_age: float | None = None
    checkpoint: bool = False
    steps: int | None = None

    @property
    def watts(self) -> float:
        """Power of all GPUs."""
        return sum(gpu.watts for gpu in self.gpus)


class JobSeries(Struct, frozen=True, kw_only=True):
    """Samples of one job, the oldest first.

    disturbed_since: when a problem began; what came then is not normal. 0: it works.
    """

    namespace: str
    name: str
    samples: tuple[JobSample, ...] = ()
    disturbed_since: float = 0.0

    def warm(self) -> Sequence[JobSample]:
        """Return the samples of normal work after the warm-up: compilation and the first steps say nothing."""
        if not self.samples:
            return ()
        begun = self.samples[0].at
        return [
            one
            for one in self.samples
            if one.at - begun >= WARM_UP_SECONDS and (one.steps is None or one.steps >= WARM_UP_STEPS)
            if not self.disturbed_since or one.at < self.disturbed_since
        ]

    def marked(self, since: float) -> "JobSeries":
        """Return the series of a job that is disturbed since then; 0: it works again, and forgets the disturbance."""
        if self.disturbed_since and not since:
            kept = tuple(one for one in self.samples[:-1] if one.at < self.disturbed_since)
            return replace(self, samples=(*kept, *self.samples[-1:]), disturbed_since=0.0)
        return replace(self, disturbed_since=self.disturbed_since or since)

    def last(self, seconds: float) -> Sequence[JobSample]:
        """Return the samples of the last `seconds`; nothing if the series is shorter or has a gap of a third of it."""
        if not self.samples:
            return ()
        end = self.samples[-1].at
        chosen = [one for one in self.samples if one.at >= end - seconds]
        if chosen[0].at > end - seconds + seconds / 3 or self.samples[0].at > end - seconds:
            return ()
        gaps = [after.at - before.at for before, after in pairwise(chosen)]
        return () if max(gaps, default=seconds) > seconds / 3 else chosen


def extended(series: JobSeries, sample: JobSample) -> JobSeries:
    """Return the series with a newer sample: all of the last hour, one in ten minutes of four hours, and the first.

    The hours before a hang are counted from its beginning, so that what is normal outlives it.
    """
    kept: dict[tuple[str, float], JobSample] = {}
    for number, one in enumerate((*series.samples, sample)):
        is_normal = bool(series.disturbed_since) and one.at < series.disturbed_since
        age = (series.disturbed_since if is_normal else sample.at) - one.at
        if number == 0 or age <= _FINE:
            kept["", one.at] = one
        elif age <= _LONGEST:
            kept.setdefault(("coarse", one.at // _COARSE), one)
    return replace(series, samples=tuple(sorted(kept.values(), key=lambda one: one.at)))


def known(values: Iterable[float | None]) -> list[float]:
    """Return the values that were measured."""
    return [value for value in values if value is not None]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of all values does not exceed; 0 without values."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
