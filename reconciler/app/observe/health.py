"""The health reports of a live cluster, as evidence."""

import datetime as dt
from collections.abc import Iterable, Mapping

from reconciler.core.health.fleet.evidence import FleetHealth, observe_health
from reconciler.core.health.fleet.replay import catalogue_rules
from reconciler.core.health.fleet.state import CheckFailure, FleetNode
from reconciler.core.health.fleet.suspects import suspected
from reconciler.core.health.policy import PolicyBook
from reconciler.core.health.published import MalformedReport, report_of
from reconciler.core.health.report import NodeReport
from reconciler.core.health.statistics.compare import compare
from reconciler.core.kinds.health import POLICY, policy_of
from reconciler.core.observe.fleet import fleet_node
from reconciler.index.build import CompiledRevision
from reconciler.ports.cluster import Body


def policies_of(index: CompiledRevision, cluster: str) -> PolicyBook:
    """Return the HealthPolicies of a cluster."""
    found = index.context.definitions.get((cluster, POLICY, ""), {})
    return PolicyBook(policy_of(one.document) for one in found.values())


def read_health(
    index: CompiledRevision, cluster: str, bodies: Iterable[Body], nodes: Iterable[Body], now: dt.datetime
) -> tuple[FleetHealth, tuple[NodeReport, ...], tuple[str, ...]]:
    """Return the evidence, the reports, and what is odd: a report that cannot be read is not a healthy node.

    Of the statistics only what a policy proposes is evidence, without values, so that noise makes no difference.
    """
    policies = policies_of(index, cluster)
    reports: dict[str, NodeReport] = {}
    notes = []
    for body in bodies:
        try:
            report = report_of(body)
        except MalformedReport as error:
            notes.append(f"{error}; the health of the node is unknown")
            continue
        if report is not None:
            reports[report.node] = report
    facts = {node.name: node for node in map(fleet_node, nodes)}
    found = observe_health(
        reports.values(),
        now=now.timestamp(),
        stale_after=policies.base.lifecycle.stale_after,
        suspected=_suspected(reports, facts, policies),
    )
    taken_at = now.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return FleetHealth(cluster=cluster, taken_at=taken_at, nodes=found), tuple(reports.values()), tuple(notes)


def _suspected(
    reports: Mapping[str, NodeReport], facts: Mapping[str, FleetNode], policies: PolicyBook
) -> dict[str, list[CheckFailure]]:
    """Return the confirmed suspicions by node."""
    rules, found = catalogue_rules(), {}
    for name, suspicions in compare(reports, facts).suspicions.items():
        policy = policies.of_labels(facts[name].labels)
        agreed = [
            one for one in suspected(suspicions, policy, rules) if one.is_confirmed(policy.lifecycle.confirmations)
        ]
        if agreed:
            found[name] = agreed
    return found
