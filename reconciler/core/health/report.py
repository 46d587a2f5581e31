"""The health report of one node: what its agent publishes as the status of a `NodeHealthReport`."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.core.health.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.core.health.readings import GpuIdentity

KIND = "NodeHealthReport"
API_VERSION = "gpureconciler.io/v1alpha1"
_ORDER = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.WARN, CheckStatus.PASS, CheckStatus.SKIP)


class NodeReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The findings of one node: everything but PASS and SKIP in full, those two as ids of checks.

    `passed` lists a check that passed wherever no finding says otherwise; `passed_by` the profile of passes that were
    heavier than light. `measured_at` is in seconds since the epoch, of the last sweep; `node_uid` tells a replaced
    node of the same name.
    """

    node: str
    measured_at: float
    node_uid: str = ""
    boot_id: str = ""
    driver: str = ""
    version: str = ""  # of the agent
    gpus: tuple[GpuIdentity, ...] = ()
    findings: tuple[HealthFinding, ...] = ()
    passed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    passed_by: Mapping[str, ProbeProfile] = {}

    @property
    def status(self) -> CheckStatus:
        """The worst status of all checks: FAIL, UNKNOWN, WARN, PASS; UNKNOWN if no check ran."""
        found = {finding.status for finding in self.findings} | ({CheckStatus.PASS} if self.passed else set())
        return next(
            (status for status in _ORDER if status in found and status is not CheckStatus.SKIP), CheckStatus.UNKNOWN
        )
