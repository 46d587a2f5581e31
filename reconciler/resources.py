"""The data that ships with the package: tables of models and GPUs, schemas, policies, the template of a repository.

The tables are in `reconciler/data/`. The rest is in `reconciler/bundle/` in a wheel; in a checkout it is at its root,
beside the package.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

from reconciler.errors import OutsideError
from reconciler.packages import installed_metadata, registers_kinds

_PACKAGE = Path(__file__).resolve().parent
_ROOT = _PACKAGE / "bundle" if (_PACKAGE / "bundle").is_dir() else _PACKAGE.parent
_DISTRIBUTION = "gpu_reconciler-"
_SHIPPED = ("schemas", "policies", "gitops-repo-template", "templates", "action.yml")


def read(relative_path: str) -> bytes:
    """Return the content of a shipped file. Raises `OutsideError` if the installation lacks it."""
    try:
        return _shipped(relative_path).read_bytes()
    except OSError as error:
        raise OutsideError(f"the shipped file {relative_path} cannot be read", hint="reinstall the package") from error


def walk(folder: str) -> Iterator[str]:
    """Yield the paths of all files below a shipped folder, sorted, relative to the same root as `read`."""
    paths = []
    for current, folders, names in os.walk(_shipped(folder)):
        folders.sort()
        relative = Path(current).relative_to(_ROOT).as_posix()
        paths += [f"{relative}/{name}" for name in names]
    yield from sorted(paths)


@cache
def stamp() -> str:
    """Return a text that changes with the installation, so that caches of another one are not used.

    Of an installed package it tells the content of its files, the versions of all packages beside it, and that of
    Python: the same installation on another machine may use the same cache. In a checkout it consists of the time of
    the last installation into the environment, the number of modules and schemas, and the time of their last change.
    A process keeps the stamp of the installation that it was started from.
    """
    environment = Path(msgspec.__file__).parent.parent
    if _PACKAGE.parent != _ROOT and (content := _installed_content({str(environment), str(_PACKAGE.parent)})):
        return f"{sys.implementation.cache_tag} {content}"
    installed = str(environment.stat().st_mtime_ns)
    if _PACKAGE.parent != _ROOT:
        return installed
    times = [*_change_times(str(_PACKAGE)), *_change_times(str(_ROOT / "schemas"))]
    return f"{installed} {len(times)} {max(times)}"


def _installed_content(folders: set[str]) -> str:
    """Return a digest of the names and versions of all installed packages, and of the files of this one and of plugins.

    pip writes a digest of each file to RECORD. Empty if this package has none, as other installers may leave it out.
    """
    digest, is_known = sha256(), False
    for path in (Path(path) for folder in sorted(folders) for path in installed_metadata(folder)):
        digest.update(path.name.encode())
        is_own = path.name.startswith(_DISTRIBUTION)
        if is_own or registers_kinds(path):
            try:
                files = (path / "RECORD").read_bytes().splitlines()
            except OSError:  # then the time of the installation decides
                return ""
            # The rest differs from one installation to the next: byte code (no digest), scripts, the installer.
            stable = [row for row in files if not row.endswith(b",,") and b"../" not in row and b"-info/" not in row]
            digest.update(b"\n".join(sorted(stable)))
            is_known |= is_own
    return digest.hexdigest() if is_known else ""


def direct_url() -> object:
    """Return what pip recorded about the source of this installation (PEP 610); None if it is an index, or unknown."""
    environment = Path(msgspec.__file__).parent.parent
    found = (Path(path) for folder in (environment, _PACKAGE.parent) for path in installed_metadata(str(folder)))
    for path in found:
        if path.name.startswith(_DISTRIBUTION):
            with suppress(OSError, msgspec.MsgspecError):
                return msgspec.json.decode((path / "direct_url.json").read_bytes())
    return None


def _change_times(folder: str) -> Iterator[int]:
    for entry in os.scandir(folder):
        if entry.name.endswith((".py", ".json")):
            yield entry.stat().st_mtime_ns
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _change_times(entry.path)


def _shipped(relative_path: str) -> Path:
    first, *rest = relative_path.split("/")
    if first == "data" and ".." not in rest:
        return _PACKAGE / relative_path
    if first not in _SHIPPED or ".." in rest:
        raise OutsideError(f"{relative_path} is not part of the shipped data")
    return _ROOT / relative_path
