"""The few files that all others are compiled against, parsed: definitions, policies, evidence. Cached by blob id.

Parsing the evidence about 5,000 nodes takes a second, and a plan that changes one job must not wait for it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import chain

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.aspects import Dependents, Holds
from reconciler.kinds.kind import Kinds
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.schemas import Catalogue
from reconciler.kube.secrets import holds_secret, mask_findings, secret_leaves
from reconciler.kube.yaml import Document, read_written
from reconciler.repo.port import Cache

ReadFiles = Callable[[list[str]], Iterable[bytes]]
"""Returns the contents of files by path."""


class ParsedFile(Struct, frozen=True, array_like=True):
    """A file's documents, whether each is valid, a digest of each, and the problems of the reader and the schemas.

    In the cache the documents have no text: it is in `text` once.
    """

    path: str
    oid: str
    text: bytes
    documents: tuple[Document, ...]
    is_valid: tuple[bool, ...]
    digests: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def valid(self) -> tuple[Document, ...]:
        """The valid documents."""
        return tuple(document for document, valid in zip(self.documents, self.is_valid, strict=True) if valid)


class CachedParser:
    """Parses files, or takes them from `known`, where the same engine has parsed them before.

    `used` holds all that were asked for, encoded, for the next run.
    """

    def __init__(self, known: Mapping[str, bytes], kinds: Kinds, catalogue: Catalogue) -> None:
        self._known, self._kinds, self._catalogue = known, kinds, catalogue
        self.used: dict[str, bytes] = {}

    def parse(self, files: Sequence[tuple[str, str]], read_files: ReadFiles) -> tuple[ParsedFile, ...]:
        """Return files, given by path and blob id; `read_files` is called for those that are not cached."""
        parsed = {file: cached for file in files if (cached := self._load(*file))}
        missing = [file for file in files if file not in parsed]
        if missing:
            for file, raw in zip(missing, read_files([path for path, _ in missing]), strict=True):
                parsed[file] = self._parse(*file, raw)
        return tuple(parsed[file] for file in files)

    def _load(self, path: str, oid: str) -> ParsedFile | None:
        key = f"{oid} {path}"
        raw = self.used.get(key) or self._known.get(key)
        if raw is None:
            return None
        try:
            file = _decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # it is parsed again
            return None
        self.used[key] = raw
        documents = tuple(replace(document, text=file.text) for document in file.documents)
        return replace(file, documents=documents)

    def _parse(self, path: str, oid: str, raw: bytes) -> ParsedFile:
        reading = read_written(path, raw)
        bodies = [document.data for document in reading.documents]
        problems = [self._catalogue.validate(document) for document in reading.documents]
        file = ParsedFile(
            path=path,
            oid=oid,
            text=raw,
            documents=reading.documents,
            is_valid=tuple(map(self._is_valid, reading.documents, problems)),
            digests=digest_documents(reading.documents, raw),
            problems=mask_findings((*reading.problems, *chain.from_iterable(problems)), bodies),
        )
        if reading.problems or self._has_secrets(reading.documents) or holds_secret(raw.decode("utf-8", "replace")):
            return file  # the text may hold a secret, also in a part that could not be read: it stays in the repository
        bare = tuple(replace(document, text=b"") for document in file.documents)
        try:
            self.used[f"{oid} {path}"] = msgspec.msgpack.encode(replace(file, documents=bare))
        except (OverflowError, ValueError):  # numbers over 64 bits: parse such a file each time
            self.used.pop(f"{oid} {path}", None)
        return file

    def _has_secrets(self, documents: Iterable[Document]) -> bool:
        return any(
            self._kinds.find(document.group, document.kind).holds is Holds.SECRETS or any(secret_leaves(document.data))
            for document in documents
        )

    def _is_valid(self, document: Document, problems: Iterable[Problem]) -> bool:
        if any(problem.severity is Severity.ERROR for problem in problems):
            return False
        row = self._kinds.find(document.group, document.kind)
        if row.source.dependents is not Dependents.NAMED or row.source.parse is None:
            return True
        return row.source.parse(document).intent is not None


_decoder = msgspec.msgpack.Decoder(ParsedFile)
_mapping = msgspec.msgpack.Decoder(dict[str, bytes])


def digest_documents(documents: Sequence[Document], text: bytes) -> tuple[str, ...]:
    """Digest each document with its places: its data, and the lines from its first key to the next document."""
    lines = text.splitlines(keepends=True)
    starts = [document.source.line for document in documents]
    whole = sha256(text).digest()
    digests = []
    for document, start, end in zip(documents, starts, [*starts[1:], len(lines) + 1], strict=False):
        own = b"".join(lines[start - 1 : end - 1]) if 0 < start < end else whole
        place = (document.source, document.index, document.root, document.data)
        digests.append(sha256(repr(place).encode("utf-8", "surrogatepass") + own).hexdigest())
    return tuple(digests)


def load_mapping(cache: Cache, key: str) -> dict[str, bytes]:
    """Load values by name that are cached under one key; empty if they are missing or unreadable."""
    raw = cache.get(key)
    try:
        return _mapping.decode(raw) if raw else {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def save_mapping(cache: Cache, key: str, known: dict[str, bytes], new: dict[str, bytes]) -> None:
    """Add values to those that are cached under one key."""
    if new:
        cache.put(key, msgspec.msgpack.encode({**known, **new}))
