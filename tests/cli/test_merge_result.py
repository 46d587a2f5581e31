"""The base branch moves while a change is reviewed: plans say so, and plan the result of the merge."""

import json
from pathlib import Path

import pytest

from tests.cli.fleet import Fleet

VIT = "jobs/vision/vit.yaml"


@pytest.fixture
def moved(fleet: Fleet) -> Fleet:
    """Return a repository whose branch `change` resizes vit, while `main` has resized the queue since."""
    fleet.git("checkout", "--quiet", "-b", "change")
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 32")
    fleet.commit("vit")
    assert fleet.run("commit").code == 0
    fleet.git("checkout", "--quiet", "main")
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    fleet.commit("quota")
    assert fleet.run("commit").code == 0
    fleet.git("checkout", "--quiet", "change")
    return fleet


def test_a_plan_says_that_the_base_has_moved(moved: Fleet) -> None:
    ran = moved.run("plan", "--revision", "HEAD", "--base", "main")
    assert ran.code == 0
    assert "The base has moved" in ran.out
    assert "Since the merge base, 2 files (1 rendered) changed in main." in ran.out
    assert "Edited on both sides" not in ran.out
    behind = json.loads(moved.run("plan", "--revision", "HEAD", "--base", "main", "-o", "json").out)["behind"]
    assert behind == {
        "commit": moved.git("rev-parse", "main"), "files": 2, "rendered": 1, "both": [], "more": 0,
    }  # fmt: skip
    assert "The base has moved" in moved.run("plan", "--revision", "HEAD", "--base", "main", "-o", "markdown").out


def test_a_base_that_moved_elsewhere_is_not_mentioned(moved: Fleet) -> None:
    """Only files that a plan reads matter; and the digest is the same as before the base moved."""
    merge_base = moved.git("merge-base", "main", "HEAD")
    plan = json.loads(moved.run("plan", "--revision", "HEAD", "--base", "main", "-o", "json").out)
    before = json.loads(moved.run("plan", "--revision", "HEAD", "--base", merge_base, "-o", "json").out)
    assert plan["behind"]
    assert before["behind"] is None
    assert plan["digest"] == before["digest"]
    moved.git("checkout", "--quiet", "-B", "elsewhere", merge_base)
    moved.write("README.md", "other")
    moved.commit()
    moved.git("checkout", "--quiet", "change")
    assert "The base has moved" not in moved.run("plan", "--revision", "HEAD", "--base", "elsewhere").out


def test_the_result_of_the_merge_is_planned(moved: Fleet) -> None:
    """Against the tip of the base: only what the branch adds, computed with the queue that the base has by now."""
    refs = moved.git("for-each-ref")
    ran = moved.run("plan", "--merge-result", "--base", "main")
    assert ran.code == 0, ran.err
    assert "The base has moved" not in ran.out
    assert "h100: 19 → 35, quota 40" in ran.out
    assert "merge of HEAD into main" in ran.out
    made = json.loads(moved.run("plan", "--merge-result", "--base", "main", "-o", "json").out)
    assert made["head"]["commit"] == ""
    assert made["base"]["commit"] == moved.git("rev-parse", "main")
    assert moved.git("for-each-ref") == refs
    assert moved.git("status", "--porcelain") == ""
    moved.git("checkout", "--quiet", "main")
    moved.git("merge", "--quiet", "change")
    merged = json.loads(moved.run("plan", "--revision", "HEAD", "--base", "HEAD~1", "-o", "json").out)
    assert [one["path"] for one in merged["changes"]] == [one["path"] for one in made["changes"]]


def test_a_merge_that_leaves_rendered_files_stale_is_refused(fleet: Fleet) -> None:
    """Both sides are up to date, and their merge is not: the base changes the queue of a job that the branch adds."""
    fleet.git("checkout", "--quiet", "-b", "change")
    text = (fleet.root / VIT).read_text()
    fleet.write("jobs/vision/new.yaml", text.replace("name: vit", "name: new").replace("numGPUs: 16", "numGPUs: 8"))
    fleet.commit()
    assert fleet.run("commit").code == 0
    fleet.git("checkout", "--quiet", "main")
    fleet.edit("queues/h100.yaml", "sizePerGPU: 10Gi", "sizePerGPU: 20Gi")
    fleet.commit()
    assert fleet.run("commit").code == 0
    fleet.git("checkout", "--quiet", "change")
    assert fleet.run("plan", "--revision", "HEAD", "--base", "main").code == 0
    ran = fleet.run("plan", "--merge-result", "--base", "main")
    assert ran.code == 5
    assert "1 rendered file differs from what the sources render" in ran.out
    assert "rendered/main/default/persistentvolumeclaim-new-workspace.yaml" in ran.err


def test_conflicts_are_named(moved: Fleet) -> None:
    moved.edit("queues/h100.yaml", "quota: 32", "quota: 48")
    moved.commit()
    ran = moved.run("plan", "--merge-result", "--base", "main")
    assert ran.code == 5
    assert "the merge has conflicts in 1 file: queues/h100.yaml" in ran.err
    assert "Traceback" not in ran.err


def test_no_program_of_the_repository_runs(moved: Fleet, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    moved.write(".gitattributes", "*.yaml merge=custom filter=custom\n")
    moved.edit("queues/h100.yaml", "limit: 64", "limit: 63")
    moved.git("config", "merge.custom.driver", f"touch {trace}")
    moved.git("config", "merge.renormalize", "true")
    moved.git("config", "filter.custom.clean", f"touch {trace}; cat")
    moved.git("-c", "filter.custom.clean=cat", "add", "--all")
    moved.git("-c", "filter.custom.clean=cat", "commit", "--quiet", "--message", "limit")
    trace.unlink(missing_ok=True)
    ran = moved.run("plan", "--merge-result", "--base", "main")
    assert not trace.exists()
    assert ran.code == 5
    assert "queues/h100.yaml" in ran.err


def test_a_merge_needs_a_base(fleet: Fleet) -> None:
    ran = fleet.run("plan", "--merge-result")
    assert ran.code == 2
    assert "--base main" in ran.err
