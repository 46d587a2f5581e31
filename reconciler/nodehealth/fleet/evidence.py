"""`NodeHealth` (`evidence/<cluster>/health.yaml`): what decisions use of the health reports of a cluster's nodes."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.problems import Problem
from reconciler.kube.times import is_too_old
from reconciler.kube.values import plural
from reconciler.kube.violations import foreign_cluster, repeated_nodes
from reconciler.kube.yaml import Document, write
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding
from reconciler.nodehealth.report import API_VERSION, NodeReport

KIND = "NodeHealth"
_HEADER = b"# The health of the cluster's nodes. `reconciler observe` writes this file; plans and proposals use it.\n"
_BAD = (CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.UNKNOWN)
_NODE_LEVEL = ""


class HealthIssue(Struct, frozen=True, kw_only=True, order=True):
    """A check that did not pass, on a slot or on the whole node. Values that move all the time are not kept."""

    check: str
    slot: str = _NODE_LEVEL
    status: str
    severity: str = ""


class ObservedNode(Struct, frozen=True, kw_only=True):
    """The health of one node. `why` explains an UNKNOWN of the node as a whole, such as an old report."""

    name: str
    uid: str = ""
    status: CheckStatus = CheckStatus.UNKNOWN
    issues: tuple[HealthIssue, ...] = ()
    why: str = ""


class FleetHealth(Struct, frozen=True, kw_only=True, dict=True):
    """The health of the nodes of one cluster, by name. A node that is not listed has never reported: it is unknown."""

    cluster: str
    taken_at: str  # RFC 3339
    nodes: Mapping[str, ObservedNode] = {}
    document: Document | None = None

    def status(self, node: str) -> CheckStatus:
        """Return the status of a node."""
        known = self.nodes.get(node)
        return CheckStatus.UNKNOWN if known is None else known.status


def observe_health(reports: Iterable[NodeReport], *, now: float, stale_after: float) -> dict[str, ObservedNode]:
    """Return the evidence of reports. One that is too old, or from the future, is unknown, never healthy."""
    nodes = (_node(report, now, stale_after) for report in reports)
    return {node.name: node for node in sorted(nodes, key=lambda node: node.name)}


def as_of_age(health: FleetHealth, days: int | None, most: int | None) -> FleetHealth:
    """Return what is known at this age: a pass of evidence that is too old is unknown, and a failure stays a failure.

    `most` is `spec.evidence.maxAge`; None means no limit. Evidence from the future counts as old.
    """
    if days is None or most is None or not is_too_old(days, most):
        return health
    allowed = f"spec.evidence.maxAge allows {plural(most, 'day')}"
    why = f"recorded {plural(days, 'day')} ago; {allowed}" if days > 0 else "recorded in the future"
    old = {
        name: replace(node, status=CheckStatus.UNKNOWN, why=why) if node.status is CheckStatus.PASS else node
        for name, node in health.nodes.items()
    }
    return replace(health, nodes=old)


def _node(report: NodeReport, now: float, stale_after: float) -> ObservedNode:
    age = now - report.measured_at
    if age > stale_after:
        return ObservedNode(name=report.node, uid=report.node_uid, why="the report is old")
    if age < -stale_after:
        return ObservedNode(name=report.node, uid=report.node_uid, why="the report is from the future")
    issues = sorted({_issue(finding) for finding in report.findings if finding.status in _BAD})
    return ObservedNode(name=report.node, uid=report.node_uid, status=report.status, issues=tuple(issues))


def _issue(finding: HealthFinding) -> HealthIssue:
    severity = "" if finding.severity is FindingSeverity.INFO else finding.severity.value
    return HealthIssue(check=finding.check, slot=finding.slot, status=finding.status.value, severity=severity)


def parse_health(document: Document, cluster: str) -> tuple[FleetHealth | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted, for `cluster` (the folder it lies in)."""
    spec = document.data["spec"]
    problems = document.problems((*foreign_cluster(spec, cluster), *repeated_nodes(spec)))
    if problems:
        return None, problems
    nodes = {entry["name"]: _read(entry) for entry in spec.get("nodes", ())}
    return FleetHealth(cluster=cluster, taken_at=spec["takenAt"], nodes=nodes, document=document), ()


def write_health(health: FleetHealth) -> bytes:
    """Write the evidence file. Equal health and times give equal bytes."""
    nodes = [_entry(node) for _, node in sorted(health.nodes.items())]
    spec = {"cluster": health.cluster, "takenAt": health.taken_at, "nodes": nodes}
    return _HEADER + write(
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": health.cluster}, "spec": spec}
    )


def _entry(node: ObservedNode) -> dict[str, Any]:
    issues = [
        {
            field: value
            for field, value in (
                ("check", issue.check),
                ("slot", issue.slot),
                ("status", issue.status),
                ("severity", issue.severity),
            )
            if value
        }
        for issue in node.issues
    ]
    entry = {"name": node.name, "uid": node.uid, "status": str(node.status), "issues": issues, "why": node.why}
    return {field: value for field, value in entry.items() if value}


def _read(entry: Mapping[str, Any]) -> ObservedNode:
    issues = tuple(
        HealthIssue(
            check=issue["check"],
            slot=issue.get("slot", _NODE_LEVEL),
            status=issue["status"],
            severity=issue.get("severity", ""),
        )
        for issue in entry.get("issues", ())
    )
    return ObservedNode(
        name=entry["name"],
        uid=entry.get("uid", ""),
        status=CheckStatus(entry["status"]),
        issues=issues,
        why=entry.get("why", ""),
    )
