"""Names of checks outside of the catalogue: each is a check that exists."""

from reconciler.health.agent.process import PATHS
from reconciler.nodehealth.catalogue import BY_ID
from reconciler.nodehealth.exports.gauges import AUTOPILOT_CHECKS


def test_exports_and_paths_name_checks_that_exist() -> None:
    """F-093: a gauge or a path of a check that nobody runs would never tell anything."""
    for names in (*AUTOPILOT_CHECKS.values(), *PATHS.values()):
        assert set(names) <= set(BY_ID)
