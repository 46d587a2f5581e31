"""The health reports of a live cluster, as evidence."""

import datetime as dt
from collections.abc import Iterable

from reconciler.index.build import CompiledRevision
from reconciler.kinds.health import POLICY, policy_of
from reconciler.kube.client.port import Body
from reconciler.nodehealth.fleet.evidence import FleetHealth, observe_health
from reconciler.nodehealth.policy import PolicyBook
from reconciler.nodehealth.published import MalformedReport, report_of
from reconciler.nodehealth.report import NodeReport


def policies_of(index: CompiledRevision, cluster: str) -> PolicyBook:
    """Return the HealthPolicies of a cluster."""
    found = index.context.definitions.get((cluster, POLICY, ""), {})
    return PolicyBook(policy_of(one.document) for one in found.values())


def read_health(
    index: CompiledRevision, cluster: str, bodies: Iterable[Body], now: dt.datetime
) -> tuple[FleetHealth, tuple[NodeReport, ...], tuple[str, ...]]:
    """Return the evidence, the reports, and notes: a report that cannot be read is not a healthy node."""
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
    found = observe_health(reports.values(), now=now.timestamp(), stale_after=policies.base.lifecycle.stale_after)
    taken_at = now.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return FleetHealth(cluster=cluster, taken_at=taken_at, nodes=found), tuple(reports.values()), tuple(notes)
