"""Limits of a policy judge findings again where their value alone decides; everything else stays as the agent said."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.nodehealth.catalogue import BY_ID
from reconciler.nodehealth.checks.bandwidth import rated
from reconciler.nodehealth.findings import (
    CheckStatus,
    FindingSeverity,
    HealthFinding,
    ProbeProfile,
    RepairAction,
    Threshold,
    ThresholdSource,
)
from reconciler.nodehealth.limits import NAMED_LIMITS, rejudged, rejudged_report
from reconciler.nodehealth.merging import merged
from reconciler.nodehealth.policy import PolicyBook, PolicyDocument
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.reports import FAIL, PASS, SKIP, UNKNOWN, WARN, finding, gpus, result, slot


def judged(check: str, status: CheckStatus, observed: float, name: str, **fields: Any) -> HealthFinding:
    """Return a finding as the agent makes it, by a limit of the catalogue."""
    return finding(check, status, observed=observed, threshold=BY_ID[check].limits[name], **fields)


def memory(part: float, kind: str = "") -> HealthFinding:
    limits = BY_ID["hbm.bandwidth"].limits
    made = rated("memory", part * 4800, 4800, limits[f"warnBelow{kind}"], limits[f"failBelow{kind}"])
    return finding(
        "hbm.bandwidth",
        made.status,
        observed=made.observed,
        threshold=made.threshold,
        scale=made.scale,
        profile=ProbeProfile.PREFLIGHT,
    )


def link(gbs: float) -> HealthFinding:
    limits = [Threshold(value=value, source=ThresholdSource.VENDOR) for value in (0.8, 0.7)]
    made = rated("to the GPU", gbs, 63.0, *limits)
    return finding("pcie.h2d", made.status, observed=gbs, threshold=made.threshold, scale=made.scale)


@pytest.mark.parametrize(
    ("before", "limits", "expected"),
    [
        (judged("power.limit", FAIL, 70, "failPercent"), {"failPercent": 60}, WARN),
        (judged("power.limit", FAIL, 70, "failPercent"), {"failPercent": 60, "warnPercent": 65}, PASS),
        (judged("power.limit", WARN, 90, "warnPercent"), {"failPercent": 92}, FAIL),
        (judged("power.limit", WARN, 90, "warnPercent"), {"failPercent": 90}, WARN),
        (judged("power.limit", WARN, 90, "warnPercent"), {"warnPercent": 90}, PASS),
        (judged("retired.pages", FAIL, 63, "failPages"), {"failPages": 63}, FAIL),
        (judged("retired.pages", FAIL, 63, "failPages"), {"failPages": 64}, WARN),
        (judged("retired.pages", WARN, 12, "warnPages"), {"failPages": 12}, FAIL),
        (judged("amd.ecc", FAIL, 3, "uncorrectable"), {"uncorrectable": 3}, PASS),
        (memory(0.70), {"failBelow": 0.65}, WARN),
        (memory(0.70), {"failBelow": 0.65, "warnBelow": 0.68}, PASS),
        (memory(0.80), {"failBelow": 0.82}, FAIL),
        (memory(0.70, "Gddr"), {"failBelow": 0.72}, WARN),
        (memory(0.70, "Gddr"), {"failBelowGddr": 0.72}, FAIL),
        (link(40.0), {"failBelow": 0.6}, WARN),
        (link(40.0), {"failBelow": 0.6, "warnBelow": 0.62}, PASS),
        (link(48.0), {"warnBelow": 0.7}, PASS),
        (link(48.0), {"failBelow": 0.78}, FAIL),
    ],
)
def test_limits_of_a_policy(before: HealthFinding, limits: dict[str, float], expected: CheckStatus) -> None:
    """In both directions, at the edge as the check itself compares, parts of a peak as parts."""
    assert rejudged(before, limits).status is expected


@pytest.mark.parametrize(
    ("before", "limits"),
    [
        (finding("power.limit", UNKNOWN), {"failPercent": 10}),
        (finding("power.limit", SKIP), {"failPercent": 10}),
        (finding("power.limit", FAIL, observed="low"), {"failPercent": 10}),
        (judged("retired.pages", WARN, 3, "warnPages"), {"warnPages": 20}),  # pages wait for a reset
        (finding("pcie.errors", FAIL, observed=1), {"correctableAMinute": 50}),  # fatal errors
        (
            finding("temp.core", FAIL, observed=96, threshold=Threshold(value=95, source=ThresholdSource.VENDOR)),
            {"failDegrees": 99},  # the GPU has a threshold of its own
        ),
        (judged("power.limit", FAIL, 70, "failPercent"), {"other": 10}),
        (replace(memory(0.70), scale=0.0), {"failBelow": 0.1}),  # an older agent
    ],
    ids=["unknown", "skip", "text", "pending", "fatal", "own threshold", "other limit", "no scale"],
)
def test_other_reasons_stand(before: HealthFinding, limits: dict[str, float]) -> None:
    """Nothing that is not known passes, and no failure for another reason is lifted."""
    assert rejudged(before, limits) == before


def test_what_a_changed_finding_says() -> None:
    """Limit and source are those of the policy, weight and action those of the new status."""
    worse = rejudged(judged("retired.pages", WARN, 12, "warnPages", severity="info"), {"failPages": 12})
    assert worse.threshold == Threshold(value=12, source=ThresholdSource.POLICY)
    assert (worse.severity, worse.action) == (FindingSeverity.FATAL, RepairAction.CONTACT_SUPPORT)
    better = rejudged(memory(0.70), {"failBelow": 0.65, "warnBelow": 0.9})
    assert better.threshold == Threshold(value=4320, source=ThresholdSource.POLICY)
    assert rejudged(better, {"failBelow": 0.65, "warnBelow": 0.9}) == better
    odd = rejudged(memory(0.70), {"failBelow": "low"})
    assert (odd.status, odd.message) == (UNKNOWN, "the threshold failBelow of the policy is not a number")


def test_a_lifted_failure_passed() -> None:
    """In the profile that measured it; other findings of the node stay."""
    report = merged(None, result(replace(memory(0.70), slot=slot(0)), finding("a", FAIL), finding("b", PASS)))
    spec = {"checks": {"hbm.bandwidth": {"limits": {"failBelow": 0.6, "warnBelow": 0.6}}}}
    policy = PolicyBook([PolicyDocument(name="base", spec=spec)]).base
    judged_again = rejudged_report(report, policy)
    assert [one.check for one in judged_again.findings] == ["a"]
    assert judged_again.passed == ("b", "hbm.bandwidth")
    assert judged_again.passed_by == {"hbm.bandwidth": ProbeProfile.PREFLIGHT}
    assert rejudged_report(report, PolicyBook().base) is report


def test_every_limit_exists() -> None:
    for check, rows in NAMED_LIMITS.items():
        named = {name for row in rows for name in (row.warn, row.fail) if name}
        assert named <= BY_ID[check].limits.keys(), check


def measured_pass(value: float, **fields: Any) -> NodeReport:
    """Return the report of a node whose memory passed with this part of its peak."""
    return merged(None, result(replace(memory(value), slot=slot(0)), profile=ProbeProfile.PREFLIGHT, **fields))


def limited(report: NodeReport, check: str = "hbm.bandwidth", **limits: float) -> NodeReport:
    return rejudged_report(
        report, PolicyBook([PolicyDocument(name="p", spec={"checks": {check: {"limits": limits}}})]).base
    )


@pytest.mark.parametrize(("share", "status"), [(0.92, None), (0.90, WARN), (0.86, FAIL)])
def test_a_value_that_passed_is_judged_by_the_limits_of_a_policy(share: float, status: CheckStatus | None) -> None:
    """F-098: a learned limit counts for what passed, since reports hold its value."""
    report = limited(measured_pass(share), warnBelow=0.91, failBelow=0.87)
    assert "hbm.bandwidth" in report.passed
    found = [one for one in report.findings if one.check == "hbm.bandwidth"]
    assert [one.status for one in found] == ([] if status is None else [status])
    if status is not None:
        (one,) = found
        limit = 0.91 if status is WARN else 0.87
        assert one.message == f"{4800 * share:.4g} GB/s, worse than the policy's limit of {4800 * limit:.4g}"
        assert (one.slot, one.uuid, one.profile) == (slot(0), gpus(1)[0].uuid, ProbeProfile.PREFLIGHT)
        assert one.threshold == Threshold(value=4800 * limit, source=ThresholdSource.POLICY)


def test_values_of_other_kinds_and_old_ones_stay() -> None:
    """The limits of GDDR are for GDDR; without a pass in the report its values say nothing."""
    report = measured_pass(0.86)
    assert limited(report, failBelowGddr=0.9) is report
    assert limited(report, "pcie.h2d", failBelow=0.9) is report
    assert limited(replace(report, passed=()), failBelow=0.9).findings == ()
    assert limited(replace(report, measured={}), failBelow=0.9).findings == ()
