"""A config repository on a Git server, ready to be watched."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.gitrepo import Sandbox, environment
from tests.live.controller.gitserver import GitServer, git_server


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what `reconciler init` makes."""
    folder = tmp_path_factory.mktemp("template") / "fleet"
    environ = {**os.environ, **environment(folder.parent / "home")}
    subprocess.run(
        [sys.executable, "-m", "reconciler", "init", str(folder)], check=True, env=environ, capture_output=True
    )
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "server") as started:
        yield started


@pytest.fixture
def person(server: GitServer, template: Path, tmp_path: Path) -> Sandbox:
    """Return the clone of someone who works on the repository, which is pushed.

    A test with it depends on the answers of a Git server: `tests/tiers.py` lets it fail once.
    """
    box = Sandbox(tmp_path / "person", environment(tmp_path / "home"))
    shutil.copytree(template, box.folder)
    box.git("remote", "add", "origin", str(server.bare))
    box.git("push", "-q", "origin", "main")
    return box
