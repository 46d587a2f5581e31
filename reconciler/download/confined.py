"""Files below a mount: no path leads out of it, also not by a symbolic link, whoever else writes there."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISLNK

from reconciler.errors import OutsideError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class PathRefused(OutsideError):
    """A path below a mount leads through a symbolic link, or is not a file."""

    exit_code = 3


@contextmanager
def open_folder(root: Path, relative: str) -> Iterator[int]:
    """Yield the descriptor of a folder below a mount, which is created if it is absent."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OutsideError(f"{root} cannot be opened: {error.strerror}", hint="mount the volume") from None
    try:
        for part in filter(None, relative.split("/")):
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=descriptor)
            inner = _open(part, _FOLDER, descriptor, root / relative)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(folder: int, name: str, path: Path) -> int:
    """Open a file of a folder to read and write, or create it; `path` is for messages."""
    return _open(name, _FILE, folder, path)


def refuse_link(folder: int, name: str, path: Path) -> None:
    """Raise `PathRefused` if a name in a folder is a symbolic link."""
    with suppress(FileNotFoundError):
        if S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise _refused(path)


def write_file(root: Path, relative: str, content: bytes) -> None:
    """Write a small file completely or not at all."""
    parent, _, name = relative.rpartition("/")
    with open_folder(root, parent) as folder:
        part = f"{name}.part"
        with os.fdopen(open_file(folder, part, root / relative), "wb") as file:
            file.truncate()
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def link_file(root: Path, relative: str, target: str) -> None:
    """Make a symbolic link, instead of the file or link that has its name."""
    parent, _, name = relative.rpartition("/")
    with open_folder(root, parent) as folder:
        with suppress(OSError):  # absent, or a file
            if os.readlink(name, dir_fd=folder) == target:
                return
        part = f"{name}.part"
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        os.symlink(target, part, dir_fd=folder)
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def _open(name: str, flags: int, folder: int, path: Path) -> int:
    try:
        return os.open(name, flags, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EISDIR}:
            raise _refused(path) from None
        raise


def _refused(path: Path) -> PathRefused:
    return PathRefused(f"{path} leads through a symbolic link or a file", hint="remove it, or choose another path")
