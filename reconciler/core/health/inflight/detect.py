"""Detectors: a job that hangs, and a job that one GPU slows down. Missing data is reported, and is never a finding."""

from collections.abc import Sequence
from enum import StrEnum
from statistics import median
from typing import Literal

from msgspec import Struct

from reconciler.core.health.inflight.series import JobSample, JobSeries, known, percentile, robust_scores
from reconciler.core.values import plural


class JobSignal(StrEnum):
    """One independent sign that a job hangs."""

    HEARTBEAT = "heartbeat"  # the job has not said anything for long
    TRAFFIC = "traffic"  # GPUs exchange nothing
    POWER = "power"  # GPUs look busy and use little power: they spin in a collective operation
    IDLE = "idle"  # no GPU does anything


class JobLimits(Struct, frozen=True, kw_only=True):
    """When a job counts as hung or slow. Times are in seconds, shares of what is normal for this job."""

    hang: float = 600.0
    hang_steps: float = 5.0  # times the 99th percentile of a step
    heartbeat: float = 300.0
    heartbeat_steps: float = 10.0  # times the median of a step
    busy: float = 95.0  # percent
    busy_share: float = 0.9
    power_share: float = 0.5
    traffic_share: float = 0.001
    slow: float = 0.10
    slow_for: float = 600.0
    score: float = 4.0


class SuspectGpu(Struct, frozen=True, kw_only=True, order=True):
    """A GPU that differs from all others of its job, and in what."""

    node: str
    slot: str
    why: str


class JobProblem(Struct, frozen=True, kw_only=True):
    """What a detector says. signals: the independent signs of a hang. slowdown: step time over normal, 1 is normal.

    since: when it began, in seconds since the epoch.

    `may_act`: at least two independent signs; without them the owner is notified, and nothing else may follow.
    """

    kind: Literal["hung", "straggling"]
    message: str
    signals: tuple[JobSignal, ...] = ()
    slowdown: float = 1.0
    suspects: tuple[SuspectGpu, ...] = ()
    since: float = 0.0

    @property
    def may_act(self) -> bool:
        """Whether anything but a message may follow."""
        return len(self.signals) >= 2 or bool(self.suspects)  # noqa: PLR2004 - two independent signs


def find_hang(series: JobSeries, limits: JobLimits) -> JobProblem | None:
    """Return the hang of a job: no progress, and GPUs that spin or idle, all the time, without a checkpoint."""
    normal = series.warm()
    steps = known(one.step_seconds for one in normal)
    window = max(limits.hang, limits.hang_steps * percentile(steps, 0.99))
    recent = series.last(window)
    before = [one for one in normal if recent and one.at < recent[0].at]
    if not recent or not before or any(one.checkpoint for one in recent):
        return None
    progress = _stalled(before, recent, steps, limits)
    state = _spinning(before, recent, limits)
    if not progress or state is None:
        return None
    minutes = round((recent[-1].at - recent[0].at) / 60)
    said = {
        JobSignal.HEARTBEAT: "no heartbeat",
        JobSignal.TRAFFIC: "no traffic between GPUs",
        JobSignal.POWER: "GPUs spin at a fraction of their power",
        JobSignal.IDLE: "all GPUs are idle",
    }
    signals = (*progress, state)
    text = f"no progress for {minutes} min: {', '.join(said[one] for one in signals)}"
    return JobProblem(kind="hung", message=text, signals=signals, since=recent[0].at)


def _stalled(
    before: Sequence[JobSample], recent: Sequence[JobSample], steps: Sequence[float], limits: JobLimits
) -> tuple[JobSignal, ...]:
    """Return the signs that the job makes no progress; what is not measured is not a sign."""
    found = []
    ages = known(one.heartbeat_age for one in recent)
    limit = max(limits.heartbeat, limits.heartbeat_steps * (median(steps) if steps else 0.0))
    if ages and ages[-1] > limit:
        found.append(JobSignal.HEARTBEAT)
    usual, now = known(one.bytes_per_second for one in before), known(one.bytes_per_second for one in recent)
    if usual and len(now) == len(recent) and median(usual) > 0 and max(now) <= limits.traffic_share * median(usual):
        found.append(JobSignal.TRAFFIC)
    return tuple(found)


def _spinning(before: Sequence[JobSample], recent: Sequence[JobSample], limits: JobLimits) -> JobSignal | None:
    usual = median(one.watts for one in before)
    if all(all(gpu.utilization == 0 for gpu in one.gpus) for one in recent):
        return JobSignal.IDLE
    is_low = all(one.watts < limits.power_share * usual for one in recent)
    return JobSignal.POWER if is_low and all(_is_busy(one, limits) for one in recent) else None


def _is_busy(sample: JobSample, limits: JobLimits) -> bool:
    busy = sum(gpu.utilization >= limits.busy for gpu in sample.gpus)
    return bool(sample.gpus) and busy >= limits.busy_share * len(sample.gpus)


def find_straggler(series: JobSeries, limits: JobLimits) -> JobProblem | None:
    """Return the slowdown of a job, and the GPUs behind it. None found means that it is not the hardware."""
    recent = series.last(limits.slow_for)
    before = [one for one in series.warm() if recent and one.at < recent[0].at]
    usual, now = known(one.step_seconds for one in before), known(one.step_seconds for one in recent)
    if not usual or not now or min(now) <= (1 + limits.slow) * median(usual):
        return None
    slowdown = median(now) / median(usual)
    suspects = _suspects(recent, limits)
    if suspects:
        first = suspects[0]
        named = f"{first.node} {first.slot} ({first.why})" + (f" and {len(suspects) - 1} more" if suspects[1:] else "")
        text = f"steps take {slowdown:.2f} times as long; {plural(len(suspects), 'GPU')} differ: {named}"
    else:
        text = f"steps take {slowdown:.2f} times as long; no GPU differs from the others, so it is not the hardware"
    return JobProblem(kind="straggling", message=text, slowdown=slowdown, suspects=suspects, since=recent[0].at)


def _suspects(recent: Sequence[JobSample], limits: JobLimits) -> tuple[SuspectGpu, ...]:
    """Return the GPUs that are outliers in the same way in most samples."""
    votes: dict[SuspectGpu, int] = {}
    for sample in recent:
        for suspect in {*_outliers(sample, limits)}:
            votes[suspect] = votes.get(suspect, 0) + 1
    return tuple(sorted(one for one, count in votes.items() if 2 * count > len(recent)))


def _outliers(sample: JobSample, limits: JobLimits) -> list[SuspectGpu]:
    gpus = sample.gpus
    found = []
    throttled = [gpu for gpu in gpus if gpu.throttled]
    if 2 * len(throttled) < len(gpus):
        found += [SuspectGpu(node=gpu.node, slot=gpu.slot, why="throttled") for gpu in throttled]
    rows = (
        ("lower clock", [-gpu.clock for gpu in gpus]),
        ("hotter", [gpu.celsius for gpu in gpus]),
        ("link errors", [float(gpu.errors) for gpu in gpus]),
        ("less power", [-gpu.watts for gpu in gpus]),
    )
    for why, values in rows:
        for gpu, score in zip(gpus, robust_scores(values), strict=True):
            if score >= limits.score and len(gpus) > 2:  # noqa: PLR2004 - of two, nobody knows which is wrong
                found.append(SuspectGpu(node=gpu.node, slot=gpu.slot, why=why))
    return found
