"""Samples of the gauges of a fleet: nodes by phase, the breaker, and how old the reports are."""

from collections import Counter
from collections.abc import Mapping

from reconciler.core.health.fleet.decisions import FleetEvaluation
from reconciler.core.health.fleet.state import FleetNode
from reconciler.core.health.report import NodeReport

FleetSamples = dict[str, tuple[tuple[tuple[str, ...], float], ...]]
"""Values by label values, by name of the metric."""


def fleet_samples(
    evaluation: FleetEvaluation, facts: Mapping[str, FleetNode], reports: Mapping[str, NodeReport], now: float
) -> FleetSamples:
    """Return the samples of one round. A node without a report has no age: its agent has never been there."""
    nodes = Counter(
        (one.phase.value, facts[one.node].pool if one.node in facts else "") for one in evaluation.decisions.values()
    )
    breaker = evaluation.state.breaker
    limits = {("fleet",): float(bool(breaker.tripped)), **{(check,): 1.0 for check in breaker.frozen}}
    ages = {(name,): max(now - report.measured_at, 0.0) for name, report in reports.items() if name in facts}
    return {
        "gpuhealth_nodes": tuple(sorted((labels, float(count)) for labels, count in nodes.items())),
        "gpuhealth_breaker_state": tuple(sorted(limits.items())),
        "gpuhealth_report_age_seconds": tuple(sorted(ages.items())),
    }
