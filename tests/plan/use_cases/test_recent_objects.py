"""Refusals of admission webhooks that miss what a run has just created."""

import datetime as dt

import pytest

from reconciler.live.apply.recent import PATIENCE_SECONDS, RecentObjects
from reconciler.plan.live.probe import missed_names

KUEUE = (
    'cannot apply TrainJob/a/train: 403 Forbidden: admission webhook "vtrainjob.kb.io" denied the request: '
    "runtime 'train-b2c7382c' not found"
)
TRAINER = (
    'cannot apply TrainJob/a/train: 422 Invalid: admission webhook "validator.trainjob.trainer.kubeflow.org" denied the '
    'request: spec.RuntimeRef: Invalid value: {"name":"train-b2c7382c"}: TrainingRuntime.trainer.kubeflow.org '
    '"train-b2c7382c" not found: specified trainingRuntime must be created before the TrainJob is created'
)


class PausedClock:
    """Time that passes in pauses alone."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def elapsed(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.mark.parametrize("message", [KUEUE, TRAINER])
def test_what_a_webhook_misses_is_read_from_its_message(message: str) -> None:
    assert "train-b2c7382c" in missed_names(message)


@pytest.mark.parametrize(
    "message",
    [
        KUEUE.replace("not found", "is not allowed"),
        "runtime 'train-b2c7382c' not found",
        "cannot apply Job/a/b: 422 Invalid: ValidatingAdmissionPolicy 'p' denied request: queue 'q' not found",
        "",
    ],
)
def test_other_refusals_miss_nothing(message: str) -> None:
    assert not missed_names(message)


def test_a_refusal_is_waited_out_for_a_bounded_time() -> None:
    """Only what this run created counts, and all refusals together last no longer than the patience after that."""
    clock = PausedClock()
    recent = RecentObjects(clock)
    assert not recent.are_missed(KUEUE)
    recent.add("train-b2c7382c")
    while recent.are_missed(KUEUE):
        assert clock.seconds < 2 * PATIENCE_SECONDS
    assert clock.seconds == pytest.approx(PATIENCE_SECONDS, abs=0.3)
    assert not recent.are_missed(KUEUE)
