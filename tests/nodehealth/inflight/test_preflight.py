"""Preflight checks that failed: what changes in the report of the node, and how often a job may try."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.nodehealth.findings import HealthFinding, ProbeProfile
from reconciler.nodehealth.inflight.preflight import (
    PREFLIGHTS,
    PreflightAttempt,
    PreflightResult,
    PreflightVerdict,
    acknowledged,
    acknowledgement,
    counted,
    joined,
    verdicts,
)
from reconciler.nodehealth.merging import merged
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.reports import FAIL, NOW, PASS, UNKNOWN, finding, gpus, result, slot

BEFORE = ProbeProfile.PREFLIGHT
DEEP = ProbeProfile.DEEP
REPORT = NodeReport(node="a", measured_at=NOW, gpus=gpus(2), passed=("gpu.xid",))
FIRST = gpus(2)[0]


def of_pod(*findings: HealthFinding, uid: str = "p", at: float = NOW, failed: bool = True) -> PreflightResult:
    return PreflightResult(namespace="n", pod="p", uid=uid, measured_at=at, findings=findings, has_failed=failed)


BAD = finding("hbm.bandwidth", FAIL, slot=FIRST.slot, uuid=FIRST.uuid, profile=BEFORE)
GOOD = replace(BAD, status=PASS)


def test_a_failed_check_is_a_finding_and_names_its_pod() -> None:
    """F-094: the GPUs of the pod are judged, and nothing is said about those that it did not see."""
    other = finding("hbm.bandwidth", FAIL, slot=slot(1), uuid=gpus(2)[1].uuid, profile=BEFORE)
    after = joined(replace(REPORT, findings=(other,)), [of_pod(BAD, finding("gpu.xid", FAIL, slot=slot(0)))])
    assert [(one.check, one.slot, one.since) for one in after.findings] == [
        ("hbm.bandwidth", slot(0), NOW),
        ("hbm.bandwidth", slot(1), 0.0),
    ]
    assert after.gpus == REPORT.gpus
    (failed,) = after.preflights
    assert (failed.uid, failed.checks) == ("p", ("gpu.xid", "hbm.bandwidth"))
    assert joined(after, [of_pod(BAD)]) == after, "the same again changes nothing"


def test_a_pass_ends_the_failure_of_the_same_gpu_alone() -> None:
    bad = joined(REPORT, [of_pod(BAD)])
    good = joined(bad, [of_pod(GOOD, uid="q", at=NOW + 60, failed=False)])
    assert good.findings == ()
    assert good.passed_by == {"hbm.bandwidth": BEFORE}
    assert len(good.preflights) == 1
    late = joined(bad, [of_pod(GOOD, uid="q", at=NOW - 60, failed=False)])
    assert late.findings == bad.findings, "what was measured before says nothing"
    deep = replace(bad, findings=(replace(BAD, profile=DEEP),))
    assert joined(deep, [of_pod(GOOD, uid="q", at=NOW + 60, failed=False)]).findings == deep.findings


def test_claims_about_other_gpus_and_light_checks_are_not_taken() -> None:
    """An agent knows its GPUs, and measures light checks by itself."""
    strange = [replace(BAD, slot="0000:ff:00.0"), replace(BAD, uuid="GPU-other"), replace(BAD, slot="", uuid="")]
    light = replace(BAD, profile=ProbeProfile.LIGHT)
    assert joined(REPORT, [of_pod(*strange, light)]).findings == ()


def test_what_could_not_be_measured_blames_no_gpu() -> None:
    """A closed check stops the job, and it counts as an attempt."""
    after = joined(REPORT, [of_pod(replace(BAD, status=UNKNOWN))])
    assert after.findings == ()
    assert [one.checks for one in after.preflights] == [()]


def test_a_failure_outlives_later_sweeps_and_names_of_pods_do_not() -> None:
    bad = joined(merged(None, result(finding("a", PASS))), [of_pod(BAD)])
    swept = merged(bad, result(finding("a", PASS), at=NOW + 60))
    assert [one.check for one in swept.findings] == ["hbm.bandwidth"]
    assert joined(swept, []).preflights == bad.preflights
    assert joined(replace(swept, measured_at=NOW + 4000), []).preflights == ()


def attempt(pod: str, node: str = "a", owner: str = "job", at: float = NOW) -> PreflightAttempt:
    return PreflightAttempt(owner=owner, node=node, pod=pod, at=at, checks=("hbm.bandwidth",))


def test_the_third_failure_of_a_job_is_its_last() -> None:
    """F-094: on whichever nodes; the attempts of other jobs do not count."""
    attempts: tuple[PreflightAttempt, ...] = (attempt("1"), attempt("2", "b"), attempt("x", owner="other"))
    assert verdicts(attempts, "b", 3) == {"2": PreflightVerdict.RETRY}
    attempts = counted(attempts, [attempt("3", "c")], NOW)
    assert verdicts(attempts, "c", 3) == {"3": PreflightVerdict.STOP}
    assert verdicts(attempts, "a", 3)["x"] is PreflightVerdict.RETRY
    assert verdicts((attempt("1"),), "a", 0) == {"1": PreflightVerdict.STOP}
    assert counted(attempts, [], NOW + 90000) == ()


_ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 9)), max_size=30)


@given(_ROWS, st.integers(1, 5))
def test_no_job_goes_on_after_its_last_attempt(rows: list[tuple[str, str, int]], most: int) -> None:
    """F-094: whatever comes in which order, and however often."""
    attempts: tuple[PreflightAttempt, ...] = ()
    for node, owner, pod in rows:
        attempts = counted(attempts, [attempt(f"{owner}{pod}", node, owner)], NOW)
    failed = {owner: len({pod for _, name, pod in rows if name == owner}) for owner in "xyz"}
    for node in "abc":
        for name, verdict in verdicts(attempts, node, most).items():
            assert (verdict is PreflightVerdict.STOP) is (failed[name[0]] >= most)


def test_an_acknowledgement_survives_and_a_broken_one_says_nothing() -> None:
    value = acknowledgement({"p": PreflightVerdict.STOP})
    assert acknowledged({"metadata": {"annotations": {PREFLIGHTS: value}}}) == {"p": "stop"}
    for broken in ("", "{", '["p"]', None):
        assert acknowledged({"metadata": {"annotations": {PREFLIGHTS: broken}}}) == {}
    assert acknowledged({}) == {}
