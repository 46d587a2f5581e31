"""`explain` of what a change removes: objects that are deleted or moved, fields that are gone, objects with problems."""

import json
import shutil

import pytest

from tests.cli.fleet import Fleet

PROBE = "jobs/language/probe.yaml"


def explain(fleet: Fleet, *arguments: str) -> str:
    ran = fleet.run("explain", *arguments, "--width", "160")
    assert ran.code == 0, ran.err
    return ran.out


@pytest.fixture
def job(fleet: Fleet) -> str:
    """Return the rendered file of the template's small job."""
    (path,) = [path for path in fleet.files() if path.endswith("-probe.yaml") and "job" in path.rpartition("/")[2]]
    return f"rendered/{path}"


def test_a_deleted_object_is_explained_by_the_removed_document(fleet: Fleet, job: str) -> None:
    name = f"Job/{job.split('/')[2]}/probe"
    (fleet.root / PROBE).unlink()
    out = explain(fleet, name)
    assert "deleted: no source document defines it any more" in out
    assert f"because removed {PROBE}:2:1" in out
    by_path = json.loads(explain(fleet, job, "-o", "json"))
    assert by_path["status"].startswith("deleted")
    assert by_path["source"] is None
    assert by_path["causes"] == [
        {"path": PROBE, "line": 2, "column": 1, "field": "removed", "text": "", "evidence": False}
    ]


def test_an_object_that_is_kept_without_a_source_is_explained(fleet: Fleet) -> None:
    """Plans name it among the risks, also after it has lost its source."""
    (fleet.root / PROBE).unlink()
    name = "PersistentVolumeClaim/default/probe-checkpoints"
    found = json.loads(explain(fleet, name, "-o", "json"))
    assert found["status"].startswith("kept: no source defines the object any more, but the annotation")
    assert found["path"] == "rendered/main/default/persistentvolumeclaim-probe-checkpoints.yaml"
    fleet.commit()
    assert fleet.run("commit").code == 0
    assert "kept: no source defines" in explain(fleet, name, "spec.resources")
    assert "kept: no source defines" in explain(fleet, found["path"])


def test_an_object_that_its_document_no_longer_renders_is_explained_by_the_edited_line(fleet: Fleet) -> None:
    """A job on several nodes becomes a PyTorchJob."""
    fleet.edit(PROBE, "numGPUs: 1", "numGPUs: 16")
    out = explain(fleet, "Job/default/probe")
    assert "deleted" in out
    assert f"because {PROBE}:10:1" in out


def test_a_renamed_object_is_explained_by_its_new_name(fleet: Fleet, job: str) -> None:
    fleet.edit(PROBE, "name: probe", "name: probe-two")
    out = explain(fleet, "Job/probe")
    assert f"moved to {job.replace('-probe', '-probe-two')}" in out
    assert f"because {PROBE}:5:9" in out
    assert f"from {PROBE}:2:1" in out


def test_a_moved_file_explains_the_move_between_clusters(fleet: Fleet, job: str) -> None:
    text = (fleet.root / "reconciler.yaml").read_text()
    assert job.split("/")[1] == "main"
    fleet.write("reconciler.yaml", text)
    shutil.move(fleet.root / PROBE, fleet.root / "jobs/vision/probe.yaml")
    plan = json.loads(fleet.run("plan", "-o", "json").out)
    assert plan["changes"] == []


def test_a_removed_field_is_explained_by_the_removed_line(fleet: Fleet, job: str) -> None:
    fleet.edit(PROBE, "    team: language\n", "    owner: ada\n")
    out = explain(fleet, job, "metadata.labels.team")
    assert "metadata.labels.team (removed) = language" in out
    assert f"{PROBE}:7:" in out
    assert explain(fleet, job, "metadata.labels.owner").count("ada") >= 1


def test_an_object_with_problems_says_so(fleet: Fleet, job: str) -> None:
    fleet.edit(PROBE, "jobQueue: h100", "jobQueue: h200")
    out = explain(fleet, job)
    assert "left as it is, because its source has errors" in out
    assert "TorchrunQueue 'h200' not found" in out


def test_a_denied_object_says_so(fleet: Fleet, job: str) -> None:
    fleet.edit(PROBE, "numGPUs: 1", "numGPUs: 1\n  image: registry.example.com/probe:latest")
    out = explain(fleet, job)
    assert "problem " in out
    assert "[pinned-images]" in out


def test_what_never_existed_is_still_an_error(fleet: Fleet, job: str) -> None:
    ran = fleet.run("explain", "Job/prob")
    assert ran.code == 2
    assert "did you mean Job/probe" in ran.err
    ran = fleet.run("explain", job, "spec.templates")
    assert ran.code == 2
    assert "'.templates' not found in spec" in ran.err


def test_plans_show_edited_and_removed_lines(fleet: Fleet) -> None:
    fleet.edit(PROBE, "    team: language\n", "")
    fleet.edit(PROBE, "  labels:\n", "")
    out = fleet.run("plan", "--width", "200").out
    assert f"{PROBE}:7:11 (removed): not set any more" in out
