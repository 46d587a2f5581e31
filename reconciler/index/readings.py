"""What the few files said that all others are compiled against, remembered by path and blob id.

Five thousand nodes of evidence take a second to parse; a plan that changes one job must not wait for them.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import Struct

from reconciler.core.documents import Document, read
from reconciler.core.kinds.torchrun.intent import queue_intent
from reconciler.core.problems import Problem, Severity
from reconciler.core.schemas import Catalogue
from reconciler.ports import Cache

Contents = Callable[[list[str]], Iterable[bytes]]
"""Gives the bytes of files by path."""


class FileReading(Struct, frozen=True, array_like=True):
    """A file's documents, which of them are sound, and what the reader and their schemas say against it."""

    path: str
    oid: str
    documents: tuple[Document, ...]
    sound: tuple[bool, ...]
    problems: tuple[Problem, ...]

    @property
    def valid(self) -> tuple[Document, ...]:
        """The sound documents."""
        return tuple(document for document, sound in zip(self.documents, self.sound, strict=True) if sound)


class _Memory(Struct, frozen=True):
    engine: str
    files: dict[str, bytes]


class Readings:
    """Reads files, or remembers what they said to the same engine."""

    def __init__(self, cache: Cache, key: str, engine: str, catalogue: Catalogue) -> None:
        self._cache, self._key, self._engine, self._catalogue = cache, f"readings:{key}", engine, catalogue
        self._known = self._load()
        self._used: dict[str, bytes] = {}

    def _load(self) -> dict[str, bytes]:
        raw = self._cache.get(self._key)
        try:
            memory = _memory.decode(raw) if raw else None
        except msgspec.MsgspecError:
            memory = None
        return memory.files if memory is not None and memory.engine == self._engine else {}

    def read(self, files: Sequence[tuple[str, str]], contents: Contents) -> tuple[FileReading, ...]:
        """Return what files, given by path and blob id, say; `contents` is asked for those that nobody remembers."""
        found = {file: held for file in files if (held := self._recall(*file))}
        missing = [file for file in files if file not in found]
        if missing:
            for file, raw in zip(missing, contents([path for path, _ in missing]), strict=True):
                found[file] = self._learn(*file, raw)
        return tuple(found[file] for file in files)

    def save(self) -> None:
        """Remember what was used, and nothing else, for the next time."""
        if self._used.keys() != self._known.keys():
            self._cache.put(self._key, msgspec.msgpack.encode(_Memory(engine=self._engine, files=self._used)))

    def _recall(self, path: str, oid: str) -> FileReading | None:
        raw = self._known.get(f"{oid} {path}")
        if raw is None:
            return None
        try:
            reading = _reading.decode(raw)
        except msgspec.MsgspecError:
            return None
        self._used[f"{oid} {path}"] = raw
        return reading

    def _learn(self, path: str, oid: str, raw: bytes) -> FileReading:
        reading = read(path, raw)
        found = [self._catalogue.validate(document) for document in reading.documents]
        learned = FileReading(
            path=path,
            oid=oid,
            documents=reading.documents,
            sound=tuple(map(_is_sound, reading.documents, found)),
            problems=(*reading.problems, *(problem for problems in found for problem in problems)),
        )
        try:
            self._used[f"{oid} {path}"] = msgspec.msgpack.encode(learned)
        except (OverflowError, ValueError):  # numbers beyond 64 bits: such a file is read each time
            self._used.pop(f"{oid} {path}", None)
        return learned


_memory = msgspec.msgpack.Decoder(_Memory)
_reading = msgspec.msgpack.Decoder(FileReading)


def _is_sound(document: Document, problems: Iterable[Problem]) -> bool:
    if any(problem.severity is Severity.ERROR for problem in problems):
        return False
    return document.kind != "TorchrunQueue" or queue_intent(document).intent is not None
