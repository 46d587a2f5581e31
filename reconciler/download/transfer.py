"""The transfer of one file: to `TARGET.part`, verified, then renamed. What an earlier run wrote of it is continued."""

import os
import posixpath
from collections.abc import Callable
from contextlib import suppress
from threading import Event

from msgspec import Struct

from reconciler.download.confined import open_file, open_folder, refuse_link
from reconciler.download.items import CHUNK_BYTES, Content, FileMode, Item, RemoteFile, SourceFailure
from reconciler.download.ledger import PART, Ledger

_MAX_LINK = 4096


class Transfers(Struct, frozen=True, kw_only=True):
    """State that all transfers of a run share: `advance` takes the number of written bytes, `stopped` ends them."""

    ledger: Ledger
    stopped: Event
    advance: Callable[[int], None]


def transfer(item: Item, file: RemoteFile, run: Transfers) -> None:
    """Fetch a file. Raises `SourceFailure`, `PathRefused` or `OSError`; then the target is as it was before."""
    place = item.place
    parent, _, name = posixpath.join(place.folder, file.name).rpartition("/")
    path = place.root / parent / name
    with open_folder(place.root, parent) as folder:
        if file.mode is FileMode.LINK:
            _write_link(item, file, folder, f"{name}{PART}")
        else:
            refuse_link(folder, name, path)
            descriptor = open_file(folder, f"{name}{PART}", path)
            try:
                resumed = os.fstat(descriptor).st_size if run.ledger.can_resume(path, place, file.version) else 0
                run.ledger.start(path, place, file.version)
                _fill(item, file, descriptor, resumed if resumed < file.size else 0, run)
            finally:
                os.close(descriptor)
        os.rename(f"{name}{PART}", name, src_dir_fd=folder, dst_dir_fd=folder)
    run.ledger.end(path, place, file.version)


def _fill(item: Item, file: RemoteFile, descriptor: int, offset: int, run: Transfers) -> None:
    """Write the content from `offset` on, and check size and checksum of the whole."""
    with item.read(file, offset) as content:
        os.ftruncate(descriptor, content.offset)
        checksum = content.checksum.start() if content.checksum is not None else None
        os.lseek(descriptor, 0, os.SEEK_SET)
        if checksum is not None:
            while chunk := os.read(descriptor, CHUNK_BYTES):
                checksum.update(chunk)
        size = os.lseek(descriptor, content.offset, os.SEEK_SET)
        run.advance(size)
        for chunk in content.chunks:
            if run.stopped.is_set():
                raise SourceFailure("interrupted", is_final=True)
            size += len(chunk)
            if size > file.size:
                break
            _write(descriptor, chunk)
            if checksum is not None:
                checksum.update(chunk)
            run.advance(len(chunk))
    if size < file.size:
        run.advance(-size)
        raise SourceFailure(f"the content ends after {size} of {file.size} bytes")
    if size > file.size or (checksum is not None and checksum.hexdigest() != _stated(content)):
        run.advance(-min(size, file.size))
        os.ftruncate(descriptor, 0)
        raise SourceFailure("the content is not what the source states: its size or checksum differs")
    os.fchmod(descriptor, _mode(descriptor, file.mode))
    os.fsync(descriptor)


def _stated(content: Content) -> str:
    return content.checksum.digest if content.checksum is not None else ""


def _write(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _mode(descriptor: int, mode: FileMode) -> int:
    """Return the permissions of a file: whoever may read it may run it, if it is executable."""
    bits = os.fstat(descriptor).st_mode & 0o777
    return bits | (bits & 0o444) >> 2 if mode is FileMode.EXECUTABLE else bits


def _write_link(item: Item, file: RemoteFile, folder: int, part: str) -> None:
    """Make a symbolic link, which stays within the folder of its item."""
    with item.read(file, 0) as content:
        target = os.fsdecode(b"".join(content.chunks)[:_MAX_LINK])
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(file.name), target))
    if target.startswith("/") or inside.split("/")[0] == ".." or "\0" in target:
        raise SourceFailure(f"{file.name} is a symbolic link that leaves its folder", is_final=True)
    with suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    os.symlink(target, part, dir_fd=folder)
