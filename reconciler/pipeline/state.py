"""What a plan remembers of every source file, by path and blob id, so that the next one costs what changed."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.census import Row
from reconciler.core.census.ledger import Ledger
from reconciler.core.policy.verdict import Verdict
from reconciler.core.problems import Problem
from reconciler.pipeline.compile import Compiled
from reconciler.ports import Cache


class Findings(Struct, frozen=True, array_like=True):
    """What is wrong with one file; most have nothing."""

    problems: tuple[Problem, ...]
    verdicts: tuple[Verdict, ...]


class FileState(Struct, frozen=True, array_like=True):
    """One source file as it was compiled, without its manifests: enough for everything but the differences.

    Rows and findings stay encoded until somebody asks, because most are never asked for. `facts` is a digest of all
    that rows tell besides blob ids: as long as no file's facts change, all that is counted over files is the same.
    """

    oid: str
    defines: bool  # other files depend on it
    needs: str  # names of the queues that it depends on
    facts: bytes
    written: str  # paths below the rendered folder and blob ids, alternating
    encoded_rows: bytes
    encoded_findings: bytes  # empty: none

    @property
    def rows(self) -> tuple[Row, ...]:
        """A row for each rendered object."""
        return _rows.decode(self.encoded_rows)

    @property
    def findings(self) -> Findings:
        """Problems and verdicts."""
        return _findings.decode(self.encoded_findings) if self.encoded_findings else _NONE

    @property
    def paths(self) -> list[str]:
        """Paths below the rendered folder."""
        return self.written.split(SEPARATOR)[::2] if self.written else []

    @property
    def count(self) -> int:
        """How many objects it renders."""
        return (self.written.count(SEPARATOR) + 1) // 2 if self.written else 0


class Counted(Struct, frozen=True):
    """What all files say together, as long as `facts` holds: verdicts between objects, and the GPUs of each queue."""

    facts: bytes
    verdicts: tuple[Verdict, ...]
    ledgers: dict[str, Ledger]


class State(Struct, frozen=True):
    """All source files of one repository under one context; `queues` digests the queues by what files need.

    `saved` are the files of the last whole state on disk, under `stamp`: the next plan only writes what differs.
    """

    context: str
    files: dict[str, FileState]
    queues: dict[str, str] = {}
    counted: Counted | None = None
    saved: dict[str, FileState] = {}
    stamp: bytes = b""


class _Whole(Struct, frozen=True, array_like=True):
    """The files of a state in columns, named as the fields of `FileState`: a fraction of the objects to decode."""

    stamp: bytes
    paths: list[str]
    oid: list[str]
    defines: list[bool]
    needs: list[str]
    facts: list[bytes]
    written: list[str]
    encoded_rows: list[bytes]
    encoded_findings: list[bytes]

    @property
    def files(self) -> dict[str, FileState]:
        columns = (getattr(self, name) for name in FileState.__struct_fields__)
        return dict(zip(self.paths, map(FileState, *columns), strict=True))


class _Since(Struct, frozen=True, array_like=True):
    """What a state has other than the whole one of this stamp."""

    stamp: bytes
    context: str
    changed: dict[str, FileState]
    gone: list[str]
    queues: dict[str, str]
    counted: Counted | None


SEPARATOR = "\0"
"""In no name of Kubernetes, and in no path."""

_NONE = Findings(problems=(), verdicts=())
_EMPTY = State(context="", files={})
_FACTS_BYTES = 16
_encoder = msgspec.msgpack.Encoder()
_whole = msgspec.msgpack.Decoder(_Whole)
_since = msgspec.msgpack.Decoder(_Since)
_file = msgspec.msgpack.Decoder(FileState)
_rows = msgspec.msgpack.Decoder(tuple[Row, ...])
_findings = msgspec.msgpack.Decoder(Findings)


def load_state(cache: Cache, key: str) -> State:
    """Return what an earlier plan left behind; the empty state where there is nothing, or nothing readable."""
    parts = cache.get(f"files:{key}"), cache.get(f"since:{key}")
    if parts[0] is None or parts[1] is None:
        return _EMPTY
    try:
        whole, since = _whole.decode(parts[0]), _since.decode(parts[1])
        saved = whole.files
    except (msgspec.MsgspecError, ValueError):
        return _EMPTY
    if since.stamp != whole.stamp:  # another process has just written one of the two
        return _EMPTY
    files = {**saved, **since.changed}
    for path in since.gone:
        files.pop(path, None)
    return State(
        context=since.context,
        files=files,
        queues=since.queues,
        counted=since.counted,
        saved=saved,
        stamp=whole.stamp,
    )


def save_state(cache: Cache, key: str, state: State) -> None:
    """Leave the state for the next plan: what differs from the whole one on disk or, where that is much, all."""
    saved, stamp = state.saved, state.stamp
    changed = {path: held for path, held in state.files.items() if saved.get(path) is not held}
    if not saved or len(changed) > max(_FEW, len(saved) // _FEW):
        fields = FileState.__struct_fields__
        columns = {name: [getattr(held, name) for held in state.files.values()] for name in fields}
        content = _encoder.encode(([*state.files], columns))
        stamp = _digest(content)
        cache.put(f"files:{key}", _encoder.encode(_Whole(stamp=stamp, paths=[*state.files], **columns)))
        saved, changed = state.files, {}
    since = _Since(
        stamp=stamp,
        context=state.context,
        changed=changed,
        gone=[path for path in saved if path not in state.files],
        queues=state.queues,
        counted=state.counted,
    )
    cache.put(f"since:{key}", _encoder.encode(since))


_FEW = 50
"""So many files, or one in so many, are written beside the whole state instead of writing that again."""


def summarise(compiled: Compiled, *, oid: str, defines: bool) -> bytes:
    """Drop the manifests, and encode for the way from a worker to the parent."""
    rows = [rendering.row for rendering in compiled.renderings]
    findings = Findings(problems=compiled.problems, verdicts=compiled.verdicts)
    return _encoder.encode(
        FileState(
            oid=oid,
            defines=defines,
            needs=SEPARATOR.join(compiled.needs),
            facts=_digest(_encoder.encode([replace(row, digest="") for row in rows])),
            written=SEPARATOR.join([part for row in rows for part in (row.path, row.digest)]),
            encoded_rows=_encoder.encode(rows),
            encoded_findings=_encoder.encode(findings) if findings != _NONE else b"",
        )
    )


def decode_file(raw: bytes) -> FileState:
    """Read what a worker sent."""
    return _file.decode(raw)


def digests_of(files: Iterable[FileState]) -> dict[str, str]:
    """Return blob ids by path below the rendered folder. Of two objects with one path the first counts."""
    written = [held.written for held in files if held.written]
    if not written:
        return {}
    parts = SEPARATOR.join(written).split(SEPARATOR)
    parts.reverse()  # now ids come before paths, and what is set last was first
    return dict(zip(parts[1::2], parts[::2], strict=True))


def facts_of(context: str, files: Mapping[str, FileState]) -> bytes:
    """Digest everything that is counted and judged over all files: their facts, in order, under one context."""
    return _digest(b"".join((context.encode(), *(held.facts for held in files.values()))))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_FACTS_BYTES).digest()
