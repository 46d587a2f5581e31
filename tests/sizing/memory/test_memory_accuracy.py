"""The predicted peaks beside the measured ones: what the page of accuracy promises."""

from statistics import fmean

import pytest

from benchmarks.sizing.fit import STEPS
from benchmarks.sizing.peers import HOW, peers
from benchmarks.sizing.report import (
    DOCUMENT,
    Told,
    Unseen,
    accepted,
    accuracy,
    foreign,
    groups,
    peer_errors,
    refused,
    shipped,
    unseen,
    verdicts,
)
from benchmarks.sizing.runs import Run, measured
from reconciler.sizing.memory.stacks import stack_of
from reconciler.sizing.training import Method, Precision

FULL = "fms full (LLMFineTuningBench)"


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return measured()


@pytest.fixture(scope="module")
def held(runs: list[Run]) -> dict[str, list[Unseen]]:
    return {stack: list(unseen(runs, stack)) for stack in STEPS}


def _mean(group: list[Told]) -> float:
    return fmean(abs(one.error) for one in group)


@pytest.mark.parametrize("method", ["full", "lora"])
def test_runs_of_fms_are_predicted_within_three_percent(runs: list[Run], method: str) -> None:
    """F-006: mean absolute error, on peaks that the card did not cut off."""
    group = groups(shipped(runs))[f"fms {method} (LLMFineTuningBench)"]
    assert len(group) >= 40
    assert _mean(group) <= 0.03
    assert max(abs(one.error) for one in group) <= 0.16


@pytest.mark.parametrize(
    ("stack", "most"), [("fms", 0.03), ("LitGPT", 0.07), ("Qwen", 0.05), ("ms-swift", 0.07), ("fsdp_qlora", 0.07)]
)
def test_every_framework_is_predicted(runs: list[Run], stack: str, most: float) -> None:
    """F-006: mean absolute error with the shipped constants, over all sources."""
    assert _mean([one for one in shipped(runs) if one.run.stack == stack]) <= most


@pytest.mark.parametrize(("stack", "most"), [("torchtitan", 0.04), ("megatron-lm", 0.04), ("megatron-swift", 0.09)])
def test_pretraining_is_predicted_without_a_fit(runs: list[Run], stack: str, most: float) -> None:
    found = [one for one in shipped(runs) if one.run.stack == stack]
    assert _mean(found) <= most
    assert max(abs(one.error) for one in found) <= 0.16
    assert all(one.inside for one in found)


@pytest.mark.parametrize(
    ("stack", "most"), [("fms", 0.03), ("LitGPT", 0.10), ("Qwen", 0.05), ("ms-swift", 0.08), ("fsdp_qlora", 0.10)]
)
def test_runs_that_were_not_fitted_are_predicted_as_well(
    held: dict[str, list[Unseen]], stack: str, most: float
) -> None:
    """F-006: constants from one source or one half of the models, errors from the others, both ways."""
    found = [error for one in held[stack] for error in one.errors]
    assert all(one.fold.chosen and one.errors for one in held[stack])
    assert fmean(map(abs, found)) <= most


@pytest.mark.parametrize("stack", STEPS)
def test_ranges_hold_nine_of_ten_runs_that_were_not_fitted(held: dict[str, list[Unseen]], stack: str) -> None:
    counted = sum(len(one.errors) for one in held[stack])
    assert sum(one.inside for one in held[stack]) / counted >= 0.9


def test_ranges_hold_nine_of_ten_runs_of_frameworks_that_nobody_measured(runs: list[Run]) -> None:
    told = foreign(runs)
    assert len(told) > 100
    assert sum(one.inside for one in told) / len(told) >= 0.9


def test_runs_that_worked_are_not_refused(runs: list[Run]) -> None:
    """F-007: less than three of a hundred."""
    worked = [run for run in runs if run.peak is not None]
    assert len(refused(worked)) / len(worked) < 0.03


def test_runs_that_died_are_refused(runs: list[Run]) -> None:
    """F-007: all but one, of which its source does not know how many GPUs it had."""
    assert {run.row["id"] for run in accepted(runs)} <= {"211"}


def test_other_estimators_are_beaten(runs: list[Run]) -> None:
    full = groups(shipped(runs))[FULL]
    for peer in peers():
        found = peer_errors(peer, full)
        assert len(found) == len(full)
        assert fmean(map(abs, found)) > 5 * _mean(full), peer.name


def test_other_estimators_were_asked_about_every_run_of_full_training(runs: list[Run]) -> None:
    """The answer of accelerate, 8 or 16 bytes per parameter, shows that the models are those of today."""
    tuned = (run for run in runs if not stack_of(run.training.framework).staged)  # they do not know pre-training
    full = {run.row["id"]: run.training for run in tuned if run.training.method is Method.FULL}
    asked = {peer.name: peer.answers for peer in peers()}
    assert asked.keys() == HOW.keys()
    assert all(answers.keys() >= full.keys() for answers in asked.values())
    for name, training in full.items():
        each = 16 if training.precision is Precision.FP32 else 8
        told = each * training.architecture.parameters / (1 << 30)
        assert asked["accelerate"][name] == pytest.approx(told, abs=0.001)


def test_the_page_is_what_the_report_prints(runs: list[Run]) -> None:
    page = DOCUMENT.read_text()
    assert "\n".join(accuracy(runs)) in page
    assert "\n".join(verdicts(runs)) in page
