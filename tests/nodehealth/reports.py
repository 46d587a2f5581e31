"""Reports and sweeps for tests of node health."""

from typing import Any

from reconciler.nodehealth.findings import (
    CheckStatus,
    FindingSeverity,
    HealthFinding,
    ProbeProfile,
    RepairAction,
    Threshold,
    ThresholdSource,
)
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.readings import GpuIdentity, Sweep
from reconciler.nodehealth.report import NodeReport, ProfileRun

NOW = 1_800_000_000.0
PASS, WARN, FAIL, UNKNOWN, SKIP = (CheckStatus[name] for name in ("PASS", "WARN", "FAIL", "UNKNOWN", "SKIP"))


def slot(index: int) -> str:
    return f"00000000:{index + 16:02X}:00.0"


def gpus(count: int) -> tuple[GpuIdentity, ...]:
    return tuple(
        GpuIdentity(
            slot=slot(index),
            index=index,
            uuid=f"GPU-{index:08x}-1111-2222-3333-444444444444",
            serial=f"16514230{index:05d}",
            product="NVIDIA H100 80GB HBM3",
        )
        for index in range(count)
    )


def finding(check: str, status: CheckStatus, **fields: Any) -> HealthFinding:
    return HealthFinding(**{"check": check, "status": status, "message": f"{check} is {status}", **fields})


def result(
    *findings: HealthFinding, profile: ProbeProfile = ProbeProfile.LIGHT, at: float = NOW, **sweep: Any
) -> SweepResult:
    taken = Sweep(**{"node": "node-1", "taken_at": at, "boot_id": "boot-1", "gpus": gpus(2), **sweep})
    return SweepResult(sweep=taken, findings=findings, profile=profile)


def worst(gpu_count: int = 16, checks: int = 45) -> NodeReport:
    """Return the report of a node on which every check fails on every GPU, with everything that a finding can hold."""
    found = [
        finding(
            f"family.check_{number:02d}.counter",
            FAIL,
            slot=gpu.slot,
            uuid=gpu.uuid,
            severity=list(FindingSeverity)[number % 4],
            action=RepairAction.CONTACT_SUPPORT,
            message=f"the counter of {gpu.slot} shows {number} uncorrectable errors in the last 24 hours " * 4,
            observed=1234567.125,
            unit="errors/h",
            threshold=Threshold(value=0.48, source=ThresholdSource.VENDOR, citation="DCGM DcgmHealthWatch.cpp " * 4),
            profile=ProbeProfile.DEEP,
            samples=20,
            since=NOW - 86400.5,
        )
        for number in range(checks)
        for gpu in gpus(gpu_count)
    ]
    return NodeReport(
        node="ip-10-128-255-255.eu-central-1.compute.internal",
        node_uid="0f5a6c7e-7a53-4c0e-8f5e-6a0e3f6f2b11",
        measured_at=NOW + 0.25,
        boot_id="0f5a6c7e-7a53-4c0e-8f5e-6a0e3f6f2b12",
        driver="570.133.20",
        version="0.1.0",
        gpus=gpus(gpu_count),
        findings=tuple(found),
        passed=tuple(f"family.passed_{number:02d}" for number in range(checks)),
        skipped=tuple(f"family.skipped_{number:02d}" for number in range(checks)),
        runs=tuple(
            ProfileRun(profile=profile, requested_at=NOW, started_at=NOW, deadline=NOW + 900, level=3, failed=("a",))
            for profile in ProbeProfile
        ),
        address="http://[2001:db8:85a3:8d3:1319:8a2e:370:7348]:3333",
    )
