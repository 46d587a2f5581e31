"""What one source file says once it is compiled: all that is remembered of it, and all that workers send back."""

from collections.abc import Iterable
from hashlib import blake2b
from operator import attrgetter

import msgspec
from msgspec import Struct

from reconciler.core.policy.verdict import Verdict
from reconciler.core.problems import Problem
from reconciler.core.summary import ObjectSummary
from reconciler.index.compile import Compiled


class Findings(Struct, frozen=True, array_like=True):
    """What is wrong with one file, and the paths of its jobs that wait for an answer; most have nothing."""

    problems: tuple[Problem, ...]
    verdicts: tuple[Verdict, ...]
    held: tuple[str, ...] = ()


class FileState(Struct, frozen=True, array_like=True):
    """One source file as it was compiled, without its manifests: enough for everything but the differences.

    Rows and findings stay encoded until somebody asks, because most are never asked for. `facts` is a digest of all
    that rows tell besides blob ids: as long as no file's facts change, all that is counted over files is the same.
    `links` is one of who the objects are, where they stand and what they refer to: no GPU changes it.
    """

    oid: str
    defines: bool  # other files depend on it
    needs: str  # names of the queues that it depends on
    facts: bytes
    links: bytes
    written: str  # paths below the rendered folder and blob ids, alternating
    encoded_rows: bytes
    encoded_findings: bytes  # empty: none

    @property
    def findings(self) -> Findings:
        """Problems and verdicts."""
        return decode_findings(self.encoded_findings) if self.encoded_findings else _NONE

    @property
    def paths(self) -> list[str]:
        """Paths below the rendered folder."""
        return self.written.split(SEPARATOR)[::2] if self.written else []

    @property
    def count(self) -> int:
        """How many objects it renders."""
        return (self.written.count(SEPARATOR) + 1) // 2 if self.written else 0


SEPARATOR = "\0"
"""In no name of Kubernetes, and in no path."""

_LINKED = ("cluster", "group", "kind", "namespace", "name", "path", "source", "line", "column", "references")
_LINKS = attrgetter(*_LINKED)
_AMOUNTS = attrgetter(*(name for name in ObjectSummary.__struct_fields__ if name not in {*_LINKED, "digest"}))
_NONE = Findings(problems=(), verdicts=())
DIGEST_BYTES = 16
"""Length of a digest of facts."""

_encoder = msgspec.msgpack.Encoder()
_file = msgspec.msgpack.Decoder(FileState)
_findings = msgspec.msgpack.Decoder(Findings)


class Sent(Struct, frozen=True, array_like=True):
    """What a worker sends back of a source file: its state, and the bytes of those objects that will be written."""

    file: FileState
    contents: dict[str, bytes]


_sent = msgspec.msgpack.Decoder(Sent)


def summarise(compiled: Compiled, *, oid: str, defines: bool) -> FileState:
    """Drop the manifests."""
    rows = [rendering.row for rendering in compiled.renderings]
    findings = Findings(problems=compiled.problems, verdicts=compiled.verdicts, held=compiled.held)
    links = _encoder.encode([_LINKS(row) for row in rows])
    return FileState(
        oid=oid,
        defines=defines,
        needs=SEPARATOR.join(compiled.needs),
        facts=digest(links + _encoder.encode([_AMOUNTS(row) for row in rows])),
        links=digest(links),
        written=SEPARATOR.join([part for row in rows for part in (row.path, row.digest)]),
        encoded_rows=_encoder.encode(rows),
        encoded_findings=_encoder.encode(findings) if findings != _NONE else b"",
    )


def send(sent: Sent) -> bytes:
    """Encode for the way from a worker to the parent."""
    return _encoder.encode(sent)


def receive(raw: bytes) -> Sent:
    """Read what a worker sent."""
    return _sent.decode(raw)


def decode_file(raw: bytes | memoryview) -> FileState:
    """Read what was remembered."""
    return _file.decode(raw)


def digests_of(files: Iterable[FileState]) -> dict[str, str]:
    """Return blob ids by path below the rendered folder. Of two objects with one path the first counts."""
    written = [held.written for held in files if held.written]
    if not written:
        return {}
    parts = SEPARATOR.join(written).split(SEPARATOR)
    parts.reverse()  # now ids come before paths, and what is set last was first
    return dict(zip(parts[1::2], parts[::2], strict=True))


def decode_findings(raw: bytes) -> Findings:
    """Read the findings of a file that has some."""
    return _findings.decode(raw)


def digest(data: bytes) -> bytes:
    """Return a digest that is short, because there is one for each file."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
