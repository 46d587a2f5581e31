"""Rows of a report by team, queue and job, and what they show."""

import csv
import io
import json
from typing import Any

import pytest

from reconciler.reports.pages import FORMATS, Report, idle_jobs, render
from reconciler.reports.recorded import Freeing
from reconciler.reports.series import GpuHours, measure
from reconciler.reports.use import HeldGpus, UseRow, use_rows
from reconciler.sizing.prices import parse_prices

A100, L40S = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"
WRITTEN = {"currency": "USD", "source": "contract", "date": "2026-11-01", "gpuHours": {A100: 3.06}}
PRICES = {"main": parse_prices({**WRITTEN, "spot": {A100: 3.06 * 0.4}})}
BUSY = GpuHours(covered=4.0, busy=3.0, idle=1.0, peak=99.0, kwh=2.5)


def held(gpu_hours: float, *gpus: GpuHours, **more: Any) -> HeldGpus:
    given = {"cluster": "main", "pod": "team/a", "job": "Job/team/a", "team": "vision", "queue": "q", "product": A100}
    return HeldGpus(**{**given, **more}, gpu_hours=gpu_hours, gpus=gpus)


def row(*rows: HeldGpus, by: str = "team", prices: Any = None) -> UseRow:
    (found,) = use_rows(rows, by, PRICES if prices is None else prices, {"main": 24.0})
    return found


def test_hours_and_money() -> None:
    """AF-19, F-129, F-130: 8 GPUs for 4 h at 3.06 are 97.92, on spot nodes 39.17, idle hours are wasted money."""
    found = row(held(32.0, BUSY, BUSY))
    assert (found.gpu_hours, found.covered, found.busy, found.idle) == (32.0, 8.0, 6.0, 2.0)
    assert (found.cost, found.wasted, found.currency) == (97.92, 6.12, "USD")
    assert (found.coverage, found.idle_share, found.mean, found.peak, found.kwh) == (0.25, 0.25, 75.0, 99.0, 5.0)
    assert row(held(32.0, BUSY, spot=True)).cost == 39.17


def test_the_price_does_not_depend_on_the_use() -> None:
    """Defect 20 of agentaflow: an idle GPU costs what a busy one costs."""
    idle = GpuHours(covered=4.0, busy=0.0, idle=4.0)
    assert row(held(4.0, idle)).cost == row(held(4.0, BUSY)).cost == 12.24
    assert row(held(4.0, idle)).wasted == 12.24


def test_what_is_unknown_is_not_a_zero() -> None:
    """Defect 22 of agentaflow, AF-19: a GPU that nobody measured is in no mean; a product without a price has none."""
    unmeasured = row(held(8.0))
    assert (unmeasured.mean, unmeasured.idle_share, unmeasured.kwh, unmeasured.wasted) == (None, None, None, None)
    assert (unmeasured.coverage, unmeasured.trend) == (0.0, "not enough data")
    assert row(held(8.0), held(8.0, BUSY)).mean == 75.0
    unpriced = row(held(8.0, BUSY, product=L40S))
    assert (unpriced.cost, unpriced.wasted, unpriced.unpriced) == (None, None, (L40S,))
    both = row(held(4.0, BUSY, product=L40S), held(4.0, BUSY))
    assert (both.cost, both.unpriced) == (12.24, (L40S,))
    assert row(held(4.0, BUSY), prices={}).unpriced == (A100,)


def test_commitments_come_first() -> None:
    """F-129: on the average of the window 2 GPUs are held, of which one is committed at a lower price."""
    prices = {"main": parse_prices({**WRITTEN, "commitments": [{"product": A100, "count": 1, "hour": 1.0}]})}
    assert row(held(48.0, BUSY), prices=prices).cost == round(24 * 1.0 + 24 * 3.06, 2)


def test_clusters_have_windows_of_their_own() -> None:
    """F-129: one commitment of a day in one cluster, and of an hour in another: each is used first in its window."""
    committed = parse_prices({**WRITTEN, "commitments": [{"product": A100, "count": 1, "hour": 1.0}]})
    rows = use_rows(
        [held(24.0, BUSY), held(2.0, BUSY, cluster="other")],
        "team",
        {"main": committed, "other": committed},
        {"main": 24.0, "other": 1.0},
    )
    assert {row.cluster: row.cost for row in rows} == {"main": 24.0, "other": 4.06}


@pytest.mark.parametrize(("by", "names"), [("team", ["nlp", "vision"]), ("queue", ["q"]), ("job", ["Job/a", "Job/b"])])
def test_rows_by_team_queue_and_job(by: str, names: list[str]) -> None:
    """F-130: those that waste most are first."""
    rows = use_rows([held(4.0, job="Job/b"), held(4.0, BUSY, job="Job/a", team="nlp")], by, PRICES, {"main": 24.0})
    assert [one.name for one in rows] == names


def report() -> Report:
    rows = use_rows(
        [held(4.0, BUSY, job="=cmd|x"), held(4.0, product=L40S, job="Job/team/b")], "job", PRICES, {"main": 24.0}
    )
    edits = {("main", "=cmd|x"): Freeing(place="jobs/a.yaml:1", edit="spec.suspend: true")}
    return Report(kind="efficiency", by="job", window="7d", rows=rows, idle_jobs=idle_jobs(rows, edits), notes=("n",))


def test_a_report_in_every_format() -> None:
    """F-130: JSON, CSV, Markdown and text say the same; unknown is a word, an empty cell or null."""
    text, markdown = render(report(), "text", width=200), render(report(), "markdown")
    for shown in (text, markdown):
        assert "unknown: NVIDIA-L40S" in shown
        assert "jobs/a.yaml:1" in shown
        assert "not enough data" in shown
    found = json.loads(render(report(), "json"))
    assert [(one["name"], one["mean"], one["cost"]) for one in found["rows"]] == [
        ("=cmd|x", 75.0, 12.24),
        ("Job/team/b", None, None),
    ]
    assert found["idleJobs"][0]["freeing"] == {"place": "jobs/a.yaml:1", "edit": "spec.suspend: true"}
    cells = [*csv.DictReader(io.StringIO(render(report(), "csv")))]
    assert [(one["name"], one["mean"], one["unpriced"]) for one in cells] == [
        ("'=cmd|x", "75.0", ""),
        ("Job/team/b", "", L40S),
    ]
    assert FORMATS == ("text", "json", "csv", "markdown")


def test_trends_are_told() -> None:
    """AF-20: with slope and R², or in words."""
    samples = [(number * 300.0, 10 + number / 6) for number in range(24)]
    rows = use_rows([held(2.0, measure(samples, (), 300.0))], "team", PRICES, {"main": 2.0})
    assert rows[0].slope == pytest.approx(2.0, abs=1e-6)
    shown = render(Report(kind="efficiency", by="team", window="2h", rows=rows), "text", width=200)
    assert "+2.00 %/h, R² 1.00" in shown
