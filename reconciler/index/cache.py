"""The cache on disk: safe to delete at any time, safe for several processes, never the cause of a failure."""

import hashlib
import os
import stat
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 512 << 20  # about a hundred indexes of repositories with 10,000 documents
_PRUNED_SHARE = 0.75  # pruned to this share of the limit, so that not every write prunes
_STALE_SECONDS = 3600  # a temporary file of this age belongs to a process that died
_MAGIC = b"gpu-reconciler cache 2\n"
_DIGEST_BYTES, _LENGTH_BYTES, _CHECKSUM_BYTES = 32, 8, 4  # SHA-256, and CRC-32 of the value
_HEADER_BYTES = len(_MAGIC) + _DIGEST_BYTES + _LENGTH_BYTES + _CHECKSUM_BYTES
_SUFFIX = ".cache"


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Return `RECONCILER_CACHE_DIR` (None if it is empty), or `gpu-reconciler` under `XDG_CACHE_HOME`."""
    if "RECONCILER_CACHE_DIR" in environ:
        folder = environ["RECONCILER_CACHE_DIR"]
        return Path(folder).absolute() if folder else None
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification says to ignore relative ones
        home = Path(environ.get("HOME", ""))
        if not home.is_absolute():
            return None
        base = home / ".cache"
    return base / "gpu-reconciler"


class DiskCache:
    """One file per key, written to a temporary file and renamed. It begins with a digest of the key and a CRC-32.

    A truncated or damaged file, or one with another stamp, key or format, is a miss. The checksum is against accidents,
    because who may write to the folder may write anything; a SHA-256 would cost 9 ms more for 10,000 documents. A
    folder that cannot be created, or that another user owns or may write to, is not used. The least recently used files
    are deleted at the limit.
    """

    def __init__(self, folder: Path | None, *, max_bytes: int = MAX_BYTES, stamp: str = "") -> None:
        self._max_bytes = max_bytes
        self._stamp = stamp
        self._until_pruning = 0  # bytes; the first write checks the folder
        self._folder = folder if folder is not None and _is_private(folder) else None

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        if self._folder is None:
            return None
        with suppress(OSError):
            header, value = self._read(self._folder / _name(key))
            if header == _header(self._stamp, key, value):
                return value
        return None

    def _read(self, path: Path) -> tuple[bytes, bytes]:
        """Return header and value; both empty if it is not a regular file, or too large."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > self._max_bytes + _HEADER_BYTES:
                return b"", b""
            os.utime(descriptor)  # most recently used, so pruned last
            with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:  # a buffer would copy every byte
                return file.read(_HEADER_BYTES), file.read()
        finally:
            os.close(descriptor)

    def put(self, key: str, value: bytes) -> None:
        """Store a value if possible."""
        if self._folder is None or len(value) > self._max_bytes:
            return
        with suppress(OSError):  # a full disk costs time, and no plan
            self._write(self._folder / _name(key), _header(self._stamp, key, value), value)
            self._until_pruning -= len(value)
            if self._until_pruning < 0:
                self._prune(self._folder)

    @staticmethod
    def _write(path: Path, header: bytes, value: bytes) -> None:
        folder = path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may have been deleted in the meantime
        temporary = folder / f"new-{os.urandom(8).hex()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(header)
                file.write(value)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _prune(self, folder: Path) -> None:
        files: list[tuple[float, int, str]] = []
        for item in os.scandir(folder):
            with suppress(FileNotFoundError):  # another process is pruning as well
                status = item.stat(follow_symlinks=False)
                if item.name.endswith(_SUFFIX):
                    files.append((status.st_mtime, status.st_size, item.path))
                elif item.name.startswith("new-") and status.st_mtime < time.time() - _STALE_SECONDS:
                    Path(item.path).unlink(missing_ok=True)
        total = sum(size for _, size, _ in files)
        target = int(self._max_bytes * _PRUNED_SHARE)
        if total > self._max_bytes:
            for _, size, path in sorted(files):
                if total <= target:
                    break
                Path(path).unlink(missing_ok=True)
                total -= size
        self._until_pruning = self._max_bytes - total


def _is_private(folder: Path) -> bool:
    """Create the folder; return whether the user owns it and no other user may write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:  # a read-only home: nothing is cached
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & others


def _name(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest() + _SUFFIX


def _header(stamp: str, key: str, value: bytes) -> bytes:
    identity = hashlib.sha256(f"{_name(key)}{stamp}".encode()).digest()
    length, checksum = len(value).to_bytes(_LENGTH_BYTES), zlib.crc32(value).to_bytes(_CHECKSUM_BYTES)
    return _MAGIC + identity + length + checksum
