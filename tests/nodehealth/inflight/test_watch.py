"""Running jobs as reports show them: series, hangs that last, jobs that move, and reports that are missing."""

from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.nodehealth.inflight.detect import JobSignal
from reconciler.nodehealth.inflight.notes import JobNoteKind, notes
from reconciler.nodehealth.inflight.watch import WatchedJob, sample_of
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.inflight.jobs import IDLE, MINUTE, SPINS, Watched, job, report
from tests.nodehealth.reports import NOW, slot


@pytest.mark.parametrize(
    ("use", "sign"), [(SPINS, JobSignal.POWER), (IDLE, JobSignal.IDLE)], ids=["spins", "does nothing"]
)
def test_a_job_that_stops_hangs_after_ten_minutes(use: dict[str, Any], sign: JobSignal) -> None:
    """F-097: from the reports of its nodes alone, told once, with what the wait costs."""
    watched = Watched()
    assert watched.minutes(30).problems == ()
    watched.minutes(20, **use)
    assert watched.begun == [("hung", 40 * MINUTE)]
    (one,) = watched.known
    assert one.problem is not None
    assert one.problem.signals == (JobSignal.TRAFFIC, sign)
    (note,) = notes((), watched.minutes(11, **use), {}, watched.at)
    assert (note.kind, note.namespace, note.name) == (JobNoteKind.HUNG, "vision", "train")
    assert "16 GPUs waiting, 8.3 GPU hours so far; a restart costs 1.3" in note.text
    assert note.text.endswith("the policy is to notify")


@settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(works=st.integers(25, 90), hangs=st.integers(11, 300), use=st.sampled_from((SPINS, IDLE)))
def test_a_hang_is_found_as_long_as_it_lasts(works: int, hangs: int, use: dict[str, Any]) -> None:
    """F-097: what is normal does not become the hang itself, however long that takes; work ends it at once."""
    watched = Watched()
    watched.minutes(works)
    watched.minutes(11, **use)
    for _ in range(hangs):
        assert watched.minutes(1, **use).problems
    assert len(watched.begun) == 1
    assert len(watched.known[0].series.samples) < 200
    assert watched.minutes(1).problems == ()
    watched.minutes(25)
    assert watched.minutes(11, **use).problems, "it hangs again, and is found again"


def test_work_a_gap_and_old_reports_are_no_hang() -> None:
    watched = Watched()
    watched.minutes(30)
    last = {node: report(node, watched.at, **SPINS) for node in "ab"}
    for _ in range(30):
        assert watched.look(reports=last).problems == (), "the agents are dead"
    for missing in ({"a": report("a", watched.at, **SPINS)}, {}):
        assert watched.look(reports=missing).problems == ()


def test_a_problem_stays_while_nobody_measures() -> None:
    watched = Watched()
    watched.minutes(30)
    watched.minutes(15, **SPINS)
    assert watched.look(reports={}).problems
    assert watched.begun == [("hung", 40 * MINUTE)]


def test_a_job_that_moved_starts_again() -> None:
    """What was normal on other nodes says nothing here."""
    watched = Watched()
    watched.minutes(30)
    moved = job({"c": 8})
    for _ in range(15):
        observed = watched.look((moved,), {"c": report("c", watched.at, **SPINS), "a": report("a", watched.at)})
        assert observed.problems == ()
    assert [one.job.gpus for one in watched.known if not one.ended_at] == [{"c": 8}]


@pytest.mark.parametrize(
    ("placed", "uses", "gpus"),
    [
        (job({"a": 8}), report("a", NOW), 8),
        (job({"a": 2}), report("a", NOW), 0),
        (job({"a": 2}, shared=("a",)), report("a", NOW, gpus=2), 2),
        (job({"a": 2}, shared=("a",)), report("a", NOW), 0),
        (job({"a": 8}), report("a", NOW, watts=None), 0),
        (job({"a": 8}), report("a", NOW - 301), 0),
        (job({"a": 8}), report("a", NOW + 600), 0),
        (job({"a": 8}), replace(report("a", NOW), activity=()), 0),
    ],
    ids=["whole node", "eight in use", "shared, all", "shared", "no power", "old", "future", "nothing measured"],
)
def test_a_sample_needs_to_know_the_gpus_of_the_job(placed: Any, uses: NodeReport, gpus: int) -> None:
    """Unknown GPUs, old reports and missing values make no sample, instead of a wrong one."""
    sample = sample_of(placed, {"a": uses}, NOW)
    assert (len(sample.gpus) if sample is not None else 0) == gpus


def test_the_gpus_in_use_are_those_of_the_only_job() -> None:
    whole = report("a", NOW)
    rows = tuple(replace(one, occupied=index in (2, 5)) for index, one in enumerate(whole.activity))
    sample = sample_of(job({"a": 2}), {"a": replace(whole, activity=rows)}, NOW)
    assert sample is not None
    assert [one.slot for one in sample.gpus] == [slot(2), slot(5)]


def test_unknown_traffic_is_not_zero() -> None:
    whole = report("a", NOW)
    rows = (replace(whole.activity[0], traffic=None), *whole.activity[1:])
    sample = sample_of(job({"a": 8}), {"a": replace(whole, activity=rows)}, NOW)
    assert sample is not None
    assert sample.bytes_per_second is None


def test_what_is_kept_survives_a_file() -> None:
    watched = Watched()
    watched.minutes(30)
    watched.minutes(15, **SPINS)
    assert msgspec.json.decode(msgspec.json.encode(watched.known), type=tuple[WatchedJob, ...]) == watched.known
