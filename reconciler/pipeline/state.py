"""What a plan remembers of every source file, by path and blob id, so that the next one costs what changed."""

from collections.abc import Mapping
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


class Summary(Struct, frozen=True, array_like=True):
    """A compiled file without its manifests: enough for everything but the differences.

    Rows and findings stay encoded until somebody asks, because most are never asked for. `facts` is a digest of all
    that rows tell besides blob ids: as long as no file's facts change, all that is counted over files is the same.
    """

    written: tuple[tuple[str, str], ...]  # path below the rendered folder, blob id
    needs: tuple[str, ...]
    facts: bytes
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


class FileState(Struct, frozen=True, array_like=True):
    """One source file: its blob id, whether other files depend on it, and its summary under `queues`' digest."""

    oid: str
    defines: bool
    queues: str
    summary: Summary


class Counted(Struct, frozen=True):
    """What all files say together, as long as `facts` holds: verdicts between objects, and the GPUs of each queue."""

    facts: bytes
    verdicts: tuple[Verdict, ...]
    ledgers: dict[str, Ledger]


class State(Struct, frozen=True):
    """All source files of one repository under one context."""

    context: str
    files: dict[str, FileState]
    counted: Counted | None = None


_NONE = Findings(problems=(), verdicts=())
_EMPTY = State(context="", files={})
_FACTS_BYTES = 16
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(State)
_summary = msgspec.msgpack.Decoder(Summary)
_rows = msgspec.msgpack.Decoder(tuple[Row, ...])
_findings = msgspec.msgpack.Decoder(Findings)


def load_state(cache: Cache, key: str) -> State:
    """Return what an earlier plan left behind; the empty state where there is nothing, or nothing readable."""
    raw = cache.get(key)
    if raw is None:
        return _EMPTY
    try:
        return _decoder.decode(raw)
    except msgspec.MsgspecError:
        return _EMPTY


def save_state(cache: Cache, key: str, state: State) -> None:
    """Leave the state for the next plan."""
    cache.put(key, _encoder.encode(state))


def summarise(compiled: Compiled) -> bytes:
    """Drop the manifests, and encode for the way from a worker to the parent."""
    rows = [rendering.row for rendering in compiled.renderings]
    findings = Findings(problems=compiled.problems, verdicts=compiled.verdicts)
    summary = Summary(
        written=tuple((row.path, row.digest) for row in rows),
        needs=compiled.needs,
        facts=_digest(_encoder.encode([replace(row, digest="") for row in rows])),
        encoded_rows=_encoder.encode(rows),
        encoded_findings=_encoder.encode(findings) if findings != _NONE else b"",
    )
    return _encoder.encode(summary)


def decode_summary(raw: bytes) -> Summary:
    """Read what a worker sent."""
    return _summary.decode(raw)


def facts_of(context: str, files: Mapping[str, FileState]) -> bytes:
    """Digest everything that is counted and judged over all files: their facts, in order, under one context."""
    return _digest(b"".join((context.encode(), *(held.summary.facts for held in files.values()))))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_FACTS_BYTES).digest()
