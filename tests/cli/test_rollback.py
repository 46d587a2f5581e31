"""`rollback` offline: which files it restores."""

import pytest

from tests.cli.fleet import Fleet

VIT, LORA = "jobs/vision/vit.yaml", "jobs/language/llama-lora.yaml"


@pytest.fixture
def edited(fleet: Fleet) -> Fleet:
    """Return a repository in which two teams changed a job each."""
    for path in (VIT, LORA):
        fleet.write(path, (fleet.root / path).read_text() + "# changed\n")
    fleet.commit("two teams")
    return fleet


@pytest.mark.parametrize("path", ["jobs/vision", "jobs/vision/", "./jobs/vision", VIT])
def test_a_path_restores_the_files_of_one_team(edited: Fleet, path: str) -> None:
    ran = edited.run("rollback", "HEAD~1", path)
    assert ran.code == 0, ran.err
    assert ran.out.split() == [VIT]
    assert edited.git("diff", "--name-only", "HEAD~1", "HEAD").split() == [VIT]
    assert edited.git("log", "-1", "--format=%s").startswith(f"Roll back in {path} to ")
    again = edited.run("rollback", "HEAD~2", path)
    assert (again.code, again.out) == (0, "")
    assert f"nothing to roll back: the sources in {path} are those of" in again.err


def test_without_a_path_everything_is_restored(edited: Fleet) -> None:
    assert edited.run("rollback", "HEAD~1").out.split() == [LORA, VIT]
    assert edited.run("rollback", "HEAD~2", ".").code == 0


@pytest.mark.parametrize("path", ["jobs/visio", "reconciler.yaml", "../x", "jobs/vision/vit.yaml/x"])
def test_a_path_without_sources_is_an_error(edited: Fleet, path: str) -> None:
    before = edited.git("rev-parse", "HEAD")
    ran = edited.run("rollback", "HEAD~1", path)
    assert ran.code == 2
    assert f"{path}: no source file" in ran.err
    assert edited.git("rev-parse", "HEAD") == before
