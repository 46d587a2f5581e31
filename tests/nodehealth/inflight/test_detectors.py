"""Hangs and slowdowns on recorded series, and the decisions about them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.nodehealth.inflight.detect import (
    GpuActivity,
    JobLimits,
    JobMove,
    JobProblem,
    JobSample,
    JobSeries,
    JobSignal,
    ProblemKind,
    RunningJob,
    decide,
    find_hang,
    find_slowdown,
)

LIMITS = JobLimits()
STEP = 30.0


def gpus(watts: float = 600.0, utilization: float = 100.0) -> tuple[GpuActivity, ...]:
    """Return the GPUs of two nodes."""
    return tuple(
        GpuActivity(
            node=f"node-{index // 8}", slot=f"slot-{index % 8}", watts=watts + index % 3, utilization=utilization
        )
        for index in range(16)
    )


def sample(at: float, **fields: Any) -> JobSample:
    usual: dict[str, Any] = {
        "bytes_per_second": 1e9,
        "step_seconds": 10.0,
        "heartbeat_age": 5.0,
        "steps": int(at // 10),
    }
    return JobSample(at=at, **{"gpus": gpus(), **usual, **fields})


def series(healthy: int = 60, after: int = 30, **fields: Any) -> JobSeries:
    """Return half an hour of normal work, and then a quarter of an hour with other values."""
    rows = [sample(number * STEP) for number in range(healthy)]
    rows += [sample((healthy + number) * STEP, **fields) for number in range(after)]
    return JobSeries(namespace="team-a", name="train", samples=tuple(rows))


HUNG: dict[str, Any] = {"gpus": gpus(200.0), "bytes_per_second": 0.0, "heartbeat_age": 900.0, "step_seconds": None}


def test_a_stalled_collective_is_a_hang_with_three_signs() -> None:
    """F-097: full utilization, a third of the power, no traffic, no heartbeat."""
    found = find_hang(series(**HUNG), LIMITS)
    assert found is not None
    assert found.signals == (JobSignal.HEARTBEAT, JobSignal.TRAFFIC, JobSignal.POWER)
    assert found.message.startswith("no progress for 10 min: no heartbeat, no traffic")


def test_idle_gpus_without_heartbeat_hang() -> None:
    found = find_hang(series(gpus=gpus(90.0, 0.0), heartbeat_age=900.0), LIMITS)
    assert found is not None
    assert found.signals == (JobSignal.HEARTBEAT, JobSignal.IDLE)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {**HUNG, "checkpoint": True},
        {**HUNG, "bytes_per_second": 1e9, "heartbeat_age": 5.0},
        {**HUNG, "bytes_per_second": None, "heartbeat_age": None},
        {**HUNG, "gpus": gpus(500.0)},
        {**HUNG, "gpus": gpus(200.0, 50.0)},
    ],
    ids=["working", "checkpoint", "makes progress", "nothing is measured", "full power", "evaluation"],
)
def test_what_is_no_hang(fields: dict[str, Any]) -> None:
    assert find_hang(series(**fields), LIMITS) is None


def test_a_short_pause_a_gap_and_the_warm_up_are_no_hang() -> None:
    assert find_hang(series(after=15, **HUNG), LIMITS) is None, "7 minutes"
    whole = series(**HUNG)
    gap = replace(whole, samples=(*whole.samples[:62], whole.samples[-1]))
    assert find_hang(gap, LIMITS) is None, "nobody measured"
    assert find_hang(series(healthy=10, **HUNG), LIMITS) is None, "nothing normal is known"
    assert find_hang(JobSeries(namespace="a", name="b", samples=()), LIMITS) is None


def test_long_steps_need_a_longer_silence() -> None:
    slow = series(**HUNG)
    rows = tuple(replace(one, step_seconds=one.step_seconds and 400.0) for one in slow.samples)
    assert find_hang(replace(slow, samples=rows), LIMITS) is None, "five steps are 33 minutes"


def test_a_job_whose_throughput_falls_is_slow() -> None:
    """F-097: by the time of its steps, against what is normal for the job; without step times nothing is known."""
    found = find_slowdown(series(step_seconds=13.0), LIMITS)
    assert found is not None
    assert found.slowdown == pytest.approx(1.3)
    assert found.message == "throughput fell to 77%: steps take 1.30 times as long"
    assert find_slowdown(series(step_seconds=10.5), LIMITS) is None
    assert find_slowdown(series(step_seconds=None), LIMITS) is None
    assert find_slowdown(series(after=15, step_seconds=13.0), LIMITS) is None, "7 minutes"


HANG = JobProblem(kind=ProblemKind.HUNG, message="no progress", signals=(JobSignal.HEARTBEAT, JobSignal.POWER))
SLOW = JobProblem(kind=ProblemKind.SLOW, message="slow", slowdown=1.25)


def test_the_default_is_to_notify() -> None:
    """F-097: nothing is stopped unless a policy says so, two signs agree and the checkpoint is known."""
    job = RunningJob(gpus=16, checkpoint_age=600.0)
    assert decide(HANG, job).move is JobMove.NOTIFY
    assert decide(HANG, replace(job, on_problem=JobMove.RESTART)).move is JobMove.RESTART
    stops = replace(job, on_problem=JobMove.STOP)
    assert decide(HANG, stops).move is JobMove.STOP
    one = decide(replace(HANG, signals=(JobSignal.IDLE,)), stops)
    assert (one.move, "one sign alone" in one.reason) == (JobMove.NOTIFY, True)
    assert decide(HANG, replace(stops, checkpoint_age=None)).move is JobMove.NOTIFY


def test_the_cost_is_in_the_text() -> None:
    job = RunningJob(gpus=16, checkpoint_age=1500.0, affected_for=3600.0, on_problem=JobMove.RESTART)
    waits = decide(SLOW, job)
    assert waits.move is JobMove.CONTINUE
    assert waits.reason == "slow; 16 GPUs slow, 3.2 GPU hours so far; a restart costs 8.0"
    assert decide(SLOW, replace(job, affected_for=9001.0)).move is JobMove.RESTART
    unknown = replace(job, checkpoint_age=None, on_problem=JobMove.NOTIFY)
    assert decide(HANG, unknown).reason == (
        "no progress; 16 GPUs waiting, 16.0 GPU hours so far; a restart costs 1.3 and what was done since the last checkpoint; "
        "the policy is to notify"
    )


@given(
    slowdown=st.floats(1.11, 5.0),
    gpus=st.integers(1, 4096),
    age=st.floats(0.0, 7200.0),
    ends=st.floats(60.0, 20000.0),
)
def test_waiting_costs_at_most_twice_the_best_choice(slowdown: float, gpus: int, age: float, ends: float) -> None:
    """F-097: whenever the slowdown would have ended by itself, as for renting or buying skis."""
    problem = replace(SLOW, slowdown=slowdown)
    job = RunningJob(gpus=gpus, checkpoint_age=age, on_problem=JobMove.RESTART)
    rate, restart = (1 - 1 / slowdown) * gpus, gpus * (age + 300.0)
    moved = next(
        (
            at
            for at in range(0, int(ends), 60)
            if decide(problem, replace(job, affected_for=at)).move is JobMove.RESTART
        ),
        None,
    )
    paid = rate * ends if moved is None else rate * moved + restart
    assert paid <= 2 * min(rate * ends, restart) + rate * 60
