"""What Kueue, an autoscaler and other controllers changed in what runs is not imported: people wrote it otherwise."""

import subprocess
from typing import Any

import pytest
import yaml

from reconciler.plan import opening
from tests.cluster.parts import ControlPlane
from tests.live.running.test_running import WORKLOADS, Apply, Site, site

__all__ = ["site"]
pytestmark = [pytest.mark.usefixtures("kwok", "kueue", "scheduler"), pytest.mark.timeout(900)]
_KINDS = {"Job", "Deployment", "StatefulSet", "Pod", "HorizontalPodAutoscaler", "Service"}
_PODS = {
    "job-": 2,
    "partial-": 2,
    "deployment-": 3,
    "queued-deployment-": 1,
    "statefulset-": 2,
    "queued-statefulset-": 2,
    "queued-pod": 1,
    "pod": 1,
}
CATALOGUE = opening.catalogue()


def workloads(name: str) -> list[dict[str, Any]]:
    bodies = yaml.safe_load_all(WORKLOADS.read_text().replace("NAME", name))
    return [body for body in bodies if body["kind"] in _KINDS]


def test_what_runs_is_imported_as_people_wrote_it(site: Site, control_plane_programs: ControlPlane) -> None:
    """Started jobs, with nodes and tolerations of their flavor; a scaled Deployment; Pods with their node."""
    bodies = workloads(site.name)
    text = (site.fleet.root / "queues/queues.yaml").read_text() + "---\n" + yaml.safe_dump_all(bodies)
    create = [str(control_plane_programs.kubectl), f"--kubeconfig={site.bed.kubeconfig}", "create", "-f", "-"]
    subprocess.run(create, input=text, capture_output=True, text=True, check=True, timeout=120)
    before = site.wait_until_running(_PODS)

    folder = site.fleet.root / "jobs"
    (folder / "workloads.yaml").unlink()
    flags = ("--kubeconfig", str(site.kubeconfig))
    ran = site.fleet.run("import", *flags, "--namespace", site.name, "-o", str(folder))
    assert ran.code == 0, ran.err
    assert "warning" not in ran.err
    found = {}
    for path in folder.rglob("*.yaml"):
        body = yaml.safe_load(path.read_text())
        found[body["kind"], body["metadata"]["name"]] = body
    expected = {(body["kind"], body["metadata"]["name"]): written(body) for body in bodies}
    assert found.keys() == expected.keys()
    for key, body in expected.items():
        assert yaml.safe_dump(found[key]) == yaml.safe_dump(body), key

    site.fleet.commit("import")
    ran = site.fleet.run("plan", "--live", "--revision", "HEAD", "--adopt", "all", "--out", str(site.plan_file), *flags)
    assert ran.code == 0, ran.out + ran.err
    Apply(site).carry_out()
    assert site.plan()["changes"] == []
    assert site.pods() == before


def written(body: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be imported: without defaults, and without what a queue or an autoscaler decides."""
    found = CATALOGUE.without_defaults(dict(CATALOGUE.stored(body)))
    if body["kind"] == "Job":
        del found["spec"]["suspend"]
    return found
