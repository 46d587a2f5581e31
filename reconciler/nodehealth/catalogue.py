"""The catalogue: every check, in the order in which a person reads them. A check is a row of its family's file."""

from reconciler.nodehealth.checks import (
    amd,
    bandwidth,
    compute,
    diagnostics,
    driver,
    host,
    kernel,
    links,
    memory,
    network,
    pcie,
    setup,
    storage,
    thermal,
)
from reconciler.nodehealth.checks.check import HealthCheck

CHECKS: tuple[HealthCheck, ...] = (
    *driver.CHECKS,
    *kernel.CHECKS,
    *memory.CHECKS,
    *pcie.CHECKS,
    *links.CHECKS,
    *thermal.CHECKS,
    *setup.CHECKS,
    *host.CHECKS,
    *amd.CHECKS,
    *bandwidth.CHECKS,
    *compute.CHECKS,
    *diagnostics.CHECKS,
    *network.CHECKS,
    *storage.CHECKS,
)
BY_ID = {check.id: check for check in CHECKS}

RECORDED = frozenset(check.id for check in CHECKS if check.is_recorded)
"""The checks whose values are kept in reports."""


def check_ids() -> tuple[str, ...]:
    """Return the ids of all checks, in the order of the catalogue."""
    return tuple(BY_ID)
