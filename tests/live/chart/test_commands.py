"""The commands as the controller's service account: what they ask is what the chart grants, no more and no less.

The audit log of the API server tells what was asked. The other half is in `test_access.py`: without any one permission
the server refuses the request that needs it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fleet import Fleet
from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer, wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.chart.installed import Installed, installed
from tests.live.chart.permissions import Permission
from tests.live.chart.rendering import Chart
from tests.live.controller.gitserver import PASSWORD, USER, GitServer
from tests.live.controller.process import controller


def offered(server: ApiServer, found: set[Permission]) -> set[Permission]:
    """Return the permissions on kinds that the server offers."""
    groups = {""} | {group["name"] for group in server.client.get("/apis")["groups"]}
    return {one for one in found if one.group in groups}


@pytest.fixture
def observing(api_server: ApiServer, restricted: str, chart: Chart, tmp_path: Path) -> Iterator[Installed]:
    bodies = chart({"mode": "observe"}, release="observe-reconciler")
    with installed(api_server, bodies, tmp_path) as release:
        yield release


def test_observe_uses_every_permission_of_its_mode(fleet: Fleet, observing: Installed) -> None:
    """F-132: evidence is written, nothing is refused, and no permission on objects is left unused."""
    ran = fleet.run("observe", "--kubeconfig", str(observing.kubeconfig), "--allow-shrink")
    assert ran.code == 0, ran.err
    assert not [one for one in observing.asked() if one.is_refused]
    own = {one for one in observing.granted() if one.group == "gpureconciler.io" or one.resource == "events"}
    assert observing.used() == offered(observing.server, observing.granted()) - own


def test_the_controller_uses_every_permission_on_sources(  # noqa: PLR0917 - fixtures
    cluster: ApiServer, restricted: str, chart: Chart, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """F-132: it reads its sources and their Secret, writes their status and events, and is refused nothing."""
    server.private = True
    bodies = chart({"rbac": {"resources": [], "credentials": [{"name": "git"}]}}, release="controlling-reconciler")
    assert_all_accepted(cluster.client.apply(_source(server.url, restricted)))
    path = f"/apis/gpureconciler.io/v1alpha1/namespaces/{restricted}/configsources/fleet"
    with installed(cluster, bodies, tmp_path) as release:
        environ = {"KUBECONFIG": str(release.kubeconfig), "POD_NAMESPACE": restricted}
        with controller(tmp_path / "controller", environ=environ) as running:
            wait_until(lambda: _is_ready(cluster, path), "the condition Ready")
            assert running.stop() == 0
        assert not [one for one in release.asked() if one.is_refused]
        assert release.used() == release.granted() | release.granted(restricted)
    cluster.client.request("DELETE", path)


def _source(url: str, namespace: str) -> list[dict[str, Any]]:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "git", "namespace": namespace},
        "stringData": {"username": USER, "password": PASSWORD},
    }
    source = {
        "apiVersion": "gpureconciler.io/v1alpha1",
        "kind": "ConfigSource",
        "metadata": {"name": "fleet", "namespace": namespace},
        "spec": {"url": url, "mode": "commit", "secretRef": {"name": "git"}},
    }
    return [secret, source]


def _is_ready(cluster: ApiServer, path: str) -> bool:
    conditions = cluster.client.get(path).get("status", {}).get("conditions", [])
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)
