"""What runs becomes source: import, plan, adopt all, apply; no object is made again, and no field of one changes."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.core.live.projection import plain
from reconciler.core.manifests.ownership import OWNERSHIP
from reconciler.core.objects import ObjectKey, split_api_version
from reconciler.core.values import pruned
from tests.cluster.parts import ControlPlane
from tests.live.apply.conftest import Site

SPECIMENS = Path(__file__).parents[2] / "cluster" / "specimens"
_OF_THE_SERVER = {
    "APIService",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "CustomResourceDefinition",
}
"""Kinds that would change what the server says to the other tests."""
_RECORDS = {"Endpoints", "EndpointSlice", "Lease", "Node", "PodGroup"}
"""Kinds that no person writes."""

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(site: Site, control_plane_programs: ControlPlane) -> Kubectl:
    """Return what runs the real kubectl in the namespace of the site, with objects on standard input."""

    def call(*arguments: str, bodies: list[dict[str, Any]] | None = None) -> str:
        command = [str(control_plane_programs.kubectl), f"--kubeconfig={site.server.kubeconfig}", *arguments]
        text = yaml.safe_dump_all(bodies or [])
        ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return call


def key_of(body: dict[str, Any]) -> ObjectKey:
    metadata = body["metadata"]
    group = split_api_version(body["apiVersion"])[0]
    return ObjectKey(group=group, kind=body["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])


def specimens(namespace: str) -> list[dict[str, Any]]:
    """Return an object of each kind, in a namespace; what is in none gets its name in front."""
    files = sorted(SPECIMENS.glob("*.yaml"))
    bodies = [body for file in files for body in yaml.safe_load_all(file.read_text())]
    kept = [
        body for body in bodies if body["kind"] not in _OF_THE_SERVER and not body["kind"].endswith("PolicyBinding")
    ]
    for body in kept:
        if "namespace" in body["metadata"]:
            body["metadata"]["namespace"] = namespace
    return kept


@pytest.fixture
def running(site: Site, kubectl: Kubectl) -> Iterator[list[dict[str, Any]]]:
    """Create an object of each kind in the three ways of people and tools; return them as the server has them."""
    kubectl("create", "namespace", site.name)
    bodies = specimens(site.name)
    kubectl("create", "-f", "-", bodies=bodies[::3])
    kubectl("apply", "-f", "-", bodies=bodies[1::3])
    kubectl("apply", "--server-side", "--field-manager=helm", "-f", "-", bodies=bodies[2::3])
    site.remove("queues/namespace.yaml")
    yield [live(site, body) for body in bodies]
    for body in bodies:
        kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", bodies=[body])


def live(site: Site, body: dict[str, Any]) -> dict[str, Any]:
    found = site.cluster.get(key_of(body), version=split_api_version(body["apiVersion"])[1])
    assert found is not None, key_of(body)
    return found


def imports(site: Site, *arguments: str) -> Any:
    return site.fleet.run("import", *site.flags, *arguments)


def content(body: dict[str, Any]) -> Any:
    """Return what must not change: everything but our label."""
    return body["metadata"]["uid"], pruned(plain(body), OWNERSHIP)


def test_what_runs_is_imported_and_adopted(site: Site, running: list[dict[str, Any]]) -> None:
    folder = site.fleet.root / "jobs" / "imported"
    ran = imports(site, "-o", str(folder), "--output", "json")
    assert ran.code == 0, ran.out + ran.err
    (found,) = json.loads(ran.out)
    warned = {one["object"]: one["warning"] for one in found["imported"] if one["warning"]}
    import shutil

    shutil.copytree(folder, "/tmp/imported", dirs_exist_ok=True)
    Path("/tmp/imported/report.json").write_text(json.dumps(found, indent=1))
    assert warned == {}
    written = {key_of(yaml.safe_load(path.read_text())) for path in folder.rglob("*.yaml")}
    wanted = {key_of(body) for body in running if body["kind"] not in _RECORDS | {"Secret"}}
    assert wanted <= written
    planned = site.plan("--adopt", "all")
    print(planned.out, planned.err)
    assert planned.code == 0
