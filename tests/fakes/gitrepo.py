"""Real Git repositories for tests, made by the real git under a clean configuration."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from reconciler.repo.git import GitRepository

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "1750000000 +0200",
    "GIT_COMMITTER_DATE": "1750000000 +0200",
}


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a user at `home` who has no Git settings but an identity."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"} | IDENTITY


class Sandbox:
    """A repository in a folder, with git commands as a user would type them."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.environ = environ

    @classmethod
    def init(cls, folder: Path, *options: str) -> "Sandbox":
        """Make an empty repository whose user lives beside it."""
        folder.mkdir(parents=True)
        box = cls(folder, environment(folder.parent / "home"))
        box.git("init", "--quiet", "--initial-branch=main", *options)
        return box

    def git(self, *arguments: str, check: bool = True, data: bytes | None = None) -> str:
        """Run git and return what it prints."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=self.environ, input=data, capture_output=True, check=False
        )
        assert done.returncode == 0 or not check, (arguments, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def write(self, files: Mapping[str, bytes | None]) -> None:
        """Put files into the working tree; None removes one."""
        for path, data in files.items():
            target = self.folder / path
            if data is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def commit(self, files: Mapping[str, bytes | None], message: str = "change") -> str:
        """Write files, commit everything, and return the commit's id."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def open(self, folder: Path | None = None) -> GitRepository:
        """Open it as the product does."""
        return GitRepository.open(folder or self.folder, environ=self.environ)
