"""Reports as objects: nothing is lost on the way, and no report is larger than an object should be."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.nodehealth.findings import FindingSeverity, ProbeProfile
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.published import (
    EXPECTED,
    MAX_BYTES,
    MalformedReport,
    body_of,
    expected_of,
    expected_text,
    report_of,
    summary_of,
)
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.reports import FAIL, NOW, PASS, UNKNOWN, WARN, finding, gpus, slot, worst

_LIMIT = 64 * 1024


def size(report: NodeReport) -> int:
    return len(msgspec.json.encode(body_of(report)))


def test_a_report_survives_the_way_through_an_object() -> None:
    """F-095: every field that a small report has."""
    report = replace(worst(1, 2), shortened=3, omitted=1, passed_by={"gpu.recovery_action": ProbeProfile.DEEP})
    read = report_of(body_of(report))
    assert read == replace(report, findings=tuple(sorted(report.findings, key=lambda one: one.severity != "info")))


def test_names_and_times_are_those_of_kubernetes() -> None:
    status = body_of(worst(1, 1))["status"]
    assert status["measuredAt"] == "2027-01-15T08:00:00.250000Z"
    assert {"nodeUID", "bootID", "gpus", "heartbeatSeconds"} - set(status) == {"heartbeatSeconds"}
    assert (status["status"], status["summary"]) == ("FAIL", "FAIL: family.check_00.counter")


def test_what_git_expects_survives_the_way_through_an_annotation() -> None:
    """What somebody broke says nothing until the next round replaces it."""
    expected = NodeExpectation(gpus=8, denied_drivers=("570.1",), origin="HealthPolicy base")
    value = expected_text(expected)
    assert value == '{"gpus":8,"deniedDrivers":["570.1"],"origin":"HealthPolicy base"}'
    assert expected_of({"metadata": {"annotations": {EXPECTED: value}}}) == expected
    assert expected_text(NodeExpectation()) == ""
    for broken in ("{", '{"gpus": "many"}', "[]"):
        assert expected_of({"metadata": {"annotations": {EXPECTED: broken}}}) == NodeExpectation()


@settings(max_examples=30, deadline=None)
@given(st.builds(NodeReport, node=st.just("n"), measured_at=st.integers(0, 1 << 33).map(lambda n: n / 2)))
def test_any_report_survives(report: NodeReport) -> None:
    """F-095."""
    body = body_of(report)
    assert msgspec.json.decode(msgspec.json.encode(body)) == body
    read = report_of(body)
    assert read is not None
    assert sorted(one.key for one in read.findings) == sorted(
        one.key for one in report.findings if one.status in {FAIL, WARN, UNKNOWN}
    )
    assert replace(read, findings=()) == replace(report, findings=())


def test_the_worst_node_fits_into_an_object() -> None:
    """F-095: 16 GPUs, every check fails on all of them: under 64 KB, and the report says what it left out."""
    report = worst()
    body = body_of(report)
    assert size(report) < _LIMIT
    read = report_of(body)
    assert read is not None
    assert len(read.findings) + read.omitted == len(report.findings) == 720
    assert read.shortened > 0
    assert read.gpus == report.gpus
    assert all(one.severity is FindingSeverity.FATAL for one in read.findings[:16])
    assert read.findings[0].message.startswith("the counter of")
    assert body == body_of(replace(report, findings=tuple(reversed(report.findings))))


@settings(max_examples=8, deadline=None)
@given(st.sampled_from((1, 8, 16)), st.integers(0, 45))
def test_any_size_fits_and_the_gravest_findings_stay(count: int, checks: int) -> None:
    """F-095: nothing grave is left out for something light."""
    report = worst(count, checks)
    read = report_of(body_of(report))
    assert size(report) < _LIMIT
    assert read is not None
    assert len(read.findings) + read.omitted == len(report.findings)
    rank = ("fatal", "degraded", "info", "app").index
    kept = {one.key for one in read.findings}
    heaviest_omitted = min((rank(one.severity) for one in report.findings if one.key not in kept), default=3)
    assert all(rank(one.severity) <= heaviest_omitted for one in read.findings)
    if read.omitted == 0 and size(report) < MAX_BYTES // 4:
        assert read.shortened == 0


def test_a_small_report_is_not_shortened() -> None:
    assert "shortened" not in body_of(worst(8, 4))["status"]


def test_a_message_is_masked_and_clean() -> None:
    token = "ghp_" + "a1B2" * 9
    text = f"dcgmi: TOKEN={token} \udcff failed"
    report = NodeReport(node="n", measured_at=NOW, findings=(finding("dcgm.diag", FAIL, message=text),))
    encoded = msgspec.json.encode(body_of(report)).decode()
    assert token not in encoded
    assert "failed" in encoded


def test_an_object_without_status_has_no_report() -> None:
    assert report_of({"metadata": {"name": "n"}}) is None


@pytest.mark.parametrize(
    ("status", "place"),
    [
        ({"measuredAt": "yesterday"}, "yesterday"),
        ({"measuredAt": 5}, "status"),
        ({}, None),
        ({"node": "n"}, "measured_at"),
        ({"measuredAt": "2027-01-15T08:00:00Z", "node": "other"}, "other"),
        ({"measuredAt": "2027-01-15T08:00:00Z", "findings": [{"check": "a", "status": "FINE", "message": ""}]}, "FINE"),
        ({"measuredAt": "2027-01-15T08:00:00Z", "findings": "none"}, "findings"),
    ],
    ids=str,
)
def test_a_malformed_report_is_refused_with_its_place(status: dict[str, Any], place: str | None) -> None:
    """F-095: what cannot be read is an error, not an empty report."""
    body = {"metadata": {"name": "n"}, "status": status}
    if place is None:
        assert report_of(body) is None
        return
    with pytest.raises(MalformedReport, match=place):
        report_of(body)


def test_the_summary_names_the_gravest_checks() -> None:
    findings = [finding(f"c{number}", FAIL, slot=slot(0)) for number in range(5)] + [finding("w", WARN)]
    report = NodeReport(node="n", measured_at=NOW, gpus=gpus(1), findings=tuple(findings))
    assert summary_of(report) == "FAIL: c0, c1, c2 and 2 more; WARN: w"
    assert summary_of(replace(report, findings=(), passed=("a", "b"))) == "2 checks passed"
    assert finding("a", PASS).status is PASS
