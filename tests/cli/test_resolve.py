"""`reconciler resolve`: conflicts in `rendered/` of a merge, a rebase and a cherry-pick, with a real Git."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.fleet import Fleet

VIT, PROBE, QUEUE = "jobs/vision/vit.yaml", "jobs/language/probe.yaml", "queues/h100.yaml"


def change(fleet: Fleet, branch: str, path: str, old: str, new: str) -> None:
    """Make a branch from `main` with an edit and its rendered files, as two commits."""
    fleet.git("checkout", "--quiet", "-B", branch, "main")
    fleet.edit(path, old, new)
    fleet.commit(f"{branch}: edit")
    assert fleet.run("commit").code == 0


def conflict(fleet: Fleet, *arguments: str) -> str:
    """Run a git command that stops at conflicts; return what it says."""
    call = ["git", "-C", str(fleet.root), *arguments]
    ran = subprocess.run(call, check=False, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture
def diverged(fleet: Fleet) -> Fleet:
    """Two branches that edit different lines of the sources, and the same lines of `rendered/`."""
    change(fleet, "ours", VIT, "numGPUs: 16 ", "numGPUs: 32 ")
    change(fleet, "theirs", QUEUE, "sizePerGPU: 50Gi", "sizePerGPU: 60Gi")
    return fleet


def test_a_merge(diverged: Fleet) -> None:
    fleet = diverged
    fleet.git("checkout", "--quiet", "ours")
    assert "CONFLICT" in conflict(fleet, "merge", "theirs")
    ran = fleet.run("resolve")
    assert (ran.code, ran.err) == (0, "")
    assert "rendered rendered/main/default/persistentvolumeclaim-vit-checkpoints.yaml" in ran.out
    assert ran.out.endswith("resolved 1 conflict in rendered/\nNext: git commit\n")
    assert fleet.git("diff", "--name-only") == ""
    fleet.git("commit", "--quiet", "--no-edit")
    assert fleet.run("verify").code == 0
    claim = (fleet.root / "rendered/main/default/persistentvolumeclaim-vit-checkpoints.yaml").read_text()
    assert "storage: 1920Gi" in claim  # 32 x 60: neither side had it


def test_a_rebase(diverged: Fleet) -> None:
    fleet = diverged
    fleet.git("checkout", "--quiet", "ours")
    assert "CONFLICT" in conflict(fleet, "rebase", "theirs")
    ran = fleet.run("resolve")
    assert ran.code == 0
    assert ran.out.endswith("Next: git rebase --continue\n")
    fleet.git("-c", "core.editor=true", "rebase", "--continue")
    assert fleet.run("verify").code == 0
    assert "rebase" not in fleet.git("status")


def test_a_cherry_pick(diverged: Fleet) -> None:
    fleet = diverged
    fleet.git("checkout", "--quiet", "ours")
    conflict(fleet, "cherry-pick", "main..theirs")
    assert fleet.run("resolve").out.endswith("Next: git cherry-pick --continue\n")
    fleet.git("-c", "core.editor=true", "cherry-pick", "--continue")
    assert fleet.run("verify").code == 0


def test_a_deleted_job_stays_deleted(fleet: Fleet) -> None:
    """Their side edits what our side deleted: the sources decide."""
    change(fleet, "theirs", VIT, "numGPUs: 16 ", "numGPUs: 24 ")
    fleet.git("checkout", "--quiet", "-B", "ours", "main")
    (fleet.root / VIT).unlink()
    fleet.commit("no vit")
    assert fleet.run("commit").code == 0
    conflict(fleet, "merge", "theirs")
    refused = fleet.run("resolve")
    assert refused.code == 5
    assert f"conflicts outside rendered/: {VIT}; resolve them first" in refused.err
    fleet.git("rm", "--quiet", VIT)
    assert fleet.run("resolve").code == 0
    assert not (fleet.root / "rendered/main/default/pytorchjob-vit.yaml").exists()
    fleet.git("commit", "--quiet", "--no-edit")
    assert fleet.run("verify").code == 0


def test_conflicts_in_sources_are_listed_and_nothing_changes(fleet: Fleet) -> None:
    change(fleet, "ours", VIT, "numGPUs: 16 ", "numGPUs: 24 ")
    change(fleet, "theirs", VIT, "numGPUs: 16 ", "numGPUs: 32 ")
    fleet.git("checkout", "--quiet", "ours")
    conflict(fleet, "merge", "theirs")
    before = fleet.git("ls-files", "--stage"), fleet.files()
    ran = fleet.run("resolve")
    assert ran.code == 5
    assert f"conflicts outside rendered/: {VIT}" in ran.err
    planned = fleet.run("plan")
    assert planned.code == 3
    assert f"{VIT}:10:1" in planned.out
    assert "the file has merge conflicts" in planned.out
    assert "render it again: reconciler resolve" in planned.out
    assert "rendered.foreign" not in planned.out
    assert (fleet.git("ls-files", "--stage"), fleet.files()) == before
    fleet.git("checkout", "--quiet", "--theirs", VIT)
    fleet.git("add", VIT)
    assert fleet.run("resolve").code == 0
    fleet.git("commit", "--quiet", "--no-edit")
    assert fleet.run("verify").code == 0


def test_errors_in_the_merged_sources_change_nothing(diverged: Fleet) -> None:
    fleet = diverged
    fleet.git("checkout", "--quiet", "ours")
    conflict(fleet, "merge", "theirs")
    fleet.edit(VIT, "jobQueue: h100", "jobQueue: h101")
    fleet.git("add", VIT)
    before = fleet.git("ls-files", "--stage"), fleet.files()
    ran = fleet.run("resolve")
    assert ran.code == 3
    assert "torchrun.queue-unknown" in ran.err
    assert (fleet.git("ls-files", "--stage"), fleet.files()) == before


def test_what_is_not_staged_is_not_rendered(diverged: Fleet) -> None:
    """The merge commit would lack the sources, so that `verify` would fail."""
    fleet = diverged
    fleet.git("checkout", "--quiet", "ours")
    conflict(fleet, "merge", "theirs")
    before = fleet.git("ls-files", "--stage"), fleet.files()
    assert fleet.run("new", "job", "later").code == 0
    (fleet.root / VIT).touch()  # no change
    ran = fleet.run("resolve")
    assert ran.code == 5
    assert "changes that are not staged: jobs/later.yaml; `git add` them" in ran.err
    assert (fleet.git("ls-files", "--stage"), fleet.files()) == before
    fleet.edit(VIT, "numGPUs: 32", "numGPUs: 40")
    assert f"jobs/later.yaml, {VIT}" in fleet.run("resolve").err
    fleet.git("add", "jobs")
    assert fleet.run("resolve").code == 0
    fleet.git("commit", "--quiet", "--no-edit")
    assert fleet.run("verify").code == 0


def test_an_unedited_merge_is_rendered_too(diverged: Fleet) -> None:
    """Git merges both sides without a conflict, and the result is what neither rendered."""
    fleet = diverged
    fleet.git("checkout", "--quiet", "-B", "only-sources", "main")
    fleet.edit(VIT, "numGPUs: 16 ", "numGPUs: 24 ")
    fleet.commit("vit")
    fleet.git("merge", "--quiet", "--no-commit", "--no-ff", "theirs")
    ran = fleet.run("resolve")
    assert ran.out.endswith("resolved 0 conflicts in rendered/\nNext: git commit\n")
    fleet.git("commit", "--quiet", "--no-edit")
    assert fleet.run("verify").code == 0


def test_a_config_repository_in_a_folder(fleet: Fleet, tmp_path: Path) -> None:
    """Paths are below the top of the Git repository there; conflicts of other folders are left to their owners."""
    outer = Fleet(tmp_path / "outer", fleet.capture)
    shutil.copytree(fleet.root, outer.root / "gpu", ignore=shutil.ignore_patterns(".git"))
    outer.write("README.md", "one\n")
    outer.git("init", "--quiet", "--initial-branch", "main")
    inner = Fleet(outer.root / "gpu", fleet.capture)
    outer.commit()
    outer.git("checkout", "--quiet", "-b", "ours")
    outer.write("README.md", "two\n")
    change(inner, "ours", VIT, "numGPUs: 16 ", "numGPUs: 32 ")
    change(inner, "theirs", QUEUE, "sizePerGPU: 50Gi", "sizePerGPU: 60Gi")
    outer.write("README.md", "three\n")
    outer.commit()
    outer.git("checkout", "--quiet", "ours")
    conflict(outer, "merge", "theirs")
    assert inner.run("resolve").code == 0
    assert outer.git("diff", "--name-only", "--diff-filter=U") == "README.md"
    outer.git("commit", "--quiet", "--all", "--no-edit")
    assert inner.run("verify").code == 0


def test_nothing_to_resolve(fleet: Fleet) -> None:
    ran = fleet.run("resolve")
    assert (ran.code, ran.out) == (0, "nothing to resolve: no merge or rebase is in progress\n")
