"""Files that the user names: a whole folder, or one file, written completely or not at all."""

import os
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import ConfigError, OutsideError


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files below an empty or absent folder (`.git` alone counts as empty).

    Raises `ConfigError` where the folder holds something, `OutsideError` where it cannot be written.
    """
    if folder.is_file() or (folder.is_dir() and any(entry.name != ".git" for entry in folder.iterdir())):
        raise ConfigError(f"{folder} is not empty", hint="name an empty or absent folder; nothing was written")
    try:
        for path, content in contents.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except OSError as error:
        raise OutsideError(f"{folder} cannot be written: {error.strerror}", hint="choose another folder") from error


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, text as UTF-8; `OutsideError` where that fails."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(content if isinstance(content, bytes) else content.encode())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise OutsideError(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def read_file(path: Path) -> bytes:
    """Read a file; `OutsideError` where that fails."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise OutsideError(f"{path} cannot be read: {error.strerror}", hint="name another file") from error
