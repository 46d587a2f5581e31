"""Files of the working tree, opened folder by folder without following any symlink: never a file outside of it."""

import errno
import os
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path

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
        try:
            with self._folder(path) as (folder, name):
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
        except _GONE:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise RepositoryError(f"{printable(path)}: cannot be read: {error.strerror}") from error

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, whole or not at all, keeping the mode of the one it replaces."""
        try:
            with self._folder(path, create=True) as (folder, name):
                self._replace(folder, name, data)
        except OSError as error:
            raise RepositoryError(f"{printable(path)}: cannot be written: {error.strerror}") from error

    def remove(self, path: str) -> None:
        """Delete a file and the folders that it leaves empty, as git does."""
        try:
            with self._folder(path) as (folder, name):
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

    @staticmethod
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

    def _prune(self, path: str) -> None:
        head, _, _ = path.rpartition("/")
        while head:
            try:
                with self._folder(head) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return  # not empty, which is the common case
            head, _, _ = head.rpartition("/")

    @contextmanager
    def _folder(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder that holds `path`, one part after the other, and give it with the last part."""
        *parents, name = checked(path)
        folder = os.open(self.top, _FOLDER & ~os.O_NOFOLLOW)
        try:
            for parent in parents:
                if create and not _is_there(parent, folder):
                    os.mkdir(parent, dir_fd=folder)
                inner = os.open(parent, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)


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
