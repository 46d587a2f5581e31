"""The predicted peaks beside the measured ones: what the page of accuracy promises."""

from statistics import fmean

import pytest

from benchmarks.sizing.peers import peers
from benchmarks.sizing.report import DOCUMENT, accuracy, errors, groups, held_out, refused, verdicts
from benchmarks.sizing.runs import FOREIGN, Run, measured
from reconciler.core.sizing.training import Method


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return measured()


def _mean(group: list[Run]) -> float:
    return fmean(map(abs, errors(group)))


@pytest.mark.parametrize("method", ["full", "lora"])
def test_runs_of_fms_are_predicted_within_three_percent(runs: list[Run], method: str) -> None:
    """F-006: mean absolute error, on peaks that the card did not cut off."""
    group = groups(runs)[f"fms {method}"]
    assert len(group) >= 40
    assert _mean(group) <= 0.03
    assert max(map(abs, errors(group))) <= 0.15


def test_other_stacks_are_predicted_within_six_percent(runs: list[Run]) -> None:
    """F-006: LitGPT, Qwen's scripts and torchtune."""
    assert _mean(groups(runs)["all other stacks"]) <= 0.06
    for stack in ("LitGPT", "Qwen"):
        assert _mean([run for run in runs if run.counts and run.stack == stack]) <= 0.06


def test_models_that_were_not_fitted_are_predicted_as_well(runs: list[Run]) -> None:
    """F-006: constants from one half of the models, errors from the other, both ways."""
    for models, means in held_out(runs, "fms"):
        assert models
        assert set(means) == {"adapters", "full"}
        assert max(means.values()) <= 0.03


def test_runs_that_worked_are_not_refused(runs: list[Run]) -> None:
    """F-007: less than three of a hundred."""
    worked = [run for run in runs if run.peak is not None]
    assert len(refused(worked)) / len(worked) < 0.03


def test_runs_that_died_are_refused(runs: list[Run]) -> None:
    """F-007: all but one, of which its source does not know how many GPUs it had."""
    died = [run for run in runs if run.peak is None]
    let_through = {run.row["id"] for run in died if run.predict().need_gib * 1.08 <= run.gpu.memory_gib}
    assert let_through <= {"211"}


def test_bands_hold_nine_of_ten(runs: list[Run]) -> None:
    held = [run.predict().low_gib <= (run.peak or 0) <= run.predict().high_gib for run in runs if run.counts]
    assert sum(held) / len(held) >= 0.9


def test_other_estimators_are_beaten(runs: list[Run]) -> None:
    full = [run for run in groups(runs)["fms full"] if run.training.method is Method.FULL]
    for peer in peers():
        told = [abs((peer.predict(run) or 0) / (run.peak or 1) - 1) for run in full]
        assert fmean(told) > 5 * _mean(full), peer.name


def test_the_page_is_what_the_report_prints(runs: list[Run]) -> None:
    page = DOCUMENT.read_text()
    assert "\n".join(accuracy(runs)) in page
    assert "\n".join(verdicts(runs)) in page
    assert set(FOREIGN) <= set(page.split())
