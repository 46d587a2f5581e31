"""`reconciler observe` on a real API server: health reports become evidence, without their noise."""

import time

import yaml
from msgspec.structs import replace

from reconciler.cli.main import run
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.published import body_of
from tests.cli.conftest import fleet, new_repository
from tests.cli.fleet import Fleet
from tests.cluster.server import ApiServer
from tests.live.health.test_reports import publish
from tests.nodehealth.fleet.rounds import fail, report

__all__ = ["fleet", "new_repository"]


def test_reports_become_evidence(fleet: Fleet, lane_cluster: KubernetesCluster, private_server: ApiServer) -> None:
    """Values that move make no diff; an old report is unknown, never healthy; a new failure is a diff."""
    now = time.time()
    bad = report("gpu-2", now, fail("ecc"))
    for one in (report("gpu-1", now), bad, report("gpu-3", now - 3600)):
        publish(lane_cluster, body_of(one))

    def observe() -> str:
        ran = fleet.run("observe", "--kubeconfig", str(private_server.kubeconfig), "--allow-shrink")
        assert ran.code == 0, ran.err
        return (fleet.root / "evidence/main/health.yaml").read_text()

    text = observe()
    spec = yaml.safe_load(text)["spec"]
    issue = {"check": "ecc", "severity": "degraded", "slot": "0000:1b:00.0", "status": "FAIL"}
    assert spec["nodes"] == [
        {"name": "gpu-1", "uid": "uid-gpu-1", "status": "PASS"},
        {"name": "gpu-2", "uid": "uid-gpu-2", "status": "FAIL", "issues": [issue]},
        {"name": "gpu-3", "uid": "uid-gpu-3", "status": "UNKNOWN", "why": "the report is old"},
    ]
    noisy = replace(bad, measured_at=now + 1, findings=(replace(bad.findings[0], message="another", observed=7.5),))
    publish(lane_cluster, body_of(noisy))
    assert observe() == text
    publish(lane_cluster, body_of(report("gpu-1", now + 1, fail("ecc"))))
    assert observe() != text
    assert "health.yaml" not in fleet.run("lint").out, "the file is valid"


def test_a_folder_of_reports_is_stored_for_replay_and_pruned(
    fleet: Fleet, lane_cluster: KubernetesCluster, private_server: ApiServer
) -> None:
    """F-098: `observe --reports` writes what `health replay --reports` and plans read, and deletes what is too old."""
    now = time.time()
    for one in (report("gpu-1", now), report("gpu-2", now, fail("ecc"))):
        publish(lane_cluster, body_of(one))
    folder = fleet.root / "evidence/main/reports"
    fleet.write("evidence/main/reports/2020-01-01T000000Z.json", "{}")
    fleet.write("evidence/main/reports/mine.json", '{"kind": "List", "items": []}')

    def observe(*flags: str) -> str:
        ran = fleet.run("observe", "--kubeconfig", str(private_server.kubeconfig), "--allow-shrink", *flags)
        assert ran.code == 0, ran.err
        return ran.out

    assert f"health reports of 2 nodes in {folder}: 1 written, 1 deleted" in observe("--reports")
    assert sorted(path.name for path in folder.iterdir())[1:] == ["mine.json"]
    assert "0 written, 0 deleted" in observe("--reports"), "nothing is new"
    fleet.write("policy.yaml", _POLICY)
    fleet.capture.readouterr()
    assert run(["health", "replay", str(fleet.root / "policy.yaml"), "--reports", str(folder)]) == 0
    assert fleet.capture.readouterr().out.startswith("2 reports of 2 nodes")
    elsewhere = fleet.root / "archive"
    assert f"{elsewhere}/main: 1 written" in observe("--reports-dir", str(elsewhere))


_POLICY = """
apiVersion: gpureconciler.io/v1alpha1
kind: HealthPolicy
metadata: {name: fleet}
spec:
  mode: propose
"""
