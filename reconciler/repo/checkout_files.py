"""Files that the user names: a new folder, or one file, written completely or not at all."""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_IMODE

from reconciler.errors import ConfigError, OutsideError
from reconciler.kube.objects import OversizedContent


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files below an empty or absent folder; one with only `.git` counts as empty.

    Raises `ConfigError` if the folder is not empty, `OutsideError` if it cannot be written.
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


def write_file(path: Path, content: str | bytes | Iterator[str], *, follows_links: bool = False) -> None:
    """Write a file completely or not at all, text as UTF-8. Raises `OutsideError`.

    A file that exists keeps its permissions. A device or pipe, such as /dev/null, is written to: root could replace it.
    follows_links: write the file behind a symbolic link, instead of replacing the link.
    """
    is_special = _is_special(path)
    if follows_links and not is_special:
        path = Path(os.path.realpath(path))
    written = path if is_special else _temporary(path)
    parts = iter([content]) if isinstance(content, str | bytes) else content
    try:
        with written.open("wb") as file:
            if path.is_file():
                os.fchmod(file.fileno(), S_IMODE(path.stat().st_mode))
            for part in parts:
                file.write(part if isinstance(part, bytes) else part.encode())
        if not is_special:
            written.replace(path)
    except OSError as error:
        if not is_special:
            written.unlink(missing_ok=True)
        raise OutsideError(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files: none of them if one cannot be written. Raises `OutsideError`."""
    written: list[Path] = []
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            written.append(path)
            _temporary(path).write_bytes(content)
    except OSError as error:
        for path in written:
            _temporary(path).unlink(missing_ok=True)
        raise OutsideError(
            f"{error.filename} cannot be written: {error.strerror}", hint="choose another folder"
        ) from error
    for path in written:
        _temporary(path).replace(path)


def require_writable(path: Path) -> None:
    """Raise `OutsideError` if `write_file` could not write a file: before work whose result goes there."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not _is_special(path):
            _temporary(path).touch()
            _temporary(path).unlink()
    except OSError as error:
        raise OutsideError(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def _is_special(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def write_new(root: Path, path: str, content: bytes) -> None:
    """Write a file below `root` that must not exist yet. Raises `ConfigError` or `OutsideError`."""
    target = root / path
    if not target.resolve().is_relative_to(root.resolve()):
        raise ConfigError(f"{path} is not below {root}", hint="name a file of the config repository")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise ConfigError(f"{path} exists", hint="name another file with --output") from error
    except OSError as error:
        raise OutsideError(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def read_file(path: Path) -> bytes:
    """Return the content of a file that the user names. Raises `ConfigError` if there is none, else `OutsideError`."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        problem = "does not exist" if isinstance(error, FileNotFoundError) else "is a folder"
        raise ConfigError(f"{path} {problem}", hint="name a file") from error
    except OSError as error:
        raise OutsideError(f"{path} cannot be read: {error.strerror}", hint="name another file") from error


_SUFFIXES = frozenset((".yaml", ".yml", ".json"))
_MAX_FILES = 10_000
_MAX_BYTES = 3 << 20


class FolderFiles:
    """The YAML and JSON files below one folder. Nothing outside of it can be read, also not by a symbolic link."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def files(self, path: str) -> Sequence[str]:
        """Return a file by itself, or all files below a folder, sorted. Raises `ConfigError` if there is neither."""
        target = self._inside(path)
        if target.is_file():
            return (path,)
        if not target.is_dir():
            raise ConfigError(f"{path} does not exist", hint="name a file or a folder")
        found = sorted(one for one in target.rglob("*") if one.suffix in _SUFFIXES and one.is_file())
        if len(found) > _MAX_FILES:
            raise ConfigError(f"{path} holds more than {_MAX_FILES:,} files", hint="name a smaller folder")
        return tuple(one.relative_to(self._root).as_posix() for one in found)

    def has(self, path: str) -> bool:
        """Return whether there is such a file or folder. Raises `ConfigError` for a path outside."""
        return self._inside(path).exists()

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `ConfigError` or `OutsideError`."""
        target = self._inside(path)
        size = target.stat().st_size if target.is_file() else 0
        return OversizedContent.of_size(size) if size > _MAX_BYTES else read_file(target)

    def _inside(self, path: str) -> Path:
        target = (self._root / path).resolve()
        if not target.is_relative_to(self._root):
            raise ConfigError(f"{path} is not below {self._root}", hint="name a file of the config repository")
        return target
