"""Read the nodes and the health reports of a live cluster."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.workloads import NODE, POD
from reconciler.kube.client.port import Body, LiveCluster
from reconciler.kube.objects import split_api_version
from reconciler.kube.values import annotation, mapping, text
from reconciler.live.observe.fleet import fleet_node, has_gpus
from reconciler.live.observe.owners import RepairOwner, node_health_checks, repair_owner
from reconciler.nodehealth.fleet.state import FleetNode
from reconciler.nodehealth.published import EXPECTED, MalformedReport, report_of
from reconciler.nodehealth.report import KIND, NodeReport
from reconciler.repo.config.config import GROUP

REPORT = (GROUP, KIND)


class FleetReading(Struct, frozen=True, kw_only=True, eq=False):
    """One look at a fleet. `notes` say what was left out and why; a report that cannot be read counts as missing.

    expected: what each report says that Git expects of the node, as text.
    """

    nodes: Mapping[str, Body]
    facts: Mapping[str, FleetNode]
    owners: Mapping[str, RepairOwner]
    reports: Mapping[str, NodeReport]
    notes: tuple[str, ...] = ()
    expected: Mapping[str, str] = {}


def read_fleet(cluster: LiveCluster) -> FleetReading:
    """Read all nodes with GPUs and all reports. Raises `ClusterError`: decisions need the whole fleet."""
    reports: dict[str, NodeReport] = {}
    notes: list[str] = []
    expected: dict[str, str] = {}
    for body in cluster.list(cluster.resource(*REPORT)).objects:
        expected[body["metadata"]["name"]] = annotation(body, EXPECTED)
        try:
            report = report_of(body)
        except MalformedReport as error:
            notes.append(str(error))
            continue
        if report is not None:
            reports[report.node] = report
    checks = node_health_checks(cluster, notes)
    nodes, facts, owners = {}, {}, {}
    for body in cluster.list(cluster.resource(*NODE)).objects:
        owner = repair_owner(body, checks)
        node = fleet_node(body, owner)
        if not has_gpus(node) and node.name not in reports:
            continue
        nodes[node.name], facts[node.name] = body, node
        if owner is not None:
            owners[node.name] = owner
    return FleetReading(nodes=nodes, facts=facts, owners=owners, reports=reports, notes=tuple(notes), expected=expected)


def pods_on(cluster: LiveCluster, node: str) -> Iterator[Body]:
    """Return the pods of one node. Raises `ClusterError`."""
    return cluster.list(cluster.resource(*POD), fields=f"spec.nodeName={node}").objects


def find_owner(cluster: LiveCluster, namespace: str, owner: Mapping[str, Any]) -> Body | None:
    """Return an owner, unless it is gone. It is listed: that is what the chart permits in every mode."""
    resource = cluster.resource(split_api_version(text(owner.get("apiVersion")))[0], text(owner.get("kind")))
    listing = cluster.list(resource, namespace=namespace, fields=f"metadata.name={text(owner.get('name'))}")
    return next((one for one in listing.objects if mapping(one.get("metadata")).get("uid") == owner.get("uid")), None)
