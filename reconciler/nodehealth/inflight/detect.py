"""Detectors: a job that hangs, and a job whose throughput falls. Missing data is reported, and is never a finding."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import plural

WARM_UP_SECONDS, WARM_UP_STEPS = 600.0, 10
_FINE, _COARSE, _MAX_LENGTH = 3600.0, 600.0, 4 * 3600.0


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
        elif age <= _MAX_LENGTH:
            kept.setdefault(("coarse", one.at // _COARSE), one)
    return replace(series, samples=tuple(sorted(kept.values(), key=lambda one: one.at)))


def known(values: Iterable[float | None]) -> list[float]:
    """Return the values that were measured."""
    return [value for value in values if value is not None]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of all values does not exceed; 0 without values."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


class ProblemKind(StrEnum):
    """The check that found a problem of a running job."""

    HUNG = "hung"
    SLOW = "slow"


class JobSignal(StrEnum):
    """One independent sign that a job hangs."""

    HEARTBEAT = "heartbeat"  # the job has not said anything for long
    TRAFFIC = "traffic"  # GPUs exchange nothing
    POWER = "power"  # GPUs look busy and use little power: they spin in a collective operation
    IDLE = "idle"  # no GPU does anything


class JobLimits(Struct, frozen=True, kw_only=True):
    """The limits for hung and slow jobs. Times are in seconds, shares of what is normal for this job."""

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


class JobProblem(Struct, frozen=True, kw_only=True):
    """The result of a detector. signals: the independent signs of a hang. slowdown: step time over normal, 1 is normal.

    since: its start, in seconds since the epoch.
    """

    kind: ProblemKind
    message: str
    signals: tuple[JobSignal, ...] = ()
    slowdown: float = 1.0
    since: float = 0.0


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
    return JobProblem(kind=ProblemKind.HUNG, message=text, signals=signals, since=recent[0].at)


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


def find_slowdown(series: JobSeries, limits: JobLimits) -> JobProblem | None:
    """Return the fall of a job's throughput: steps that take longer than normal, all the time."""
    recent = series.last(limits.slow_for)
    before = [one for one in series.warm() if recent and one.at < recent[0].at]
    usual, now = known(one.step_seconds for one in before), known(one.step_seconds for one in recent)
    if not usual or not now or min(now) <= (1 + limits.slow) * median(usual):
        return None
    slowdown = median(now) / median(usual)
    text = f"throughput fell to {1 / slowdown:.0%}: steps take {slowdown:.2f} times as long"
    return JobProblem(kind=ProblemKind.SLOW, message=text, slowdown=slowdown, since=recent[0].at)


class JobMove(StrEnum):
    """A decision about a job."""

    NOTIFY = "notify"
    CONTINUE = "continue"  # a restart would cost more than the loss so far
    RESTART = "restart"
    STOP = "stop"


class RunningJob(Struct, frozen=True, kw_only=True):
    """A job that has a problem. checkpoint_age: seconds of work that a restart repeats; None: not known.

    affected_for: seconds since the problem began. on_problem: the strongest move that its policy allows.
    """

    gpus: int
    checkpoint_age: float | None = None
    restart_seconds: float = 300.0
    affected_for: float = 0.0
    on_problem: JobMove = JobMove.NOTIFY

    @property
    def restart_cost(self) -> float | None:
        """The GPU seconds of a restart; None: not known."""
        if self.checkpoint_age is None:
            return None
        return self.gpus * (self.checkpoint_age + self.restart_seconds)


class JobDecision(Struct, frozen=True, kw_only=True):
    """A decision and its reason, with the figures behind it."""

    move: JobMove
    reason: str


def decide(problem: JobProblem, job: RunningJob) -> JobDecision:
    """Return the decision: at least two signs of a hang, or a loss as high as the cost of a restart, allow a move."""
    rate = (1 - 1 / problem.slowdown if problem.kind is ProblemKind.SLOW else 1.0) * job.gpus
    lost, cost = rate * job.affected_for, job.restart_cost
    state = "waiting" if problem.kind is ProblemKind.HUNG else "slow"
    text = f"{problem.message}; {plural(job.gpus, 'GPU')} {state}, {_hours(lost)} GPU hours so far; {_cost(job)}"
    if job.on_problem is JobMove.NOTIFY:
        return JobDecision(move=JobMove.NOTIFY, reason=f"{text}; the policy is to notify")
    if cost is None:
        return JobDecision(move=JobMove.NOTIFY, reason=f"{text}; the age of its checkpoint is not known")
    if problem.kind is ProblemKind.HUNG:
        if len(problem.signals) < _SIGNS:
            return JobDecision(move=JobMove.NOTIFY, reason=f"{text}; one sign alone is not enough to act")
        return JobDecision(move=job.on_problem, reason=text)
    return JobDecision(move=job.on_problem if lost >= cost else JobMove.CONTINUE, reason=text)


_SIGNS = 2


def _cost(job: RunningJob) -> str:
    cost = job.restart_cost
    if cost is None:
        return f"a restart costs {_hours(job.gpus * job.restart_seconds)} and what was done since the last checkpoint"
    return f"a restart costs {_hours(cost)}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f}"
