"""The commands as the controller's service account: what they ask is what the chart grants, no more and no less.

The audit log of the API server tells what was asked. The other half is in `test_access.py`: without any one permission
the server refuses the request that needs it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.client import KubernetesCluster
from reconciler.plan.live.inventory_record import LABEL
from tests.cli.fleet import Fleet
from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer, wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.apply.conftest import Site
from tests.live.chart.installed import Installed, installed
from tests.live.chart.permissions import Permission, specimens
from tests.live.chart.rendering import Chart
from tests.live.controller.gitserver import PASSWORD, USER, GitServer
from tests.live.controller.process import controller
from tests.live.controller.test_pass import push
from tools.chart.access import managed_kinds, plural


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
    own = {one for one in observing.granted() if "configsources" in one.resource or one.resource == "events"}
    reports = {one for one in observing.granted() if one.resource == "nodehealthreports"}  # if the server has them
    assert reports
    assert observing.used() | reports == (offered(observing.server, observing.granted()) - own) | reports


@pytest.fixture
def site(  # noqa: PLR0917 - fixtures
    fleet: Fleet,
    cluster: ApiServer,
    live: KubernetesCluster,
    applying: Installed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Site:
    """Return an empty repository, whose commands act as the service account of a release of mode `apply`."""
    monkeypatch.setenv("RECONCILER_INVENTORY_NAMESPACE", applying.namespace)
    monkeypatch.setenv("RECONCILER_DECISION_LOG", str(tmp_path / "decisions.jsonl"))
    for folder in ("jobs", "queues", "rendered"):
        for path in (fleet.root / folder).rglob("*.yaml"):
            path.unlink()
    return Site(fleet, live, replace(cluster, kubeconfig=applying.kubeconfig), tmp_path, "team-a")


@pytest.fixture
def applying(cluster: ApiServer, restricted: str, chart: Chart, tmp_path: Path) -> Iterator[Installed]:
    inventories = f"/api/v1/namespaces/{restricted}/configmaps?labelSelector={LABEL}"
    assert cluster.client.request("DELETE", inventories).ok  # those of other tests belong to other repositories
    bodies = chart({"mode": "apply", "rbac": {"exclude": []}}, release="applying-reconciler")
    with installed(cluster, bodies, tmp_path) as release:
        yield release


def test_plan_live_reads_and_tries_every_kind(site: Site, applying: Installed) -> None:
    """F-132: an object of every kind that a repository can hold is listed and dry-run; nothing is refused."""
    found = specimens()
    wanted = [row for row in managed_kinds(BUILT_IN) if row.id in found]
    for row in wanted:
        site.write(f"jobs/{row.group}-{row.kind}.yaml", found[row.id])
    site.server.client.ensure_namespaces(found[row.id]["metadata"].get("namespace", "") for row in wanted)
    site.plan()
    used = applying.used()
    assert not [one for one in applying.asked() if one.is_refused]
    assert used <= applying.granted() | applying.granted(applying.namespace)
    for verb in ("list", "patch"):
        tried = {(one.group, one.resource) for one in used if one.verb == verb}
        assert tried >= {(row.group, plural(row.kind)) for row in wanted} - _NOT_INSTALLED


_NOT_INSTALLED = {("batch.volcano.sh", "jobs")}


def test_apply_and_prune_need_what_is_granted(site: Site, applying: Installed) -> None:
    """F-132, F-142: create, update and delete, with the inventory, as the service account."""
    for name in "abcdef":
        site.config_map(f"pruned-{name}")
    ran = site.reconcile()
    assert ran.code == 0, ran.out + ran.err
    site.config_map("pruned-a", changed="yes")
    site.remove("jobs/pruned-f.yaml")
    ran = site.reconcile()
    assert ran.code == 0, ran.out + ran.err
    assert not site.exists("ConfigMap", "pruned-f")
    asked = applying.asked()
    assert not [one for one in asked if one.is_refused]
    assert applying.used() <= applying.granted() | applying.granted(applying.namespace)
    inventory = {str(needed) for one in asked if one.namespace == applying.namespace for needed in one.needs}
    assert inventory == {
        *("create configmaps", "get configmaps", "list configmaps", "update configmaps", "create events.events.k8s.io"),
        "get namespaces",  # before the first record, whether its namespace has to be made
    }
    objects = {needed.verb for one in asked if one.namespace == "team-a" for needed in one.needs}
    assert objects == {"get", "create", "patch", "delete"}


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
        _delete_lease(cluster, restricted)
        with controller(tmp_path / "controller", environ=environ) as running:
            wait_until(lambda: _is_ready(cluster, path), "the condition Ready")
            assert running.stop() == 0
        # Sources that other tests leave in their namespaces are none of this release, which may not read their Secrets.
        assert not [one for one in release.asked() if one.is_refused and one.namespace in ("", restricted)]
        assert release.used() == release.granted() | release.granted(restricted)
    cluster.client.request("DELETE", path)


def test_a_controller_of_mode_apply_needs_what_is_granted(  # noqa: PLR0917 - fixtures
    cluster: ApiServer, applying: Installed, restricted: str, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """F-132: passes of mode apply create, update and prune as the service account, and are refused nothing."""
    metadata = {"namespace": "team-a"}
    cluster.client.ensure_namespaces(["team-a"])
    first = {f"controlled-{name}": {"a": "1"} for name in "abcdef"}
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    push(person, dict.fromkeys(others) | _config_maps(metadata, first))
    source = {"url": server.url, "mode": "apply", "interval": "1s"}
    body = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "ConfigSource", "spec": source}
    path = f"/apis/gpureconciler.io/v1alpha1/namespaces/{restricted}/configsources/applied"
    assert_all_accepted(cluster.client.apply([{**body, "metadata": {"name": "applied", "namespace": restricted}}]))
    maps = "/api/v1/namespaces/team-a/configmaps"

    def on_cluster() -> dict[str, str]:
        found = {one["metadata"]["name"]: one.get("data", {}) for one in cluster.client.get(maps)["items"]}
        return {name: data["a"] for name, data in found.items() if name.startswith("controlled-")}

    environ = {
        "KUBECONFIG": str(applying.kubeconfig),
        "POD_NAMESPACE": restricted,
        "RECONCILER_INVENTORY_NAMESPACE": restricted,
    }
    _delete_lease(cluster, restricted)
    with controller(tmp_path / "controller", "--namespace", restricted, environ=environ) as running:
        wait_until(lambda: on_cluster() == dict.fromkeys(first, "1"), "the objects")
        push(person, _config_maps(metadata, {"controlled-a": {"a": "2"}, "controlled-f": None}))
        wanted = {**dict.fromkeys(first, "1"), "controlled-a": "2"}
        del wanted["controlled-f"]
        wait_until(lambda: on_cluster() == wanted, "the next revision")
        wait_until(lambda: _is_ready(cluster, path), "the condition Ready")
        assert running.stop() == 0
    cluster.client.request("DELETE", path)
    asked = applying.asked()
    assert not [one for one in asked if one.is_refused]
    assert applying.used() <= applying.granted() | applying.granted(applying.namespace)
    objects = {needed.verb for one in asked if one.namespace == "team-a" for needed in one.needs}
    assert objects == {"get", "create", "patch", "delete"}
    inventory = {str(needed) for one in asked if one.namespace == restricted for needed in one.needs}
    assert {"create configmaps", "update configmaps", "create leases.coordination.k8s.io"} <= inventory


def _delete_lease(cluster: ApiServer, namespace: str) -> None:
    """Delete the Lease that an earlier controller left, so that the next one creates it."""
    cluster.client.request("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/reconciler")


def _config_maps(metadata: dict[str, str], data: Mapping[str, dict[str, str] | None]) -> dict[str, bytes | None]:
    """Return the source files of ConfigMaps; None removes one."""
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {
        f"jobs/{name}.yaml": None
        if values is None
        else json.dumps({**head, "metadata": {**metadata, "name": name}, "data": values}).encode()
        for name, values in data.items()
    }


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
