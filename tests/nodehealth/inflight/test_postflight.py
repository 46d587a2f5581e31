"""What a job leaves on its GPUs: counters at its end less those at its start, against the node and for its owner."""

import pytest
from msgspec.structs import replace

from reconciler.nodehealth.findings import CheckStatus, ProbeProfile
from reconciler.nodehealth.inflight.notes import JobNoteKind, left_by, notes
from reconciler.nodehealth.inflight.postflight import JobErrors, newest, with_job_errors
from reconciler.nodehealth.inflight.watch import ObservedJobs
from reconciler.nodehealth.report import ProfileRun
from tests.nodehealth.inflight.jobs import Watched, report
from tests.nodehealth.reports import FAIL, NOW, PASS, WARN, finding, slot

Counters = dict[str, float]
BAD = JobErrors(
    node="a", slot=slot(0), uuid="GPU-0", namespace="n", job="one", ended_at=NOW, seconds=1.0, grown={"pcie.fatal": 1.0}
)


def run(before: Counters, after: Counters, minutes: int = 60) -> tuple[Watched, ObservedJobs]:
    """Run a job on two nodes, the first GPU of which counts like this; return the look that saw its end."""
    watched = Watched()
    for _ in range(minutes):
        watched.look(reports={"a": report("a", watched.at, errors=before), "b": report("b", watched.at)})
    silent = watched.look((), {"a": report("a", watched.at - 90), "b": report("b", watched.at)})
    assert silent.ended == (), "the report after the end is awaited"
    reports = {"a": report("a", watched.at, errors=after, occupied=False), "b": report("b", watched.at)}
    return watched, watched.look((), reports)


@pytest.mark.parametrize(
    ("before", "after", "status", "text"),
    [
        ({}, {}, PASS, ""),
        ({"ecc.uncorrected": 2.0}, {"ecc.uncorrected": 2.0}, PASS, ""),
        ({"ecc.uncorrected": 2.0}, {"ecc.uncorrected": 5.0}, FAIL, "3 uncorrected memory errors"),
        ({"ecc.uncorrected": 9.0}, {"ecc.uncorrected": 1.0}, FAIL, "1 uncorrected memory errors"),
        ({"pcie.fatal": 0.0}, {"pcie.fatal": 1.0}, FAIL, "1 fatal PCIe errors"),
        ({"pcie.replays": 5.0}, {"pcie.replays": 60.0}, PASS, ""),
        ({"pcie.replays": 5.0}, {"pcie.replays": 805.0}, WARN, "800 PCIe replays"),
        ({"nvlink.errors": 0.0, "ecc.corrected": 0.0}, {"nvlink.errors": 500.0, "ecc.corrected": 2.0}, WARN, "500 NV"),
        ({"ecc.uncorrected": 2.0}, {}, PASS, ""),
    ],
    ids=str,
)
def test_what_grew_while_a_job_ran(before: Counters, after: Counters, status: CheckStatus, text: str) -> None:
    """F-098: errors before the job are not its own; a counter that was reset counts from there."""
    watched, observed = run(before, after)
    said = notes((), observed, {}, watched.at)
    nodes = {node: report(node, watched.at) for node in "ab"}
    left = newest((), left_by(observed, nodes), watched.at)
    changed = with_job_errors(nodes, left)
    found = [one for one in changed["a"].findings if one.check == "job.errors"]
    if status is PASS:
        assert (said, found) == ((), [])
        assert changed["a"].passed_by == {"job.errors": ProbeProfile.POSTFLIGHT}
        return
    (note,), (one,) = said, found
    assert (note.kind, note.name) == (JobNoteKind.ERRORS, "train")
    assert text in note.text
    assert note.text.startswith(f"a {slot(0)}: ")
    assert (one.status, one.slot, one.uuid) == (status, slot(0), "GPU-0")
    assert "while vision/train ran" in one.message
    assert [one for one in changed["b"].findings if one.check == "job.errors"] == []


def test_a_later_job_without_errors_ends_the_finding() -> None:
    """The finding is that of the last job on the GPU."""
    bad = BAD
    good = replace(bad, job="two", ended_at=NOW + 60, grown={})
    other = replace(bad, slot=slot(1), uuid="GPU-1")
    assert newest((bad, other), (good,), NOW + 90) == (good, other)
    assert newest((bad,), (), NOW + 8 * 86400) == ()
    reports = {"a": report("a", NOW)}
    assert with_job_errors(reports, (good,))["a"].passed == ("job.errors",)
    assert with_job_errors(reports, (good, other))["a"].passed == ()
    assert with_job_errors(reports, ()) == reports


def test_a_deep_pass_and_another_gpu_end_the_finding() -> None:
    """What a heavier run passed after the job is over; one from before the end says nothing."""
    run = ProfileRun(profile=ProbeProfile.DEEP, finished_at=NOW + 100, status=PASS)
    tested = replace(report("a", NOW + 200), runs=(run,))
    assert with_job_errors({"a": tested}, (BAD,))["a"].passed_by == {"job.errors": ProbeProfile.DEEP}
    for other in (replace(run, finished_at=NOW - 1), replace(run, status=FAIL)):
        assert with_job_errors({"a": replace(tested, runs=(other,))}, (BAD,))["a"].findings
    swapped = replace(BAD, uuid="GPU-gone")
    assert with_job_errors({"a": tested}, (swapped,))["a"] == tested


def test_xids_of_the_time_of_a_job_are_told_to_its_owner() -> None:
    watched = Watched()
    for _ in range(5):
        watched.look()
    xid = finding("gpu.xid", FAIL, slot=slot(0), message="Xid 31: MMU fault", since=NOW + 100)
    older = replace(xid, slot=slot(1), since=NOW - 100)
    ended = watched.look((), {"a": report("a", watched.at), "b": report("b", watched.at)})
    reports = {"a": replace(report("a", watched.at), findings=(xid, older))}
    (note,) = notes((), ended, reports, watched.at)
    assert note.text == f"{slot(0)}: Xid 31: MMU fault"
    (kept,) = notes((note,), ObservedJobs(), {}, watched.at + 3600)
    assert kept == note
    assert notes((note,), ObservedJobs(), {}, watched.at + 90000) == ()


def test_nobody_waits_forever_for_a_report() -> None:
    watched = Watched()
    watched.look()
    for _ in range(11):
        observed = watched.look((), {})
        assert observed.ended == ()
    assert [one.job.name for one in watched.look((), {}).ended] == ["train"]
    assert watched.known == ()
