"""Servers of downloads, and a volume."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.download import servers
from tests.download.servers import Served

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run of the command in a process of its own, as a pod runs it."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A mount, a configuration for it, mounted secrets, and the environment of the pod."""

    folder: Path
    environ: dict[str, str]

    @property
    def root(self) -> Path:
        return self.folder / "data"

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    def secret(self, content: str, name: str = "keys", key: str = "key") -> dict[str, str]:
        path = self.folder / "secrets" / name / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return {"secretName": name, "secretKey": key}

    def configure(self, marker: str = "first", **sources: Any) -> None:
        mounts = {"root": str(self.root), "hfHome": str(self.folder / "hf"), "secrets": str(self.folder / "secrets")}
        self.config.write_text(json.dumps({**mounts, "marker": marker, **sources}))

    def start(self, *flags: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "reconciler", "download", str(self.config), *flags]
        return subprocess.Popen(
            argv, cwd=ROOT, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *flags: str) -> Ran:
        process = self.start(*(flags or ("-o", "json")))
        out, err = process.communicate(timeout=240)
        return Ran(code=process.returncode, out=out, err=err)

    def files(self) -> dict[str, bytes]:
        """Return what is on the mount, but for what belongs to the command."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".downloads" not in path.parts
        }

    def markers(self) -> list[str]:
        folder = self.root / ".downloads"
        return sorted(path.name for path in folder.glob("[!.]*")) if folder.is_dir() else []


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    """Return an empty mount."""
    for name in ("data", "hf", "home"):
        (tmp_path / name).mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
    environ = {**kept, "HOME": str(tmp_path / "home"), "NO_GCE_CHECK": "true", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return Volume(folder=tmp_path, environ=environ)


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    """Run moto."""
    with servers.moto() as url:
        yield url


@pytest.fixture
def gcs(volume: Volume) -> Iterator[Served]:
    """Run a Google Cloud Storage."""
    with servers.serving(servers.Gcs) as served:
        volume.environ["STORAGE_EMULATOR_HOST"] = served.url
        yield served


@pytest.fixture
def azure() -> Iterator[Served]:
    """Run an Azure Blob Storage."""
    with servers.serving(servers.Azure) as served:
        yield served


@pytest.fixture
def hub(volume: Volume) -> Iterator[Served]:
    """Run a Hugging Face Hub."""
    with servers.serving(servers.Hub) as served:
        volume.environ["HF_ENDPOINT"] = served.url
        yield served
