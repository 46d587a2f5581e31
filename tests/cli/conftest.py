"""Fixtures of tests that act as a user."""

from pathlib import Path

import pytest

from reconciler.cli.main import run
from tests.cli.fleet import IDENTITY, Fleet


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fleet:
    """Make a repository from the template by `reconciler init`, with its first commit."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", str(tmp_path / "cache"))
    root = tmp_path / "fleet"
    assert run(["init", str(root)]) == 0
    return Fleet(root, capsys)
