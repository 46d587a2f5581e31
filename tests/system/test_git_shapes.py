"""The pull request flow in every shape that a checkout has."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.fleet import IDENTITY, Fleet, run_verb


def _git(folder: Path, *arguments: str) -> str:
    environ = {**os.environ, **IDENTITY, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow"}
    environ["GIT_CONFIG_VALUE_0"] = "always"
    call = ["git", "-C", str(folder), *arguments]
    return subprocess.run(call, check=True, capture_output=True, text=True, env=environ).stdout.strip()


def _pull_request(fleet: Fleet) -> str:
    """Make a branch with a change and its rendered files, one commit of others on main after it left."""
    fleet.git("checkout", "--quiet", "-b", "bigger")
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    fleet.commit("bigger")
    assert fleet.run("commit").code == 0
    fleet.git("checkout", "--quiet", "main")
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    fleet.commit("more quota")
    assert fleet.run("commit").code == 0
    return fleet.git("rev-parse", "bigger")


def _shows_the_change(fleet: Fleet, *arguments: str) -> None:
    ran = fleet.run("plan", "-o", "name", *arguments)
    assert ran.code == 0, ran.err
    assert "vit" in ran.out
    assert "Queue" not in ran.out


def test_a_clone_compares_with_the_upstreams_default_branch(fleet: Fleet, tmp_path: Path) -> None:
    _pull_request(fleet)
    _git(tmp_path, "clone", "--quiet", str(fleet.root), "clone")
    clone = Fleet(tmp_path / "clone", fleet.capture)
    clone.git("checkout", "--quiet", "bigger")
    _shows_the_change(clone)
    clone.git("checkout", "--quiet", "--detach", "origin/bigger")
    _shows_the_change(clone)
    clone.git("checkout", "--quiet", "main")
    assert clone.run("plan", "--exit-code").code == 0


def test_an_upstream_that_calls_it_master(fleet: Fleet, tmp_path: Path) -> None:
    _pull_request(fleet)
    fleet.git("branch", "-m", "main", "master")
    _git(tmp_path, "clone", "--quiet", str(fleet.root), "clone")
    clone = Fleet(tmp_path / "clone", fleet.capture)
    clone.git("checkout", "--quiet", "bigger")
    _shows_the_change(clone)
    assert "master" in clone.run("plan").out


def test_a_fork_has_two_remotes(fleet: Fleet, tmp_path: Path) -> None:
    _pull_request(fleet)
    _git(tmp_path, "clone", "--quiet", "--bare", str(fleet.root), "fork.git")
    _git(tmp_path, "clone", "--quiet", str(tmp_path / "fork.git"), "clone")
    clone = Fleet(tmp_path / "clone", fleet.capture)
    clone.git("remote", "add", "upstream", str(fleet.root))
    clone.git("fetch", "--quiet", "upstream")
    clone.git("checkout", "--quiet", "-b", "bigger", "origin/bigger")
    _shows_the_change(clone)
    _shows_the_change(clone, "--base", "upstream/main")


def test_a_shallow_clone_says_how_to_get_the_history(fleet: Fleet, tmp_path: Path) -> None:
    _pull_request(fleet)
    url = f"file://{fleet.root}"
    _git(tmp_path, "clone", "--quiet", "--depth", "1", "--no-single-branch", "--branch", "bigger", url, "clone")
    clone = Fleet(tmp_path / "clone", fleet.capture)
    ran = clone.run("plan", "--base", "origin/main")
    assert ran.code == 6
    assert "git fetch --unshallow" in ran.err
    assert clone.run("verify").code == 6
    assert clone.run("verify", "--base", "HEAD").code == 0
    assert clone.run("lint").code == 0
    assert clone.run("plan", "--base", "HEAD", "--exit-code").code == 0
    clone.git("fetch", "--quiet", "--unshallow")
    _shows_the_change(clone, "--base", "origin/main")


def test_no_upstream_compares_with_head(fleet: Fleet) -> None:
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    _shows_the_change(fleet)
    fleet.git("checkout", "--quiet", "--detach")
    _shows_the_change(fleet)


def test_a_worktree(fleet: Fleet, tmp_path: Path) -> None:
    tip = _pull_request(fleet)
    fleet.git("worktree", "add", "--quiet", str(tmp_path / "tree"), "bigger")
    tree = Fleet(tmp_path / "tree", fleet.capture)
    _shows_the_change(tree, "--base", "main")
    tree.edit("jobs/vision/vit.yaml", "numGPUs: 32", "numGPUs: 40")
    tree.commit()
    assert tree.run("commit").code == 0
    assert tree.git("rev-parse", "HEAD~2") == tip
    assert tree.git("status", "--porcelain") == ""
    assert fleet.git("status", "--porcelain") == ""


def test_sha_256(fleet: Fleet, tmp_path: Path) -> None:
    shutil.copytree(fleet.root, tmp_path / "modern", ignore=shutil.ignore_patterns(".git"))
    modern = Fleet(tmp_path / "modern", fleet.capture)
    modern.git("init", "--quiet", "--object-format=sha256", "--initial-branch", "main")
    modern.commit()
    assert modern.run("plan", "--exit-code").code == 0
    _pull_request(modern)
    _shows_the_change(modern, "--revision", "bigger", "--base", "main")
    assert modern.run("verify", "--revision", "bigger").code == 0


def test_a_folder_of_a_bigger_repository(fleet: Fleet, tmp_path: Path) -> None:
    """Only the config repository's folder counts; what lies around it is neither read nor committed."""
    outer = Fleet(tmp_path / "outer", fleet.capture)
    outer.root.mkdir()
    outer.git("init", "--quiet", "--initial-branch", "main")
    assert run_verb(fleet.capture, ["init", str(outer.root / "clusters/gpu")]).code == 0
    outer.write("jobs/elsewhere.yaml", "not: [ours\n")
    outer.commit()
    inner = Fleet(outer.root / "clusters/gpu", fleet.capture)
    assert inner.run("plan", "--exit-code").code == 0
    inner.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    _shows_the_change(inner)
    deep = run_verb(fleet.capture, ["plan", "-o", "name", "--repo", str(inner.root / "jobs/vision")])
    assert "vit" in deep.out
    outer.write("jobs/uncommitted.yaml", "also: [not ours\n")
    inner.git("commit", "--quiet", "-am", "bigger")
    assert inner.run("commit").code == 0
    changed = outer.git("show", "--name-only", "--format=", "HEAD").splitlines()
    assert changed
    assert all(path.startswith("clusters/gpu/rendered/") for path in changed)
    assert outer.git("status", "--porcelain") == "?? jobs/uncommitted.yaml"
    assert inner.run("verify").code == 0


def test_no_commit_yet(fleet: Fleet, tmp_path: Path) -> None:
    """`init` inside a repository that was just made: everything can be tried before the first commit."""
    fresh = Fleet(tmp_path / "fresh", fleet.capture)
    fresh.root.mkdir()
    fresh.git("init", "--quiet", "--initial-branch", "main")
    ran = run_verb(fleet.capture, ["init", str(fresh.root)])
    assert ran.code == 0
    assert "git add" in ran.out
    assert fresh.run("lint").code == 0
    assert fresh.run("plan").code == 0
    assert fresh.run("commit").code == 6
    fresh.commit()
    assert fresh.run("plan", "--exit-code").code == 0
    assert fresh.run("verify").code == 0


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_an_environment_that_points_elsewhere(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """As inside a Git hook: git's own variables do not turn the program to another repository."""
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert fleet.run("plan", "--exit-code").code == 0
    assert not (tmp_path / "elsewhere").exists()
