"""What follows from a problem of a job: its owner is notified; everything else is proposed with its cost."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from reconciler.core.health.inflight.detect import JobProblem
from reconciler.core.values import plural

MAX_RESTARTS, RESTART_WINDOW = 3, 3600.0
"""Restarts for hardware within an hour after which a job is taken for the cause itself."""


class OnHang(StrEnum):
    """What a policy allows for a job that hangs."""

    NOTIFY = "notify"
    RESTART = "restart"
    STOP = "stop"


class JobMove(StrEnum):
    """What is decided about a job."""

    NOTIFY = "notify"
    WAIT = "wait"  # a restart would cost more than what is lost so far
    RESTART = "restart"
    STOP = "stop"
    MOVE = "move"  # propose to run it without the suspect nodes


class RunningJob(Struct, frozen=True, kw_only=True):
    """A job that has a problem. checkpoint_age: seconds of work that a restart repeats; None: not known.

    slow_for: seconds since the slowdown began. restarts: when it was restarted for hardware (epoch), and where.
    """

    gpus: int
    checkpoint_age: float | None = None
    restart_seconds: float = 300.0
    slow_for: float = 0.0
    restarts: Sequence[tuple[float, str]] = ()


class JobDecision(Struct, frozen=True, kw_only=True):
    """A decision and its reason, with the figures behind it."""

    move: JobMove
    reason: str


def decide(problem: JobProblem, job: RunningJob, now: float, on_hang: OnHang = OnHang.NOTIFY) -> JobDecision:
    """Return what to do. A job that failed on several nodes within an hour is the cause, and nodes are left alone."""
    recent = [(at, node) for at, node in job.restarts if now - at < RESTART_WINDOW]
    if len(recent) >= MAX_RESTARTS and len({node for _, node in recent}) > 1:
        text = f"restarted {len(recent)} times within an hour on different nodes: it is the application"
        return JobDecision(move=JobMove.NOTIFY, reason=text)
    if problem.kind == "hung":
        return _hung(problem, job, on_hang)
    return _slow(problem, job)


def _hung(problem: JobProblem, job: RunningJob, on_hang: OnHang) -> JobDecision:
    if on_hang is OnHang.NOTIFY:
        lost = f"{plural(job.gpus, 'GPU')} waiting, {_hours(job.gpus * job.slow_for)} GPU hours so far"
        text = f"{problem.message}; {lost}; {_cost(job)}; the policy is to notify"
        return JobDecision(move=JobMove.NOTIFY, reason=text)
    if not problem.may_act:
        return JobDecision(move=JobMove.NOTIFY, reason=f"{problem.message}; one sign alone is not enough to act")
    if job.checkpoint_age is None:
        return JobDecision(move=JobMove.NOTIFY, reason=f"{problem.message}; the age of its checkpoint is not known")
    cost = _hours(job.gpus * (job.checkpoint_age + job.restart_seconds))
    move = JobMove.RESTART if on_hang is OnHang.RESTART else JobMove.STOP
    return JobDecision(move=move, reason=f"{problem.message}; a restart repeats {cost} GPU hours")


def _cost(job: RunningJob) -> str:
    """Return what a restart costs, as far as it is known."""
    if job.checkpoint_age is None:
        return f"a restart costs {_hours(job.gpus * job.restart_seconds)} and what was done since the last checkpoint"
    return f"a restart costs {_hours(job.gpus * (job.checkpoint_age + job.restart_seconds))}"


def _slow(problem: JobProblem, job: RunningJob) -> JobDecision:
    """Wait as long as waiting has cost less than a restart: never more than twice the cost of the best choice."""
    if not problem.suspects:
        return JobDecision(move=JobMove.NOTIFY, reason=problem.message)
    if job.checkpoint_age is None:
        return JobDecision(move=JobMove.NOTIFY, reason=f"{problem.message}; the age of its checkpoint is not known")
    rate = (1 - 1 / problem.slowdown) * job.gpus
    lost, cost = rate * job.slow_for, job.gpus * (job.checkpoint_age + job.restart_seconds)
    text = (
        f"{problem.message}; it loses {rate:.1f} GPU hours an hour, {_hours(lost)} so far, "
        f"and a restart costs {_hours(cost)}"
    )
    return JobDecision(move=JobMove.MOVE if lost >= cost else JobMove.WAIT, reason=text)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f}"
