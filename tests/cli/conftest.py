"""Fixtures of tests that act as a user."""

import shutil
import subprocess
from pathlib import Path

import pytest

from reconciler.cli.main import run
from tests.cli.fleet import IDENTITY, Fleet
from tests.ready import new_cache


@pytest.fixture(scope="session")
def new_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository from the template by `reconciler init`, with its first commit."""
    root = tmp_path_factory.mktemp("template") / "fleet"
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in IDENTITY.items():
            monkeypatch.setenv(name, value)
        assert run(["init", str(root)]) == 0
    # A third of the files is left to be copied for every test.
    subprocess.run(["git", "-C", str(root), "repack", "-adq"], check=True)
    for sample in (root / ".git/hooks").glob("*.sample"):
        sample.unlink()
    return root


@pytest.fixture
def fleet(
    new_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Fleet:
    """Copy what `reconciler init` makes."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    return Fleet(shutil.copytree(new_repository, tmp_path / "fleet", symlinks=True), capsys)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fleet:
    """Return a repository without a file and without a commit."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    found = Fleet(tmp_path / "fleet", capsys)
    found.root.mkdir()
    found.git("init", "--quiet", "--initial-branch", "main")
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the tests of a module share a repository; see `Fleet.make_once`."""
    return tmp_path_factory.mktemp("kept")
