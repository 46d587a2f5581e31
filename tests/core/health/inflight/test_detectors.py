"""Hangs and stragglers on recorded series, and what is decided about them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.core.health.inflight.decide import JobMove, OnHang, RunningJob, decide
from reconciler.core.health.inflight.detect import (
    JobLimits,
    JobProblem,
    JobSignal,
    SuspectGpu,
    find_hang,
    find_straggler,
)
from reconciler.core.health.inflight.series import GpuActivity, JobSample, JobSeries

LIMITS = JobLimits()
STEP = 30.0


def gpus(watts: float = 600.0, utilization: float = 100.0, /, count: int = 16, **odd: Any) -> tuple[GpuActivity, ...]:
    """Return the GPUs of two nodes; `odd` are fields of the fourth."""
    rows = [
        GpuActivity(
            node=f"node-{index // 8}",
            slot=f"slot-{index % 8}",
            watts=watts + index % 3,
            utilization=utilization,
            clock=1900.0 + index % 3,
            celsius=60.0 + index % 3,
        )
        for index in range(count)
    ]
    return tuple(replace(row, **odd) if index == 3 else row for index, row in enumerate(rows))


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
    assert found.may_act
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


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"throttled": True}, "throttled"),
        ({"clock": 1200.0}, "lower clock"),
        ({"celsius": 95.0}, "hotter"),
        ({"errors": 50}, "link errors"),
        ({"watts": 300.0}, "less power"),
    ],
)
def test_a_gpu_that_slows_a_job_down_is_named(odd: dict[str, Any], why: str) -> None:
    """F-097: the guilty GPU among sixteen."""
    found = find_straggler(series(step_seconds=13.0, gpus=gpus(**odd)), LIMITS)
    assert found is not None
    assert found.suspects == (SuspectGpu(node="node-0", slot="slot-3", why=why),)
    assert found.slowdown == pytest.approx(1.3)


def test_a_slow_job_without_a_different_gpu_is_not_the_hardware() -> None:
    found = find_straggler(series(step_seconds=13.0), LIMITS)
    assert found is not None
    assert (found.suspects, found.may_act) == ((), False)
    assert "not the hardware" in found.message
    assert find_straggler(series(step_seconds=10.5), LIMITS) is None
    assert find_straggler(series(step_seconds=None), LIMITS) is None


HANG = JobProblem(kind="hung", message="no progress", signals=(JobSignal.HEARTBEAT, JobSignal.POWER))
SLOW = JobProblem(
    kind="straggling", message="slow", slowdown=1.25, suspects=(SuspectGpu(node="n", slot="s", why="hotter"),)
)


def test_the_default_is_to_notify() -> None:
    """F-097: nothing is stopped unless a policy says so, two signs agree and the checkpoint is known."""
    job = RunningJob(gpus=16, checkpoint_age=600.0)
    assert decide(HANG, job, 0.0).move is JobMove.NOTIFY
    assert decide(HANG, job, 0.0, OnHang.RESTART).move is JobMove.RESTART
    assert decide(HANG, job, 0.0, OnHang.STOP).move is JobMove.STOP
    one = replace(HANG, signals=(JobSignal.IDLE,))
    assert decide(one, job, 0.0, OnHang.STOP).move is JobMove.NOTIFY
    assert decide(HANG, RunningJob(gpus=16), 0.0, OnHang.STOP).move is JobMove.NOTIFY
    often = replace(job, restarts=((0.0, "a"), (60.0, "b"), (120.0, "c")))
    assert "it is the application" in decide(HANG, often, 130.0, OnHang.RESTART).reason
    assert decide(HANG, often, 4000.0, OnHang.RESTART).move is JobMove.RESTART


def test_the_cost_is_in_the_text() -> None:
    job = RunningJob(gpus=16, checkpoint_age=1500.0, slow_for=3600.0)
    waits = decide(SLOW, job, 0.0)
    assert waits.move is JobMove.WAIT
    assert waits.reason == "slow; it loses 3.2 GPU hours an hour, 3.2 so far, and a restart costs 8.0"
    assert decide(SLOW, replace(job, slow_for=9001.0), 0.0).move is JobMove.MOVE


@given(
    slowdown=st.floats(1.11, 5.0),
    gpus=st.integers(1, 4096),
    age=st.floats(0.0, 7200.0),
    ends=st.floats(60.0, 1e6),
)
def test_waiting_costs_at_most_twice_the_best_choice(slowdown: float, gpus: int, age: float, ends: float) -> None:
    """F-097: whenever the slowdown would have ended by itself, as for renting or buying skis."""
    problem = replace(SLOW, slowdown=slowdown)
    rate, restart = (1 - 1 / slowdown) * gpus, gpus * (age + 300.0)
    moved = (
        next(
            (
                at
                for at in range(0, int(ends), 60)
                if decide(problem, RunningJob(gpus=gpus, checkpoint_age=age, slow_for=at), 0.0).move is JobMove.MOVE
            ),
            None,
        )
        if ends < 20000
        else restart / rate
    )  # the moment of the move, without a thousand calls
    paid = rate * ends if moved is None or moved > ends else rate * moved + restart
    assert paid <= 2 * min(rate * ends, restart) + rate * 60
