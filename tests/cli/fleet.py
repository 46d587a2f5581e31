"""A config repository made by the product itself, for tests that act as a user."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.cli.main import run

IDENTITY = {
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
    "GIT_AUTHOR_DATE": "2026-11-02T10:00:00+00:00",
    "GIT_COMMITTER_DATE": "2026-11-02T10:00:00+00:00",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a verb did."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class Fleet:
    """A repository and the means to use it."""

    root: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> Ran:
        self.capture.readouterr()
        code = run([*arguments, "--repo", str(self.root)])
        out, err = self.capture.readouterr()
        return Ran(code, out, err)

    def git(self, *arguments: str) -> str:
        call = ["git", "-C", str(self.root), *arguments]
        environ = {**os.environ, **IDENTITY}
        return subprocess.run(call, check=True, capture_output=True, text=True, env=environ).stdout.strip()

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def edit(self, path: str, old: str, new: str) -> None:
        target = self.root / path
        text = target.read_text()
        assert old in text, f"{old!r} is not in {path}"
        target.write_text(text.replace(old, new))

    def commit(self, message: str = "edit") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def make_once(self, kept: Path, make: Callable[[], None]) -> None:
        """Let `make` change the new repository, or copy what it made before. `kept` is a folder of the tests that share it."""
        parts = (self.root, self.root.parent / "cache")
        if (kept / parts[0].name).exists():
            for part in parts:
                shutil.rmtree(part)
                shutil.copytree(kept / part.name, part, symlinks=True)
        else:
            make()
            for part in reversed(parts):
                shutil.copytree(part, kept / part.name, symlinks=True)

    def files(self, folder: str = "rendered") -> dict[str, bytes]:
        top = self.root / folder
        return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


def run_verb(capture: pytest.CaptureFixture[str], arguments: Sequence[str]) -> Ran:
    """Run a verb that needs no repository."""
    capture.readouterr()
    code = run(arguments)
    out, err = capture.readouterr()
    return Ran(code, out, err)
