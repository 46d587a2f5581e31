"""Files of the working tree, opened folder by folder without following any symlink: never a file outside of it."""

import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Self

from msgspec import Struct

from reconciler.adapters.git.command import printable
from reconciler.errors import RepositoryError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (FileNotFoundError, NotADirectoryError)
LEFTOVER = ".reconciler.tmp"
"""Name of a file that is being written; a crash may leave one, the next commit removes it."""


class Found(Struct, frozen=True, kw_only=True):
    """What is at a path: its mode as in `Entry`, and for a file its first bytes."""

    mode: str
    data: bytes = b""


class WorkTree(Struct, frozen=True, kw_only=True):
    """The files below `top`. Paths are relative, with `/`; absolute ones, `..` and `.git` are refused."""

    top: Path

    def read(self, path: str, most: int = -1) -> Found | None:
        """Return what is there, at most `most` bytes of it (-1: all); None where nothing or a symlink is on the way."""
        (found,) = self.read_all((path,), most)
        return found

    def read_all(self, paths: Iterable[str], most: int = -1) -> Iterator[Found | None]:
        """Do so for many paths: sorted ones open each folder once."""
        with _Folders(self.top) as folders:
            for path in paths:
                try:
                    yield _found(*folders.of(path), most)
                except _GONE:
                    yield None
                except OSError as error:
                    if error.errno != errno.ELOOP:
                        raise RepositoryError(f"{printable(path)}: cannot be read: {error.strerror}") from error
                    yield None

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, whole or not at all, keeping the mode of the one it replaces."""
        self.write_all(((path, data),))

    def write_all(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Do so for many files: sorted ones open each folder once."""
        with _Folders(self.top) as folders:
            for path, data in files:
                try:
                    _replace(*folders.of(path, create=True), data)
                except OSError as error:
                    raise RepositoryError(f"{printable(path)}: cannot be written: {error.strerror}") from error

    def remove(self, path: str) -> None:
        """Delete a file and the folders that it leaves empty, as git does."""
        try:
            with _Folders(self.top) as folders:
                folder, name = folders.of(path)
                os.unlink(name, dir_fd=folder)
        except _GONE:
            return
        except OSError as error:
            raise RepositoryError(f"{printable(path)}: cannot be removed: {error.strerror}") from error
        self._prune(path)

    def sweep(self, folder: str) -> None:
        """Remove what a crash may have left in this folder."""
        leftover = f"{folder}/{LEFTOVER}" if folder else LEFTOVER
        if self.read(leftover, 0) is not None:
            self.remove(leftover)

    def blocked(self, path: str, removed: Container[str]) -> bool:
        """Tell whether something that is no folder, and will not be removed, lies on the way to this path."""
        parts = checked(path)
        for length in range(1, len(parts)):
            folder = "/".join(parts[:length])
            there = self.read(folder, 0)
            if there is None:
                return False
            if there.mode != "160000":
                return folder not in removed
        return False

    def _prune(self, path: str) -> None:
        head, _, _ = path.rpartition("/")
        while head:
            try:
                with _Folders(self.top) as folders:
                    folder, name = folders.of(head)
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return  # not empty, which is the common case
            head, _, _ = head.rpartition("/")


class _Folders:
    """Opens the folders of files, one part after the other; the last one stays open for the next file in it."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._at: str | None = None
        self._open = -1
        self._missing: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def of(self, path: str, *, create: bool = False) -> tuple[int, str]:
        """Return the opened folder that holds `path`, and the last part of the path."""
        *parents, name = checked(path)
        at = path[: -len(name)]
        if at == self._missing and not create:
            raise FileNotFoundError(at)
        if at != self._at:
            self._leave()
            try:
                self._open = self._opened(parents, create=create)
            except FileNotFoundError:
                self._missing = at
                raise
            self._at = at
        return self._open, name

    def _opened(self, parents: list[str], *, create: bool) -> int:
        folder = os.open(self._top, _FOLDER & ~os.O_NOFOLLOW)
        for parent in parents:
            try:
                if create and not _is_there(parent, folder):
                    os.mkdir(parent, dir_fd=folder)
                inner = os.open(parent, _FOLDER, dir_fd=folder)
            finally:
                os.close(folder)
            folder = inner
        return folder

    def _leave(self) -> None:
        if self._at is not None:
            self._at = None
            os.close(self._open)


def _found(folder: int, name: str, most: int) -> Found:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return Found(mode="120000")
    if stat.S_ISDIR(status.st_mode):
        return Found(mode="160000")
    if not stat.S_ISREG(status.st_mode):
        return Found(mode="000000")
    # not blocking: it may have become a named pipe since
    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
        return Found(mode=mode, data=file.read(most))


def _replace(folder: int, name: str, data: bytes) -> None:
    try:
        mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        mode = None
    opened = os.open(
        LEFTOVER, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder
    )
    with os.fdopen(opened, "wb") as file:
        file.write(data)
        if mode is not None:
            os.fchmod(file.fileno(), mode)
    os.replace(LEFTOVER, name, src_dir_fd=folder, dst_dir_fd=folder)


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def checked(path: str) -> list[str]:
    """Split a path into its parts. Raises `RepositoryError` where it could leave the tree or enter `.git`."""
    parts = path.split("/")
    if "\0" in path or any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts):
        raise RepositoryError(f"{printable(path)!r} is no path below the repository")
    return parts
