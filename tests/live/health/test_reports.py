"""NodeHealthReports on a real API server: it takes what agents publish, with strict fields, and returns the same."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.kube.client import KubernetesCluster
from reconciler.kube.client.port import ClusterError
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.published import body_of, report_of
from reconciler.nodehealth.report import API_VERSION, KIND, NodeReport
from tests.nodehealth.reports import FAIL, NOW, finding, worst

_MANAGER = "gpuhealth-test"


def publish(cluster: KubernetesCluster, body: dict[str, Any]) -> dict[str, Any]:
    """Create the object, then write its status."""
    head = {name: value for name, value in body.items() if name != "status"}
    cluster.apply(head, manager=_MANAGER)
    return cluster.apply(body, manager=_MANAGER, force=True, subresource="status").body


def read(cluster: KubernetesCluster, name: str) -> NodeReport | None:
    body = cluster.get(ObjectKey(group="gpureconciler.io", kind=KIND, namespace="", name=name))
    return report_of(body or {})


@pytest.mark.parametrize(("gpus", "checks"), [(0, 0), (1, 2), (16, 45)])
def test_what_is_published_is_read_back(health_cluster: KubernetesCluster, gpus: int, checks: int) -> None:
    """F-095: also the worst case, which the server stores whole."""
    report = replace(worst(gpus, checks), node=f"node-{gpus}-{checks}")
    body = body_of(report)
    publish(health_cluster, body)
    assert read(health_cluster, report.node) == report_of(body)


def test_an_unknown_field_or_value_is_refused(health_cluster: KubernetesCluster) -> None:
    """F-095: the schema knows exactly what agents write."""
    body = body_of(NodeReport(node="node-strict", measured_at=NOW, findings=(finding("a", FAIL),)))
    publish(health_cluster, body)
    for wrong in ({"unheardOf": 1}, {"status": "FINE"}, {"findings": [{"check": "a", "status": "FAIL"}]}):
        with pytest.raises(ClusterError, match=next(iter(wrong))):
            publish(health_cluster, {**body, "status": body["status"] | wrong})


def test_the_list_shows_status_and_summary(health_cluster: KubernetesCluster) -> None:
    publish(health_cluster, body_of(NodeReport(node="node-list", measured_at=NOW, findings=(finding("xid", FAIL),))))
    resource = health_cluster.resource("gpureconciler.io", KIND)
    assert (resource.namespaced, resource.plural, resource.api_version) == (False, "nodehealthreports", API_VERSION)
    (body,) = (one for one in health_cluster.list(resource).objects if one["metadata"]["name"] == "node-list")
    assert (body["status"]["status"], body["status"]["summary"]) == ("FAIL", "FAIL: xid")
