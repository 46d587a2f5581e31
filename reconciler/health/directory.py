"""The nodes that a request to the agents' HTTP interface selects, and the addresses of their agents."""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.health.reports import report_key
from reconciler.kube.client.port import LiveCluster
from reconciler.nodehealth.published import MalformedReport, report_of
from reconciler.nodehealth.report import API_VERSION, KIND, NodeReport

ALL = "all"


class NodeSelection(Struct, frozen=True, kw_only=True):
    """The union of nodes by name, of the pods of a job (`namespace:key=value`), and by label (`key=value`)."""

    hosts: tuple[str, ...] = ()
    job: str = ""
    node_label: str = ""

    @property
    def is_empty(self) -> bool:
        """True if only the node that is asked is meant."""
        return not (self.hosts or self.job or self.node_label)


def addresses(cluster: LiveCluster, selection: NodeSelection) -> dict[str, str]:
    """Return the selected nodes with the address of their agents; empty for a node that has none.

    Jobs and labels need the right to list pods and nodes, which agents have only where the chart grants it.
    """
    if ALL in selection.hosts:
        return dict(sorted(_all(cluster)))
    named = {*selection.hosts, *_of_job(cluster, selection.job), *_of_label(cluster, selection.node_label)}
    return {name: _address(cluster.get(report_key(name)) or {}) for name in sorted(named)}


def reporting(cluster: LiveCluster, now: float) -> dict[str, NodeReport]:
    """Return the reports of all agents that still write them: a dead node is no fault of the network."""
    found = {}
    for body in cluster.list(cluster.resource(API_VERSION.partition("/")[0], KIND)).objects:
        try:
            report = report_of(body)
        except MalformedReport:  # a damaged report names no address to measure
            continue
        if report is not None and not report.is_overdue(now):
            found[report.node] = report
    return found


def _all(cluster: LiveCluster) -> Iterator[tuple[str, str]]:
    resource = cluster.resource(API_VERSION.partition("/")[0], KIND)
    for body in cluster.list(resource).objects:
        yield body["metadata"]["name"], _address(body)


def _of_job(cluster: LiveCluster, job: str) -> Iterator[str]:
    if not job:
        return
    namespace, colon, labels = job.partition(":")
    if not colon or not namespace or "=" not in labels:
        raise ConfigError(f"job={job}: not a job", hint="write job=NAMESPACE:KEY=VALUE, a label of its pods")
    for body in cluster.list(cluster.resource("", "Pod"), namespace=namespace, labels=labels).objects:
        if node := (body.get("spec") or {}).get("nodeName"):
            yield node


def _of_label(cluster: LiveCluster, label: str) -> Iterator[str]:
    if not label:
        return
    if "=" not in label:
        raise ConfigError(f"nodelabel={label}: not a label", hint="write nodelabel=KEY=VALUE")
    for body in cluster.list(cluster.resource("", "Node"), labels=label, metadata_only=True).objects:
        yield body["metadata"]["name"]


def _address(body: dict[str, object]) -> str:
    try:
        report = report_of(body)
    except MalformedReport:
        return ""
    return report.address if report else ""
