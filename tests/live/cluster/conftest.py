"""Fixtures of plans against a live cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.main import run
from reconciler.kube.client import KubernetesCluster
from reconciler.live.apply.stored import change_inventory
from reconciler.plan.live.inventory import place_of
from reconciler.plan.live.inventory_record import Member
from tests.cli.fleet import IDENTITY, Fleet, Ran
from tests.cluster.server import ApiServer
from tests.live.cluster.fixtures import key_of
from tests.ready import new_cache


class LiveFleet:
    """A repository of the template, and the cluster that it is for."""

    def __init__(self, fleet: Fleet, cluster: KubernetesCluster, server: ApiServer) -> None:
        self.fleet, self.cluster, self.server = fleet, cluster, server

    def plan(self, *arguments: str) -> Ran:
        """Run `reconciler plan --live`."""
        return self.fleet.run("plan", "--live", "--kubeconfig", str(self.server.kubeconfig), *arguments)

    def plan_json(self, *arguments: str) -> tuple[Ran, dict[str, Any]]:
        """Run `reconciler plan --live -o json`, and return the plan as well."""
        ran = self.plan("-o", "json", *arguments)
        return ran, json.loads(ran.out)

    def rendered(self) -> list[dict[str, Any]]:
        """Return the bodies in `rendered/`."""
        return [yaml.safe_load(path.read_bytes()) for path in sorted((self.fleet.root / "rendered").rglob("*.yaml"))]

    def apply_rendered(self) -> None:
        """Apply every file of `rendered/` as an apply does, namespaces and CRDs first."""
        members: list[Member] = []
        for body in sorted(
            self.rendered(), key=lambda body: body["kind"] not in ("Namespace", "CustomResourceDefinition")
        ):
            uid = self.cluster.apply(body, force=True).body["metadata"]["uid"]
            members.append(Member(key=key_of(body), uid=uid))
        change_inventory(self.cluster, place_of("fleet", "main", "gpu-reconciler"), add=members)


@pytest.fixture
def live_fleet(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    empty_cluster: KubernetesCluster,
    private_server: ApiServer,
) -> LiveFleet:
    """Make a repository by `reconciler init`, for an empty cluster."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    root = tmp_path / "fleet"
    assert run(["init", str(root)]) == 0
    for namespace in {path.parent.name for path in (root / "rendered").rglob("*.yaml")} - {"_cluster", "main"}:
        private_server.client.ensure_namespaces([namespace])
    return LiveFleet(Fleet(root, capsys), empty_cluster, private_server)
