"""Files of the working tree, opened folder by folder without following symlinks, so never a file outside of it."""

import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Self

from msgspec import Struct

from reconciler.errors import RepositoryError, printable

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MISSING = (FileNotFoundError, NotADirectoryError)
TEMPORARY = ".reconciler.tmp"
"""The name of a file that is being written. A crash may leave one; the next commit removes it."""


class CheckoutFile(Struct, frozen=True, kw_only=True):
    """An entry at a path: the mode as in `Entry`, the first bytes of a file, and its size in bytes."""

    mode: str
    data: bytes = b""
    size: int = 0


class WorkTree(Struct, frozen=True, kw_only=True):
    """The files below `top`. Paths are relative, with `/`; absolute ones, `..` and `.git` are rejected."""

    top: Path

    def read(self, path: str, max_bytes: int = -1) -> CheckoutFile | None:
        """Read the entry at a path, at most `max_bytes` bytes of it (-1: all); None if the path does not exist."""
        (state,) = self.read_all((path,), max_bytes)
        return state

    def read_all(self, paths: Iterable[str], max_bytes: int = -1) -> Iterator[CheckoutFile | None]:
        """Yield the entry at each path. Sorted paths open each folder once. A path through a symlink does not exist."""
        with _Folders(self.top) as folders:
            for path in paths:
                try:
                    yield _read_state(*folders.open(path), max_bytes)
                except _MISSING:
                    yield None
                except OSError as error:
                    if error.errno != errno.ELOOP:
                        raise RepositoryError(f"{printable(path)}: cannot be read: {error.strerror}") from error
                    yield None

    def write(self, path: str, data: bytes) -> None:
        """Write a file completely or not at all, keeping the mode of the one it replaces."""
        self.write_all(((path, data),))

    def write_all(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Write many files. Sorted paths open each folder once."""
        with _Folders(self.top) as folders:
            for path, data in files:
                try:
                    _replace(*folders.open(path, create=True), data)
                except OSError as error:
                    raise RepositoryError(f"{printable(path)}: cannot be written: {error.strerror}") from error

    def remove(self, path: str) -> None:
        """Delete a file and the folders that become empty, as git does."""
        try:
            with _Folders(self.top) as folders:
                folder, name = folders.open(path)
                os.unlink(name, dir_fd=folder)
        except _MISSING:  # somebody else removed it
            return
        except OSError as error:
            raise RepositoryError(f"{printable(path)}: cannot be removed: {error.strerror}") from error
        self._prune(path)

    def sweep(self, folder: str) -> None:
        """Remove the temporary file that a crash may have left in this folder."""
        temporary = f"{folder}/{TEMPORARY}" if folder else TEMPORARY
        if self.read(temporary, 0) is not None:
            self.remove(temporary)

    def blocked(self, path: str, removed: Container[str]) -> bool:
        """Return whether a parent of this path is not a folder and will not be removed."""
        parts = split_path(path)
        for length in range(1, len(parts)):
            folder = "/".join(parts[:length])
            state = self.read(folder, 0)
            if state is None:
                return False
            if state.mode != "160000":
                return folder not in removed
        return False

    def _prune(self, path: str) -> None:
        head, _, _ = path.rpartition("/")
        while head:
            try:
                with _Folders(self.top) as folders:
                    folder, name = folders.open(head)
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return  # not empty, which is the common case
            head, _, _ = head.rpartition("/")


class _Folders:
    """Opens the folders of files, one part after the other. The last one stays open for the next file in it."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._current: str | None = None
        self._descriptor = -1
        self._missing: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def open(self, path: str, *, create: bool = False) -> tuple[int, str]:
        """Return the opened folder that holds `path`, and the last part of the path."""
        *parents, name = split_path(path)
        parent = path[: -len(name)]
        if parent == self._missing and not create:
            raise FileNotFoundError(parent)
        if parent != self._current:
            self._close()
            try:
                self._descriptor = self._open_folder(parents, create=create)
            except FileNotFoundError:
                self._missing = parent
                raise
            self._current = parent
        return self._descriptor, name

    def _open_folder(self, parents: list[str], *, create: bool) -> int:
        folder = os.open(self._top, _FOLDER_FLAGS & ~os.O_NOFOLLOW)
        for parent in parents:
            try:
                if create and not _exists(parent, folder):
                    os.mkdir(parent, dir_fd=folder)
                inner = os.open(parent, _FOLDER_FLAGS, dir_fd=folder)
            finally:
                os.close(folder)
            folder = inner
        return folder

    def _close(self) -> None:
        if self._current is not None:
            self._current = None
            os.close(self._descriptor)


def _read_state(folder: int, name: str, max_bytes: int) -> CheckoutFile:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return CheckoutFile(mode="120000")
    if stat.S_ISDIR(status.st_mode):
        return CheckoutFile(mode="160000")
    if not stat.S_ISREG(status.st_mode):
        return CheckoutFile(mode="000000")
    # non-blocking: it may have become a named pipe in the meantime
    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
        return CheckoutFile(mode=mode, data=file.read(max_bytes), size=status.st_size)


def _replace(folder: int, name: str, data: bytes) -> None:
    try:
        mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:  # a new file gets the mode of the umask
        mode = None
    opened = os.open(
        TEMPORARY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder
    )
    with os.fdopen(opened, "wb") as file:
        file.write(data)
        if mode is not None:
            os.fchmod(file.fileno(), mode)
    os.replace(TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def split_path(path: str) -> list[str]:
    """Split a path into its parts. Raises `RepositoryError` if it could leave the tree or enter `.git`."""
    parts = path.split("/")
    if "\0" in path or any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts):
        raise RepositoryError(f"{printable(path)!r} is not a path inside the repository")
    return parts
