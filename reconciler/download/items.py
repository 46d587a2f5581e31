"""What sources offer: the files of an item with their versions, and the content of each."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self

import msgspec
from msgspec import Struct

from reconciler.errors import OutsideError, one_line
from reconciler.kube.secrets import MASK, mask_text

CHUNK_BYTES = 1 << 20
_SHORTEST_SECRET = 4
_BUSY = (408, 429)


class SourceFailure(Exception):
    """A source did not give what was asked; `is_final` says that it will not later either."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class MissingPackage(OutsideError):
    """The package that reads a source is not installed."""


class FileMode(StrEnum):
    """The way in which a file is created."""

    PLAIN = "plain"
    EXECUTABLE = "executable"
    LINK = "link"


class RemoteFile(Struct, frozen=True, kw_only=True):
    """A file of a source: its name there, its path below the folder of the item, and the version of its content."""

    key: str
    name: str
    size: int
    version: str
    mode: FileMode = FileMode.PLAIN


class Hasher(Protocol):
    """A checksum that is being computed."""

    def update(self, chunk: bytes, /) -> object:
        """Take the next bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the checksum of all bytes so far."""
        ...


class Checksum(Struct, frozen=True):
    """The checksum that a source states, and how it is computed."""

    digest: str
    start: Callable[[], Hasher]


class Content(Struct, frozen=True, kw_only=True):
    """The bytes of a file from `offset` on, which is 0 if the source cannot start where it was asked to."""

    chunks: Iterator[bytes]
    offset: int = 0
    checksum: Checksum | None = None


class Contents(Struct, frozen=True, kw_only=True):
    """All files of an item at one version. `notes`: what is there and not fetched."""

    version: str
    files: tuple[RemoteFile, ...]
    notes: tuple[str, ...] = ()


class ItemPlace(Struct, frozen=True, kw_only=True):
    """The identity of an item, and the place of its files.

    label: the source, for people. identity: source and target, whatever is selected of them. digest: of all that the
    configuration says. root, folder: the mount, and the path below it.
    """

    label: str
    identity: str
    digest: str
    root: Path
    folder: str

    @classmethod
    def of(cls, label: str, one: Struct, root: Path, target: str, *, account: str = "", is_file: bool = False) -> Self:
        """Return the place of a part of the configuration, of which `account` names the server."""
        digest = hashlib.sha256(msgspec.json.encode((label, account, str(root), target, one))).hexdigest()
        folder = target.rpartition("/")[0] if is_file else target
        identity = f"{account or ''} {label} {root / target}".lstrip()
        return cls(label=label, identity=identity, digest=digest, root=root, folder=folder)


class Item(Protocol):
    """A part of the configuration that is fetched and reported as one."""

    @property
    def place(self) -> ItemPlace:
        """The name and the folder of the part."""
        ...

    def resolve(self) -> str:
        """Return the version, if the source tells it without listing all files; else an empty text."""
        ...

    def find(self) -> Contents:
        """List the files. Raises `SourceFailure`."""
        ...

    def read(self, file: RemoteFile, offset: int) -> AbstractContextManager[Content]:
        """Open a file. Raises `SourceFailure`, also while the content is read."""
        ...

    def finish(self, contents: Contents) -> None:
        """Do what is left once all files are complete."""
        ...


def failure(error: Exception, *, status: int = 0, secrets: tuple[str, ...] = ()) -> SourceFailure:
    """Return the failure behind an exception of a library; `status` is the HTTP status, if there was an answer."""
    text = str(error) or type(error).__name__
    for secret in secrets:
        text = text.replace(secret, MASK) if len(secret) >= _SHORTEST_SECRET else text
    is_final = 400 <= status < 500 and status not in _BUSY  # noqa: PLR2004 - the errors of clients
    return SourceFailure(one_line(mask_text(text)), is_final=is_final)


def read_secrets(folder: str, refs: Mapping[str, Any]) -> dict[str, str]:
    """Read mounted secrets by name, without the line break at the end; those that are not configured are empty."""
    found = {}
    for name, ref in refs.items():
        path = Path(ref.file) if ref.file else Path(folder, ref.secret_name, ref.secret_key)
        try:
            found[name] = path.read_text(encoding="utf-8").strip() if ref else ""
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise OutsideError(f"{path} of {name} cannot be read: {reason}", hint="mount the Secret") from None
    return found


def git_blob(digest: str, size: int) -> Checksum:
    """Return the checksum of a file in Git: SHA-1 or SHA-256 over a header with its size, and its bytes."""

    def start() -> Hasher:
        header = b"blob %d\0" % size
        if len(digest) == hashlib.sha256().digest_size * 2:
            return hashlib.sha256(header)
        return hashlib.sha1(header, usedforsecurity=False)

    return Checksum(digest, start)


def md5(digest: str) -> Checksum:
    """Return a checksum by MD5, which stores of objects state."""
    return Checksum(digest, lambda: hashlib.md5(usedforsecurity=False))


def sha256(digest: str) -> Checksum:
    """Return a checksum by SHA-256."""
    return Checksum(digest, hashlib.sha256)
