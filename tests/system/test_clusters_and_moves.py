"""Several clusters in one repository; files and objects that move; folders that vanish."""

import json
import shutil
from typing import Any

import pytest
import yaml

from tests.cli.fleet import Fleet

_TWO = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters:
    - {name: east, backend: kai, vendor: nvidia, external: [Queue/default, Namespace], select: %s}
    - {name: west, backend: kueue, vendor: amd, external: [Namespace], select: %s}
  budgets: {deletes: {count: 3, share: 0.9}, gpuQuotaChange: {share: null}}
"""
_QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: %s, namespace: default, labels: {site: %s}}
spec:
  queue: {name: %s, resources: {gpu: {quota: 8, limit: 16, overQuotaWeight: 1}}}
  image: registry.example.com/train:1
  nodeResources: {gpus: 8, cpus: 96, memory: 960Gi}
"""
_JOB = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: %s, namespace: default, labels: {team: x, site: %s}}
spec:
  jobQueue: %s
  numGPUs: 4
  command: python train.py
  reliability: {ttlSecondsAfterFinished: 60}
"""


def _two(fleet: Fleet, east: str, west: str) -> None:
    for folder in ("jobs", "queues", "rendered", "evidence"):
        shutil.rmtree(fleet.root / folder)
    fleet.write("reconciler.yaml", _TWO % (east, west))


def _plan(fleet: Fleet, *arguments: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(fleet.run("plan", "-o", "json", *arguments).out)
    return plan


def _resources(fleet: Fleet, cluster: str) -> str:
    return "".join(text.decode() for name, text in fleet.files().items() if name.startswith(f"{cluster}/"))


def test_one_source_renders_to_both_clusters(fleet: Fleet) -> None:
    """F-035, F-039: the same job under KAI on NVIDIA and under Kueue on AMD."""
    _two(fleet, "{}", "{}")
    fleet.write("queues/q.yaml", _QUEUE % ("q", "x", "q"))
    fleet.write("jobs/j.yaml", _JOB % ("j", "x", "q"))
    fleet.commit()
    assert fleet.run("commit").code == 0
    east, west = _resources(fleet, "east"), _resources(fleet, "west")
    assert "nvidia.com/gpu" in east
    assert "kai.scheduler/queue" in east
    assert "amd.com/gpu" in west
    assert "kueue.x-k8s.io/queue-name" in west
    assert "nvidia.com/gpu" not in west
    assert "kueue" not in east
    assert fleet.run("verify").code == 0


@pytest.mark.parametrize(
    ("east", "west", "paths"),
    [
        ("{folders: [jobs/east, queues]}", "{folders: [jobs/west, queues]}", ("jobs/east/a.yaml", "jobs/west/b.yaml")),
        ("{labels: {site: east}}", "{labels: {site: west}}", ("jobs/a.yaml", "jobs/b.yaml")),
    ],
    ids=["folder", "label"],
)
def test_a_cluster_takes_what_it_selects(fleet: Fleet, east: str, west: str, paths: tuple[str, str]) -> None:
    """Jobs and queues say their cluster by folder or label; what nobody selects is a warning."""
    _two(fleet, east, west)
    fleet.write("queues/e.yaml", _QUEUE % ("qe", "east", "qe"))
    fleet.write("queues/w.yaml", _QUEUE % ("qw", "west", "qw"))
    fleet.write(paths[0], _JOB % ("a", "east", "qe"))
    fleet.write(paths[1], _JOB % ("b", "west", "qw"))
    fleet.write("jobs/nobody/c.yaml", _JOB % ("c", "south", "qe"))
    plan = _plan(fleet)
    rules = {
        (problem["rule"], problem["severity"], problem["place"]["path"])
        for problem in plan["problems"]
        if problem["rule"].startswith("config.")
    }
    assert rules == {("config.unselected", "warning", "jobs/nobody/c.yaml")}
    created = [change for change in plan["changes"] if change["operation"] == "create"]
    where = {(change["cluster"], change["key"]["name"]) for change in created if "Job" in change["key"]["kind"]}
    assert where == {("east", "a"), ("west", "b")}
    only = _plan(fleet, "--cluster", "west")
    assert {change["cluster"] for change in only["changes"]} == {"west"}
    assert "config.unselected" in {problem["rule"] for problem in only["problems"]}


def test_a_cluster_that_is_removed_is_deleted_under_budget(fleet: Fleet) -> None:
    """F-145: taking a cluster out of the settings deletes all it had, which nobody does by accident."""
    _two(fleet, "{}", "{}")
    fleet.write("queues/q.yaml", _QUEUE % ("q", "x", "q"))
    fleet.write("jobs/j.yaml", _JOB % ("j", "x", "q"))
    fleet.commit()
    fleet.run("commit")
    settings = yaml.safe_load((fleet.root / "reconciler.yaml").read_text())
    gone = settings["spec"]["clusters"].pop(1)["name"]
    settings["spec"]["budgets"]["deletes"]["count"] = 0
    fleet.write("reconciler.yaml", yaml.safe_dump(settings))
    ran = fleet.run("plan")
    assert ran.code == 5, ran.err
    plan = _plan(fleet)
    deleted = {change["path"] for change in plan["changes"]}
    assert {change["operation"] for change in plan["changes"]} == {"delete"}
    assert deleted <= {f"rendered/{name}" for name in fleet.files() if name.startswith(f"{gone}/")}
    assert deleted
    fleet.commit()
    assert fleet.run("commit").code == 5
    assert fleet.run("approve", "--reason", "the cluster is switched off").code == 0
    fleet.commit()
    assert fleet.run("commit").code == 0
    left = {name for name in fleet.files() if name.startswith(f"{gone}/")}
    assert all(b"gpureconciler.io/keep" in fleet.files()[name] for name in left)
    assert fleet.run("verify").code == 0


def test_an_unknown_cluster_is_named(fleet: Fleet) -> None:
    ran = fleet.run("plan", "--cluster", "mian")
    assert ran.code == 2
    assert "main" in ran.err


def test_a_renamed_source_file_is_no_change(fleet: Fleet) -> None:
    fleet.git("mv", "jobs/vision/vit.yaml", "jobs/vision/transformer.yaml")
    fleet.git("mv", "jobs/language", "jobs/text")
    assert fleet.run("plan", "--exit-code").code == 0
    fleet.commit()
    assert fleet.run("verify").code == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [("name: tuning", "name: tuning-2"), ("namespace: a", "namespace: b")],
    ids=["renamed", "another namespace"],
)
def test_a_moved_object_is_shown_as_a_move(fleet: Fleet, old: str, new: str) -> None:
    """F-141: one move, not a delete and a create."""
    data = "".join(f"  k{number}: v{number}\n" for number in range(30))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: tuning\n  namespace: a\n  labels: {{team: x}}\ndata:\n{data}"
    fleet.write("jobs/map.yaml", text)
    fleet.commit()
    assert fleet.run("commit").code == 0
    fleet.edit("jobs/map.yaml", f"  {old}\n", f"  {new}\n")
    plan = _plan(fleet)
    assert [change["operation"] for change in plan["changes"]] == ["move"]
    fleet.commit()
    assert fleet.run("commit").code == 0
    assert fleet.run("verify").code == 0
    assert len([name for name in fleet.files() if "configmap" in name]) == 1


@pytest.mark.parametrize("how", ["vanished", "emptied", "made unreadable"])
def test_a_source_folder_without_files_is_refused(fleet: Fleet, how: str) -> None:
    """F-145: an upstream hiccup that empties a folder must not read as a wish to delete everything."""
    fleet.edit("reconciler.yaml", "deletes: {count: 10, share: 0.25}", "deletes: {count: null, share: null}")
    fleet.commit()
    jobs = fleet.root / "jobs"
    shutil.rmtree(jobs)
    if how == "emptied":
        jobs.mkdir()
        (jobs / ".gitkeep").touch()
    elif how == "made unreadable":
        jobs.mkdir()
        (jobs / "vit.yaml.txt").write_text("x")
    ran = fleet.run("plan")
    assert ran.code == 5, ran.out
    assert "vit" in ran.out
    assert "reconciler approve" in ran.err
    assert fleet.run("approve", "--reason", "all jobs are done").code == 0
    approval = next((fleet.root / "approvals").iterdir())
    text = approval.read_text()
    approval.unlink()
    fleet.commit()
    fleet.write("NEWS.md", "later")
    head = fleet.commit()
    assert fleet.run("commit").code == 5
    assert fleet.git("rev-parse", "HEAD") == head
    approval.parent.mkdir(exist_ok=True)
    approval.write_text(text)
    fleet.commit()
    assert fleet.run("commit").code == 0
    assert fleet.run("commit").code == 0
    assert fleet.run("plan", "--exit-code").code == 0


def test_a_broken_queue_touches_none_of_its_jobs(fleet: Fleet) -> None:
    """One bad file: what it rendered stays, and so does what depends on it; an unrelated edit is still planned."""
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: [32")
    fleet.write("jobs/other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, labels: {team: x}}\n")
    ran = fleet.run("plan")
    assert ran.code == 3
    plan = _plan(fleet)
    assert [(change["operation"], change["key"]["name"]) for change in plan["changes"]] == [("create", "c")]
    errors = {problem["place"]["path"] for problem in plan["problems"] if problem["severity"] == "error"}
    assert "queues/h100.yaml" in errors


def test_a_queue_with_a_wrong_field_touches_none_of_its_jobs(fleet: Fleet) -> None:
    fleet.edit("queues/h100.yaml", "quota: 32", "qouta: 32")
    assert fleet.run("plan").code == 3
    assert _plan(fleet)["changes"] == []
