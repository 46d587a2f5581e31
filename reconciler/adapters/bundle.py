"""The data that ships with the package: schemas, policies and the template of a config repository.

Inside a wheel they lie in `reconciler/bundle/`; in a checkout at its root, beside the package.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from reconciler.errors import OutsideError

_PACKAGE = Path(__file__).resolve().parent.parent
_ROOT = _PACKAGE / "bundle" if (_PACKAGE / "bundle").is_dir() else _PACKAGE.parent
_SHIPPED = ("schemas", "policies", "gitops-repo-template")


def read(relative_path: str) -> bytes:
    """Return the bytes of a shipped file; `OutsideError` where the installation lacks it."""
    try:
        return _shipped(relative_path).read_bytes()
    except OSError as error:
        raise OutsideError(
            f"the shipped file {relative_path} cannot be read", hint="install the package again"
        ) from error


def walk(folder: str) -> Iterator[str]:
    """Yield the paths of all files below a shipped folder, sorted, relative to the same root as `read`."""
    found = []
    for here, folders, names in os.walk(_shipped(folder)):
        folders.sort()
        below = Path(here).relative_to(_ROOT).as_posix()
        found += [f"{below}/{name}" for name in names]
    yield from sorted(found)


def stamp() -> str:
    """Tell what this installation is, at the cost of a look: what another one has remembered says nothing here.

    That is when anything was last installed beside it and, in a checkout, when a module or a schema was last changed.
    """
    installed = Path(msgspec.__file__).parent.parent.stat().st_mtime_ns
    if _PACKAGE.parent != _ROOT:
        return str(installed)
    changed = [*_changes(str(_PACKAGE)), *_changes(str(_ROOT / "schemas"))]
    return f"{installed} {len(changed)} {max(changed)}"


def _changes(folder: str) -> Iterator[int]:
    for entry in os.scandir(folder):
        if entry.name.endswith((".py", ".json")):
            yield entry.stat().st_mtime_ns
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _changes(entry.path)


def _shipped(relative_path: str) -> Path:
    first, *rest = relative_path.split("/")
    if first not in _SHIPPED or ".." in rest:
        raise OutsideError(f"{relative_path} is not among the shipped data")
    return _ROOT / relative_path
