"""What commands say in the states that a checkout is in: touched, edited, staged, renamed, detached, shallow."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.fleet import Fleet

VIT, CONFIG = "jobs/vision/vit.yaml", "reconciler.yaml"


def not_included(path: str) -> str:
    return f"warning: {path} has changes that are not committed, so they are not included\n"


def test_touched_files_are_no_changes(fleet: Fleet) -> None:
    for path in (VIT, CONFIG, "evidence/main/nodes.yaml"):
        (fleet.root / path).write_bytes((fleet.root / path).read_bytes())
        (fleet.root / path).touch()
    for command in ("commit", "verify"):
        assert "warning" not in fleet.run(command).err
    assert fleet.run("plan", "-o", "name").out == ""


def test_uncommitted_settings_are_named(fleet: Fleet) -> None:
    fleet.edit(CONFIG, "deletes: {count: 10", "deletes: {count: 11")
    for command in ("commit", "verify"):
        ran = fleet.run(command)
        assert (ran.code, not_included(CONFIG) in ran.err) == (0, True)


@pytest.mark.parametrize("is_staged", [False, True])
def test_edits_deletions_and_new_files_are_named(fleet: Fleet, *, is_staged: bool) -> None:
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 32")
    (fleet.root / "jobs/language/probe.yaml").unlink()
    assert fleet.run("new", "job", "later").code == 0
    if is_staged:
        fleet.git("add", "--all")
    ran = fleet.run("commit")
    assert ran.err == (
        "nothing to commit: rendered/ is up to date with the sources of HEAD\n"
        "warning: the deletion of jobs/language/probe.yaml is not committed, so it is not included\n"
        + not_included("jobs/later.yaml")
        + not_included(VIT)
        + "Commit them first (git commit), then run `reconciler commit` again.\n"
    )
    assert not_included(VIT) in fleet.run("verify").err
    assert "update main PyTorchJob/default/vit" in fleet.run("plan", "-o", "name").out


def test_a_staged_edit_that_the_working_tree_took_back(fleet: Fleet) -> None:
    """The working tree is what `plan` shows; it equals HEAD."""
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 32")
    fleet.git("add", "--all")
    fleet.edit(VIT, "numGPUs: 32", "numGPUs: 16")
    assert fleet.run("plan", "-o", "name").out == ""
    assert "warning" not in fleet.run("commit").err


def test_a_rename_by_case_changes_nothing_that_is_rendered(fleet: Fleet) -> None:
    fleet.git("mv", VIT, "jobs/vision/ViT.yaml")
    assert fleet.run("plan", "-o", "name").out == ""
    fleet.commit()
    assert fleet.run("verify").code == 0
    assert "nothing to commit" in fleet.run("commit").err


def test_a_detached_head(fleet: Fleet) -> None:
    fleet.git("checkout", "--quiet", "--detach")
    assert fleet.run("plan").code == 0
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 32")
    fleet.commit()
    assert "update main PyTorchJob/default/vit" in fleet.run("plan", "--base", "main", "-o", "name").out
    assert "committed " in fleet.run("commit").err
    assert fleet.run("verify").code == 0
    assert "HEAD detached" in fleet.git("status")


@pytest.fixture
def clone(fleet: Fleet, tmp_path: Path) -> Fleet:
    """Clone the last commit of a branch alone, as pipelines do by default."""
    fleet.git("checkout", "--quiet", "-b", "change")
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 32")
    fleet.commit()
    call = ["git", "clone", "--quiet", "--depth", "1", "--no-single-branch", f"file://{fleet.root}"]
    subprocess.run([*call, str(tmp_path / "clone")], check=True)
    return Fleet(tmp_path / "clone", fleet.capture)


def test_a_shallow_clone_says_what_to_fetch(clone: Fleet) -> None:
    ran = clone.run("plan", "--base", "origin/main")
    assert ran.code == 6
    assert "have no common ancestor; fetch more history: git fetch --unshallow" in ran.err
    clone.git("fetch", "--quiet", "--unshallow")
    assert "update main PyTorchJob/default/vit" in clone.run("plan", "--base", "origin/main", "-o", "name").out


def test_a_branch_that_only_the_remote_has_is_suggested(clone: Fleet) -> None:
    ran = clone.run("plan", "--base", "main")
    assert (ran.code, ran.err) == (6, "error: commit 'main' not found; did you mean origin/main?\n")
    assert "the clone is shallow" in clone.run("plan", "--base", "v1").err


def test_a_branch_without_an_upstream_is_compared_with_head(fleet: Fleet) -> None:
    fleet.git("checkout", "--quiet", "-b", "change")
    fleet.edit(VIT, "numGPUs: 16", "numGPUs: 32")
    assert "HEAD " in (planned := fleet.run("plan").out)
    assert "→ working tree" in planned
    assert "update main PyTorchJob/default/vit" in fleet.run("plan", "-o", "name").out
