"""F-132: a release that may only act as the service accounts that it names, and a source that uses one of them."""

import json
from pathlib import Path
from typing import Any

from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer, wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.chart.installed import installed
from tests.live.chart.permissions import granted
from tests.live.chart.rendering import Chart
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import controller
from tests.live.controller.test_pass import push

_TEAM = "team-of-deployer"
_READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
_WRITE = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "patch", "delete"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
]


def test_a_team_is_served_with_its_own_permissions(  # noqa: PLR0917 - fixtures
    cluster: ApiServer, restricted: str, chart: Chart, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """The controller itself may not touch an object; as another account than those named it may do nothing at all."""
    cluster.client.ensure_namespaces([_TEAM])
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "app", "namespace": _TEAM},
        "data": {"a": "1"},
    }
    push(person, dict.fromkeys(others) | {"jobs/app.yaml": json.dumps(body).encode()})
    values = {"mode": "apply", "rbac": {"resources": [], "impersonate": [{"name": "deployer", "namespace": _TEAM}]}}
    accounts = ("deployer", "stranger")
    assert_all_accepted(cluster.client.apply([source(server.url, account) for account in accounts]))
    with (
        installed(cluster, chart(values, release="impersonating-reconciler"), tmp_path) as release,
        granted(cluster.client, {"deployer": [_READ]}, _TEAM),
        granted(cluster.client, {"deployer": _WRITE}, _TEAM, within=_TEAM),
        controller(
            tmp_path / "controller",
            *("--namespace", _TEAM, "--lease-namespace", restricted),
            environ={"KUBECONFIG": str(release.kubeconfig), "RECONCILER_INVENTORY_NAMESPACE": _TEAM},
        ) as running,
    ):
        wait_until(lambda: ready(cluster, "deployer").get("status") == "True", "the source of the team")
        wait_until(lambda: ready(cluster, "stranger").get("status") == "False", "the other source")
        assert "impersonate" in ready(cluster, "stranger")["message"]
        assert cluster.client.get(f"/api/v1/namespaces/{_TEAM}/configmaps/app")["data"] == {"a": "1"}
        assert running.stop() == 0
        touched = {str(needed) for one in release.asked() for needed in one.needs}
        assert not [one for one in touched if "configmaps" in one]
    for account in accounts:
        cluster.client.request("DELETE", path(account))


def source(url: str, account: str) -> dict[str, Any]:
    spec = {"url": url, "mode": "apply", "interval": "1s", "serviceAccount": account}
    metadata = {"name": account, "namespace": _TEAM}
    return {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "ConfigSource", "metadata": metadata, "spec": spec}


def path(name: str) -> str:
    return f"/apis/gpureconciler.io/v1alpha1/namespaces/{_TEAM}/configsources/{name}"


def ready(cluster: ApiServer, name: str) -> dict[str, Any]:
    conditions = cluster.client.get(path(name)).get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "Ready"), {})
