"""A repository of a platform team, in Git, with the real programs that build it."""

import os
from pathlib import Path

import pytest

from tests.cli.fleet import IDENTITY, Fleet
from tests.cluster.fixtures import Parts
from tests.cluster.parts import HELM
from tests.ready import new_cache


@pytest.fixture
def adopted(
    parts: Parts,
    kubectl: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Fleet:
    """Return an empty repository; `helm` and `kubectl` are in PATH."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    programs = (kubectl.parent, parts.program(HELM).parent)
    monkeypatch.setenv("PATH", os.pathsep.join((*map(str, programs), os.environ["PATH"])))
    fleet = Fleet(tmp_path / "fleet", capsys)
    fleet.root.mkdir()
    fleet.git("init", "--quiet", "--initial-branch=main")
    return fleet
