"""The agent's part of the chart on a real API server: its rights, its pod, and whose reports it may write."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.health.directory import NodeSelection, addresses
from reconciler.health.reports import ClusterReports
from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.client.port import ClusterError
from reconciler.nodehealth.report import NodeReport
from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer, wait_until
from tests.live.chart.installed import Installed, installed
from tests.live.chart.rendering import Chart
from tests.nodehealth.reports import NOW
from tools.crds import manifest
from tools.health_crd import REPORT

_SIMPLE = {"agent": {"enabled": True}}
_API = {"agent": {"enabled": True, "api": {"enabled": True, "selectNodes": True}}}


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    assert_all_accepted(api_server.client.apply([yaml.safe_load(manifest(REPORT))]))
    path = "/apis/gpureconciler.io/v1alpha1/nodehealthreports"
    wait_until(lambda: api_server.client.request("GET", path).ok, "NodeHealthReport")
    return api_server


def of_agent(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [body for body in bodies if body["metadata"]["labels"].get("app.kubernetes.io/component") == "agent"]


@pytest.fixture
def agent(server: ApiServer, restricted: str, chart: Chart, tmp_path: Path, request: Any) -> Iterator[Installed]:
    """Return the agent's account, of a release for each test: the audit log is one for all."""
    release = f"agent-{zlib.crc32(request.node.name.encode()):x}"
    with installed(server, of_agent(chart(_SIMPLE, release=release)), tmp_path) as found:
        yield found


def opened(agent: Installed) -> KubernetesCluster:
    return KubernetesCluster(load_access({}, kubeconfig=str(agent.kubeconfig)))


def publish(cluster: KubernetesCluster, node: str) -> NodeReport | None:
    store = ClusterReports(cluster)
    return store.update(node, lambda _: NodeReport(node=node, measured_at=NOW, passed=("a",))).report


def test_the_agent_needs_exactly_what_it_is_granted(agent: Installed) -> None:
    """F-132: it creates, reads and writes reports with its own token, and no permission is unused."""
    with opened(agent) as cluster:
        publish(cluster, "rights-1")
        assert ClusterReports(cluster).read("rights-1").report is not None
        publish(cluster, "rights-1")
    assert not [one for one in agent.asked() if one.is_refused]
    assert agent.used() == agent.granted()


@pytest.mark.parametrize("kind", ["Node", "Pod", "Secret", "ConfigMap", REPORT[1]])
def test_the_agent_lists_nothing(agent: Installed, kind: str) -> None:
    """No pod or node rights; not even the reports of other nodes."""
    group = REPORT[0] if kind == REPORT[1] else ""
    with opened(agent) as cluster, pytest.raises(ClusterError, match="cannot list"):
        list(cluster.list(cluster.resource(group, kind)).objects)


def test_selecting_nodes_is_granted_only_on_request(
    server: ApiServer, restricted: str, chart: Chart, tmp_path: Path
) -> None:
    """F-092: by host, job and label, with the rights that the chart adds for that."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "select-1", "labels": {"rack": "select"}}}
    assert_all_accepted(server.client.apply([node]))
    server.client.ensure_namespaces(["select"])
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker", "namespace": "select", "labels": {"job": "train"}},
        "spec": {"nodeName": "select-2", "containers": [{"name": "a", "image": "a"}]},
    }
    assert_all_accepted(server.client.apply([pod]))
    with installed(server, of_agent(chart(_API, release="select")), tmp_path) as found, opened(found) as cluster:
        store = ClusterReports(cluster)
        store.update("select-1", lambda _: NodeReport(node="select-1", measured_at=NOW, address="http://10.0.0.1:3333"))
        both = NodeSelection(hosts=("select-3",), job="select:job=train", node_label="rack=select")
        assert addresses(cluster, both) == {"select-1": "http://10.0.0.1:3333", "select-2": "", "select-3": ""}
        assert addresses(cluster, NodeSelection(hosts=("all",)))["select-1"] == "http://10.0.0.1:3333"
        assert not [one for one in found.asked() if one.is_refused]


def test_an_agent_writes_only_its_own_report(server: ApiServer, restricted: str, chart: Chart, tmp_path: Path) -> None:
    """With `ownReportOnly`, the API server compares the node in the token with the name of the report."""
    values = {"agent": {"enabled": True, "ownReportOnly": True}}
    bodies = of_agent(chart(values))
    policies = [body for body in bodies if body["kind"].startswith("ValidatingAdmissionPolicy")]
    with installed(server, bodies, tmp_path) as found:
        assert_all_accepted(server.client.apply(policies))
        try:
            with opened(found) as cluster:  # a token without a pod names no node
                wait_until(lambda: _is_denied(cluster, "own-2"), "the policy")
            kubeconfig = _as_pod(server, found, tmp_path, node="own-1")
            with KubernetesCluster(load_access({}, kubeconfig=str(kubeconfig))) as cluster:
                publish(cluster, "own-1")
                assert _is_denied(cluster, "own-2")
        finally:
            for body in policies:
                server.client.request("DELETE", server.client.path(body) or "")


def _is_denied(cluster: KubernetesCluster, node: str) -> bool:
    try:
        cluster.apply(
            {"apiVersion": "gpureconciler.io/v1alpha1", "kind": REPORT[1], "metadata": {"name": node}}, dry_run=True
        )
    except ClusterError as error:
        return "own node only" in error.message
    return False


def _as_pod(server: ApiServer, found: Installed, folder: Path, *, node: str) -> Path:
    """Return a kubeconfig with the token of a pod on a node."""
    assert_all_accepted(server.client.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}]))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent", "namespace": found.namespace},
        "spec": {
            "nodeName": node,
            "serviceAccountName": found.name,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "a",
                    "image": "a",
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
    (made,) = server.client.apply([pod])
    assert made.ok, made.message
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "agent", "uid": made.body["metadata"]["uid"]}
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [], "boundObjectRef": bound},
    }
    path = f"/api/v1/namespaces/{found.namespace}/serviceaccounts/{found.name}/token"
    answer = server.client.request("POST", path, request)
    assert answer.ok, answer.body
    config = json.loads(found.kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": "admin", "user": {"token": answer.body["status"]["token"]}}]
    target = folder / "pod.kubeconfig"
    target.write_text(json.dumps(config), encoding="utf-8")
    return target


# Pods.


@pytest.mark.parametrize(("values", "is_restricted"), [({}, True), ({"kmsg": {"enabled": True}}, False)])
def test_the_agent_is_as_unprivileged_as_it_says(
    server: ApiServer, restricted: str, chart: Chart, values: dict[str, Any], is_restricted: bool
) -> None:
    """Without kernel messages, the agent fits the strictest Pod Security Standard."""
    (daemon,) = (body for body in chart({"agent": {"enabled": True, **values}}) if body["kind"] == "DaemonSet")
    template = daemon["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": "agent-dry-run"},
        "spec": template["spec"],
    }
    answer = server.client.request("POST", f"/api/v1/namespaces/{restricted}/pods?dryRun=All", pod)
    assert answer.ok == is_restricted, answer.body
    containers = template["spec"]["containers"]
    with_token = [one["name"] for one in containers if any(mount["name"] == "token" for mount in one["volumeMounts"])]
    assert with_token == ["agent"]
    assert [one["name"] for one in containers if one["securityContext"].get("privileged")] == (
        [] if is_restricted else ["kmsg"]
    )
