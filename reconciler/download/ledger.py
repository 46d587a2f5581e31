"""What is known of the files below a mount: of which version each one is, and what an unfinished one will become.

A line of JSON for each event, in a file that is only appended to while a run goes on: a run that is killed loses at
most the last line, and with it one file.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct

from reconciler.download.config import STATE
from reconciler.download.confined import open_file, open_folder, write_file
from reconciler.download.items import ItemPlace
from reconciler.errors import OutsideError

PART = ".part"
"""The ending of unfinished files."""
_LEDGER = ".ledger.jsonl"
_LOCK = ".lock"


class StoredFile(Struct, frozen=True, kw_only=True, tag="file", omit_defaults=True):
    """A file that is being written (`is_partial`) or complete. `size` and `mtime` are those on the disk."""

    path: str
    item: str
    version: str
    size: int = 0
    mtime: int = 0
    is_partial: bool = False


class RemovedFile(Struct, frozen=True, kw_only=True, tag="removed"):
    """A file that was deleted, because its source has it no more."""

    path: str


class StoredItem(Struct, frozen=True, kw_only=True, tag="item"):
    """An item that was complete at a version of its source."""

    item: str
    digest: str
    version: str


_Line = StoredFile | RemovedFile | StoredItem
_DECODER = msgspec.json.Decoder(_Line)


class Ledger:
    """The records of one mount. Threads share it."""

    def __init__(self, root: Path, descriptor: int) -> None:
        self._root = root
        self._lock = Lock()
        self._files: dict[str, StoredFile] = {}
        self._items: dict[str, StoredItem] = {}
        self._stream = os.fdopen(descriptor, "r+b", buffering=0)
        for line in _lines(self._stream.read()):
            self._take(line)
        self._stream.write(b"\n")  # ends the line of a run that was killed

    def is_current(self, path: Path, item: ItemPlace, version: str) -> bool:
        """Return whether a file is there as this item has written it at this version."""
        known = self._files.get(str(path))
        return known is not None and (known.item, known.version) == (item.identity, version) and _is_unchanged(known)

    def can_resume(self, path: Path, item: ItemPlace, version: str) -> bool:
        """Return whether the unfinished file belongs to this version."""
        known = self._files.get(str(path))
        return known is not None and known.is_partial and (known.item, known.version) == (item.identity, version)

    def is_complete(self, item: ItemPlace, version: str) -> bool:
        """Return whether an item, as it is configured, was complete at this version and all of its files are there."""
        known = self._items.get(item.identity)
        return (
            known is not None
            and (known.digest, known.version) == (item.digest, version)
            and all(_is_unchanged(file) for file in self.files(item))
        )

    def files(self, item: ItemPlace) -> list[StoredFile]:
        """Return the files of an item."""
        return [file for file in self._files.values() if file.item == item.identity]

    def start(self, path: Path, item: ItemPlace, version: str) -> None:
        """Record that a file is about to be written."""
        self._write(StoredFile(path=str(path), item=item.identity, version=version, is_partial=True))

    def end(self, path: Path, item: ItemPlace, version: str) -> None:
        """Record a file that is complete."""
        status = path.lstat()
        self._write(
            StoredFile(
                path=str(path), item=item.identity, version=version, size=status.st_size, mtime=status.st_mtime_ns
            )
        )

    def remove(self, file: StoredFile) -> bool:
        """Delete a file that an item has no more, unless somebody else has changed it; return whether it is gone."""
        is_ours = _is_unchanged(file)
        if is_ours:
            Path(file.path).unlink()
        Path(f"{file.path}{PART}").unlink(missing_ok=True)
        self._write(RemovedFile(path=file.path))
        return is_ours

    def discard_unfinished(self) -> None:
        """Delete what earlier runs have begun and nobody asks for any more."""
        for file in [one for one in self._files.values() if one.is_partial]:
            self.remove(file)

    def complete(self, item: ItemPlace, version: str) -> None:
        """Record an item that is complete."""
        self._write(StoredItem(item=item.identity, digest=item.digest, version=version))

    def close(self) -> None:
        """Write the records once more, without what is outdated."""
        self._stream.close()
        lines = [msgspec.json.encode(one) for one in (*self._files.values(), *self._items.values())]
        write_file(self._root, f"{STATE}/{_LEDGER}", b"".join(line + b"\n" for line in lines))

    def _write(self, line: _Line) -> None:
        with self._lock:
            self._take(line)
            self._stream.write(msgspec.json.encode(line) + b"\n")

    def _take(self, line: _Line) -> None:
        match line:
            case StoredFile():
                self._files[line.path] = line
            case RemovedFile():
                self._files.pop(line.path, None)
            case StoredItem():
                self._items[line.item] = line


@contextmanager
def open_ledger(root: Path) -> Iterator[Ledger]:
    """Yield the records of a mount, which no other run may use meanwhile. Raises `OutsideError`."""
    with open_folder(root, STATE) as folder:
        lock = open_file(folder, _LOCK, root / STATE / _LOCK)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OutsideError(f"another download to {root} is running", hint="wait until it ends") from None
            ledger = Ledger(root, open_file(folder, _LEDGER, root / STATE / _LEDGER))
            try:
                yield ledger
            finally:
                ledger.close()
        finally:
            os.close(lock)


def _lines(raw: bytes) -> Iterator[_Line]:
    for line in raw.splitlines():
        try:
            yield _DECODER.decode(line)
        except msgspec.DecodeError:  # the last line of a run that was killed
            continue


def _is_unchanged(known: StoredFile) -> bool:
    """Return whether a file is complete and as it was written."""
    if known.is_partial:
        return False
    try:
        status = Path(known.path).lstat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (known.size, known.mtime)
