"""What Kueue, an autoscaler and other controllers changed in what runs is not imported: people wrote it otherwise."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler import wiring
from reconciler.cli.main import run
from tests.cli.fleet import IDENTITY, Fleet
from tests.cluster.bed.bed import Bed
from tests.cluster.parts import ControlPlane
from tests.live.running.test_running import WORKLOADS, Site, prepare, queues
from tests.ready import new_cache

pytestmark = [pytest.mark.usefixtures("kwok", "kueue", "scheduler"), pytest.mark.timeout(900)]
_KINDS = {"Job", "Deployment", "StatefulSet", "Pod", "HorizontalPodAutoscaler", "Service"}
_PODS = {
    "job-": 2,
    "partial-": 2,
    "deployment-": 3,
    "queued-deployment-": 1,
    "statefulset-": 2,
    "queued-pod": 1,
    "pod": 1,
}
CATALOGUE = wiring.catalogue()


@pytest.fixture
def site(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Site:
    """Make a repository of the queues alone."""
    name = f"import-{os.urandom(3).hex()}"  # the cluster may be one of the user's own
    for variable, value in IDENTITY.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    monkeypatch.setenv("RECONCILER_DECISION_LOG", str(tmp_path / "decisions.jsonl"))
    monkeypatch.setenv("RECONCILER_INVENTORY_NAMESPACE", f"inventory-{name}")
    fleet = Fleet(tmp_path / "fleet", capsys)
    assert run(["init", str(fleet.root)]) == 0
    for part in ("jobs", "queues", "rendered", "evidence"):
        shutil.rmtree(fleet.root / part)
    fleet.edit("reconciler.yaml", "backend: kai ", "backend: kueue ")
    fleet.edit("reconciler.yaml", "Namespace/default", f"Namespace/{name}")
    fleet.write("queues/queues.yaml", queues(name))
    prepare(bed, name)
    return Site(fleet, bed, tmp_path, name)


def workloads(name: str) -> list[dict[str, Any]]:
    bodies = yaml.safe_load_all(WORKLOADS.read_text().replace("NAME", name))
    return [body for body in bodies if body["kind"] in _KINDS]


def wait_until_running(site: Site) -> None:
    deadline = time.monotonic() + 240
    while True:
        pods = site.pods()
        counts = {name: sum(pod.startswith(name) for pod in pods) for name in _PODS}
        waiting = [
            pod["metadata"]["name"] for pod in site.bed.pods(site.name) if pod["status"].get("phase") != "Running"
        ]
        if not waiting and all(counts[name] >= wanted for name, wanted in _PODS.items()):
            return
        assert time.monotonic() < deadline, (waiting, counts)
        time.sleep(1)


def test_what_runs_is_imported_as_people_wrote_it(site: Site, control_plane_programs: ControlPlane) -> None:
    """Started jobs, with nodes and tolerations of their flavor; a scaled Deployment; Pods with their node."""
    bodies = workloads(site.name)
    text = (site.fleet.root / "queues/queues.yaml").read_text() + "---\n" + yaml.safe_dump_all(bodies)
    create = [str(control_plane_programs.kubectl), f"--kubeconfig={site.bed.kubeconfig}", "create", "-f", "-"]
    subprocess.run(create, input=text, capture_output=True, text=True, check=True, timeout=120)
    wait_until_running(site)
    before = site.pods()

    folder = site.fleet.root / "jobs"
    ran = site.fleet.run("import", *site.flags, "--namespace", site.name, "-o", str(folder))
    assert ran.code == 0, ran.err
    assert "warning" not in ran.err
    found = {}
    for path in folder.rglob("*.yaml"):
        body = yaml.safe_load(path.read_text())
        found[body["kind"], body["metadata"]["name"]] = body
    expected = {(body["kind"], body["metadata"]["name"]): written(body) for body in bodies}
    assert found == expected

    site.fleet.commit("import")
    ran = site.fleet.run(
        "plan", "--live", "--revision", "HEAD", "--adopt", "all", "--out", str(site.plan_file), *site.flags
    )
    assert ran.code == 0, ran.out + ran.err
    site.apply()
    assert site.plan()["changes"] == []
    assert site.pods() == before


def written(body: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be imported: without defaults, and without what a queue or an autoscaler decides."""
    found = CATALOGUE.without_defaults(dict(CATALOGUE.stored(body)))
    if body["kind"] == "Job":
        del found["spec"]["suspend"]
    return found
