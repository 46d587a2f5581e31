"""Results of `dcgmi diag`: its JSON of two versions, exit codes, fatal tests, chosen results."""

from typing import Any

import pytest

from reconciler import resources
from reconciler.nodehealth.findings import (
    CheckStatus,
    FindingSeverity,
    HealthFinding,
    ProbeProfile,
    Threshold,
    ThresholdSource,
)
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Sweep, Value
from reconciler.sizing.peaks import read_peaks

PASS, WARN, FAIL, UNKNOWN, SKIP = CheckStatus
PEAKS = read_peaks(resources.read("data/gpus.json"))
Results = dict[tuple[str, str], list[dict[str, Any]]]


def _version3(results: Results) -> dict[str, Any]:
    rows = [{"category": c, "tests": [{"name": n, "results": r}]} for (c, n), r in results.items()]
    return {"DCGM GPU Diagnostic": {"test_categories": rows}}


def _version4(results: Results) -> dict[str, Any]:
    rows = [
        {"category": c, "tests": [{"name": n, "results": r, "test_summary": {"status": "Pass"}}]}
        for (c, n), r in results.items()
    ]
    return {"DCGM Diagnostic": {"test_categories": rows}, "entity_groups": [], "Driver Version Detected": "580.65"}


def _diag(document: Any, code: int = 0, level: int = 3, **limits: str) -> HealthFinding:
    value: Value = {"exitCode": code, "output": document, "message": "" if code == 0 else "busy"}
    sweep = Sweep(node="n", taken_at=1.0, readings=(NodeReading(name=ReadingId(f"dcgm.level{level}"), value=value),))
    own = {name: Threshold(value=text, source=ThresholdSource.POLICY) for name, text in limits.items()}
    (finding,) = judge(sweep, only=(f"dcgm.level{level}",), limits={f"dcgm.level{level}": own})
    return finding


def _gpu(number: int, status: str, **more: object) -> dict[str, Any]:
    return {"gpu_id": str(number), "status": status, **more}


def _entity(number: int, status: str, **more: object) -> dict[str, Any]:
    return {"entity_group": "GPU", "entity_group_id": 1, "entity_id": number, "status": status, **more}


def test_a_failed_test_of_the_fatal_list_is_fatal() -> None:
    """F-083: `PCIe` is on the list, so the GPUs are unusable; the names of test and GPUs are told."""
    document = _version3(
        {
            ("Deployment", "Denylist"): [{"status": "Pass"}],
            ("Integration", "PCIe"): [_gpu(0, "Pass"), _gpu(1, "Fail", info="too slow"), _gpu(3, "Fail")],
        }
    )
    finding = _diag(document, code=226)
    assert (finding.status, finding.severity) == (FAIL, FindingSeverity.FATAL)
    assert finding.observed == "pcie.1.3"
    assert finding.message == "failed: pcie.1.3 (too slow)"
    version4 = _version4({("Integration", "pcie"): [_entity(0, "Fail", warnings=[{"warning": "slow", "error_id": 5}])]})
    assert (_diag(version4).status, _diag(version4).observed) == (FAIL, "pcie.0")
    assert _diag(version4).message == "failed: pcie.0 (slow; error 5 of DCGM)"


@pytest.mark.parametrize("test", ["memtest", "eud", "diagnostic", "memory_bandwidth"])
def test_failed_hardware_tests_are_fatal(test: str) -> None:
    """F-083: wrong results of a calculation are no warning, whatever the version of DCGM."""
    for document in (
        _version3({("Hardware", test): [_gpu(2, "Fail", warnings=["inconsistent calculations"])]}),
        _version4({("Hardware", test): [_entity(2, "Fail")]}),
    ):
        assert (_diag(document).status, _diag(document).observed) == (FAIL, f"{test}.2")


@pytest.mark.parametrize(("test", "severity", "status"), [("software", 2, FAIL), ("pcie", 5, WARN), ("pcie", 3, FAIL)])
def test_the_severity_of_dcgm_wins(test: str, severity: int, status: CheckStatus) -> None:
    """F-083: 2 isolates the GPU and 5 is a setting, whichever test says so; 3 leaves it to the test."""
    warnings = [{"warning": "x", "error_severity": severity}]
    assert _diag(_version4({("Hardware", test): [_entity(0, "Fail", warnings=warnings)]})).status is status


def test_skipped_tests_and_errors_of_the_run() -> None:
    """F-083: `SKIPPED` is a skip; a run with an error of its own passes nothing, even with exit code 0."""
    document = _version4(
        {("Hardware", "eud"): [_entity(0, "SKIPPED")], ("Deployment", "software"): [_entity(0, "Pass")]}
    )
    assert _diag(document).status is CheckStatus.PASS
    for key in ("global_errors", "runtime_error"):
        broken = {**document, key: [{"error": "the host engine is gone"}]}
        assert (_diag(broken).status, "host engine" in _diag(broken).message) == (CheckStatus.UNKNOWN, True)


def test_a_failed_test_beside_the_list_is_a_warning() -> None:
    """F-083: `software` shares letters with every name of the list, and is on it no more for that."""
    for document in (
        _version3({("Deployment", "software"): [{"status": "Fail"}]}),
        _version4({("Deployment", "software"): [_entity(2, "Fail")]}),
    ):
        finding = _diag(document)
        assert (finding.status, finding.severity) == (WARN, FindingSeverity.DEGRADED)
    assert _diag(_version3({("Deployment", "software"): [{"status": "Fail"}]}), fatal="Software, PCIe").status is FAIL
    assert _diag(_version3({("Integration", "PCIe"): [_gpu(0, "Fail")]}), fatal="").status is WARN


@pytest.mark.parametrize("name", ["GPU Memory", "memory", "gpu_memory"])
def test_names_of_both_versions_are_on_the_list(name: str) -> None:
    assert _diag(_version4({("Hardware", name): [_entity(0, "Fail")]})).status is FAIL
    assert _diag(_version3({("Deployment", "Page Retirement/Row Remap"): [_gpu(0, "Fail")]})).status is FAIL


def test_an_exit_code_is_never_a_pass() -> None:
    """F-083: dcgmi that ended with an error has proven nothing, whatever it printed before; a failed test still counts."""
    document = _version3({("Integration", "PCIe"): [_gpu(0, "Pass")]})
    assert _diag(document).status is PASS
    for code in (1, 205, 226, -9):
        finding = _diag(document, code=code)
        assert finding.status is UNKNOWN
        assert str(code) in finding.message


@pytest.mark.parametrize(
    "document", [{}, [], None, "text", {"DCGM GPU Diagnostic": None}, {"x": {"test_categories": [1, {"tests": {}}]}}]
)
def test_no_results_are_no_pass(document: object) -> None:
    assert _diag(document).status is UNKNOWN


def test_statuses() -> None:
    def status(*texts: str) -> CheckStatus:
        return _diag(_version3({("C", "T"): [_gpu(number, text) for number, text in enumerate(texts)]})).status

    assert status("PASS", "Skip") is PASS
    assert status("Skip", "Skip") is SKIP
    assert status("Pass", "Warn") is WARN
    assert status("Pass", "Exploded") is UNKNOWN
    assert status("Pass", "") is UNKNOWN
    assert status("Pass", "Exploded", "Fail") is WARN  # the failure is certain


def test_chosen_results() -> None:
    """F-083: result paths judge nothing else, are compared without case and spaces, and must exist."""
    document = _version3({("Hardware", "GPU Memory"): [_gpu(0, "Fail")], ("Integration", "PCIe"): [_gpu(0, "Pass")]})
    assert _diag(document).status is FAIL
    assert _diag(document, paths="DCGM GPU Diagnostic.Integration.PCIe").status is PASS
    assert _diag(document, paths="dcgm_gpu_diagnostic.HARDWare.gpu Memory").status is FAIL
    missing = _diag(document, paths="DCGM GPU Diagnostic.Integration.PCIe,DCGM GPU Diagnostic.Stress.Power")
    assert missing.status is UNKNOWN
    assert "dcgm_gpu_diagnostic.stress.power" in missing.message


def test_levels_and_profiles() -> None:
    """A level that is not part of a run is skipped; the last level is evidence for the vendor."""
    sweep = Sweep(
        node="n", taken_at=1.0, readings=(NodeReading(name=ReadingId("dcgm.level4"), error=ReadError.NOT_SUPPORTED),)
    )
    found = {finding.check: finding for finding in judge(sweep, profile=ProbeProfile.RMA) if "dcgm" in finding.check}
    assert {name: finding.status for name, finding in found.items()} == dict.fromkeys(found, SKIP)
    assert [finding.profile.value for finding in found.values()] == ["preflight", "deep", "deep", "rma"]
