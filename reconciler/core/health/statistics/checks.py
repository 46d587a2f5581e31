"""The checks of a whole fleet: rows for policies and documentation. What they find is proposed at most."""

from msgspec import Struct

from reconciler.core.health.findings import FindingSeverity, RepairAction
from reconciler.core.health.policy import CheckMode, CheckRule, Lane

PEERS, DRIFT, LEMON = "fleet.peers", "fleet.drift", "fleet.lemon"


class FleetCheck(Struct, frozen=True, kw_only=True):
    """One check of the fleet. It starts in shadow mode, and a policy may let it propose."""

    id: str
    title: str
    action: RepairAction
    severity: FindingSeverity = FindingSeverity.DEGRADED

    @property
    def rule(self) -> CheckRule:
        """What the check may lead to where no policy names it."""
        return CheckRule(mode=CheckMode.SHADOW, lane=Lane.REVIEWED)


FLEET_CHECKS = (
    FleetCheck(
        id=PEERS,
        title="A GPU is as fast as equal GPUs: the best of three runs is less than 5 % below their median, or within "
        "3.5 robust standard deviations of it",
        action=RepairAction.RUN_DIAG,
    ),
    FleetCheck(
        id=DRIFT,
        title="A GPU is as fast as it was: no lasting loss of 3 % since its driver, its link or the GPU changed",
        action=RepairAction.RUN_DIAG,
    ),
    FleetCheck(
        id=LEMON,
        title="A node fails no more than five times as often as others",
        action=RepairAction.CONTACT_SUPPORT,
    ),
)
FLEET_BY_ID = {check.id: check for check in FLEET_CHECKS}
