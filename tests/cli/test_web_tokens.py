"""Readers of the pages whose tokens a real Kubernetes knows."""

import os
from typing import Any

import pytest

from reconciler.console.access import ClusterFlags, open_cluster
from reconciler.web.guard import cluster_guard
from tests.cli.fleet import Fleet
from tests.cli.test_web import get
from tests.cli.web_fleet import serving
from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer, wait_until

NAMESPACE = "default"


def token_of(server: ApiServer, name: str) -> str:
    """Create a service account, and return a token of it."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
    assert_all_accepted(server.client.apply([account]))
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
    answer = server.client.request("POST", path, wanted)
    assert answer.ok, answer.body
    token: str = answer.body["status"]["token"]
    return token


def may_read(name: str) -> list[dict[str, Any]]:
    """Return the role of a reader, and its binding."""
    rbac = "rbac.authorization.k8s.io"
    metadata = {"name": "page-reader", "namespace": NAMESPACE}
    rule = {"apiGroups": ["gpureconciler.io"], "resources": ["configsources"], "verbs": ["get"]}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    reference = {"apiGroup": rbac, "kind": "Role", "name": "page-reader"}
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [subject],
            "roleRef": reference,
        },
    ]


def test_kubernetes_says_who_reads(api_server: ApiServer, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-163: a token that it does not know is 401, a user without the right 403, one with it reads."""
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    reader, other = token_of(api_server, "page-reader"), token_of(api_server, "page-other")
    assert_all_accepted(api_server.client.apply(may_read("page-reader")))
    cluster = open_cluster(ClusterFlags(kubeconfig=str(api_server.kubeconfig)), dict(os.environ))
    with serving(fleet, cluster_guard(cluster, NAMESPACE)) as (address, _):
        page = f"{address}/"
        wait_until(lambda: get(page, Authorization=f"Bearer {reader}").status == 200, "the role is in force")
        assert get(page, Authorization=f"Bearer {other}").status == 403
        assert get(page, Authorization="Bearer abc").status == 401
        assert get(page).status == 401
