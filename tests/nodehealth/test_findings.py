"""Findings: which pass clears which failure, and the status of a report."""

import pytest

from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile, clears
from reconciler.nodehealth.report import NodeReport


def finding(
    status: CheckStatus, profile: ProbeProfile = ProbeProfile.LIGHT, check: str = "pcie.width", slot: str = "a"
) -> HealthFinding:
    return HealthFinding(check=check, status=status, slot=slot, profile=profile, message="")


@pytest.mark.parametrize("passed", ProbeProfile)
@pytest.mark.parametrize("failed", ProbeProfile)
def test_a_lighter_pass_never_clears_a_heavier_failure(passed: ProbeProfile, failed: ProbeProfile) -> None:
    """F-090: a light PASS after a deep FAIL keeps the FAIL."""
    ends = clears(finding(CheckStatus.PASS, passed), finding(CheckStatus.FAIL, failed))
    assert ends == (passed.weight >= failed.weight)


@pytest.mark.parametrize("status", [each for each in CheckStatus if each is not CheckStatus.PASS])
def test_only_a_pass_clears(status: CheckStatus) -> None:
    assert not clears(finding(status, ProbeProfile.RMA), finding(CheckStatus.FAIL))


def test_a_pass_of_another_check_or_slot_clears_nothing() -> None:
    assert not clears(finding(CheckStatus.PASS, check="pcie.gen"), finding(CheckStatus.FAIL))
    assert not clears(finding(CheckStatus.PASS, slot="b"), finding(CheckStatus.FAIL))


def test_unknown_is_worse_than_a_warning_and_nothing_measured_is_unknown() -> None:
    found = (finding(CheckStatus.WARN), finding(CheckStatus.UNKNOWN))
    assert NodeReport(node="n", measured_at=0, findings=found, passed=("gpu.count",)).status is CheckStatus.UNKNOWN
    assert NodeReport(node="n", measured_at=0, passed=("gpu.count",)).status is CheckStatus.PASS
    assert NodeReport(node="n", measured_at=0, skipped=("gpu.count",)).status is CheckStatus.UNKNOWN
