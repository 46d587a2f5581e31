"""The store: the records of the last index, on disk. Safe to delete, to damage and to replace at any time.

Records are cut into segments by source path, each of them one value of the cache, which checks its digest. A segment
is valid on its own: a record counts if its blob id and the digest of its dependencies are those of now. So a missing,
damaged or concurrently replaced segment costs a compilation, and a change rewrites one segment.
"""

from collections.abc import Mapping
from typing import TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct

from reconciler.index.records import FileRecord
from reconciler.policy.verdict import Verdict
from reconciler.queues.queues import QueueUsage
from reconciler.repo.port import Cache

SEGMENTS = 16
_Value = TypeVar("_Value")


class Segment(Struct, frozen=True, array_like=True):
    """Records by source path, and the digest that each of their dependency sets had."""

    records: dict[str, FileRecord] = {}
    digests: dict[bytes, str] = {}


class ObjectTotals(Struct, frozen=True, kw_only=True):
    """The totals of the objects of all files: verdicts of the rules over them, and the GPUs of every queue.

    links_digest, amounts_digest: of what the verdicts were computed from. usage: by cluster.
    """

    links_digest: bytes
    links: tuple[Verdict, ...]
    amounts_digest: bytes
    amounts: tuple[Verdict, ...]
    usage: dict[str, QueueUsage]


class Store(Struct, frozen=True, kw_only=True):
    """The records that an earlier run of the same engine saved about the repository.

    records, digests: those of all segments. Where segments disagree on a digest, it is empty: nothing is worth it.
    parsed: encoded files of `index.parsed`. totals: the last verdicts over all objects.
    """

    records: Mapping[str, FileRecord] = {}
    digests: Mapping[bytes, str] = {}
    parsed: dict[str, bytes] = {}
    totals: ObjectTotals | None = None


def load_store(cache: Cache, key: str) -> Store:
    """Load what an earlier run saved under `key`. A missing or unreadable part is empty."""
    records: dict[str, FileRecord] = {}
    digests: dict[bytes, str] = {}
    for number in range(SEGMENTS):
        segment = _load(cache, f"{key}:{number}", _segment) or Segment()
        records.update(segment.records)
        for dependencies, digest in segment.digests.items():
            digests[dependencies] = digest if digests.get(dependencies, digest) == digest else ""
    return Store(
        records=records,
        digests=digests,
        parsed=_load(cache, f"{key}:parsed", _parsed) or {},
        totals=_load(cache, f"{key}:totals", _totals),
    )


def save_store(cache: Cache, key: str, before: Store, after: Store) -> None:
    """Save the segments, parsed files and totals that differ from `before`."""
    old, new = before.records, after.records
    changed: set[str] = set()
    if old is not new and old != new:
        changed.update(path for path, record in new.items() if old.get(path) is not record)
        changed.update(old.keys() - new.keys())
    stale = {
        dependencies for dependencies, digest in after.digests.items() if before.digests.get(dependencies) != digest
    }
    if stale:
        changed.update(path for path, record in new.items() if record.dependencies in stale)
    numbers = {_number(path) for path in changed}
    segments: dict[int, dict[str, FileRecord]] = {number: {} for number in sorted(numbers)}
    if numbers:
        for path, record in new.items():
            if (number := _number(path)) in segments:
                segments[number][path] = record
    for number, records in segments.items():
        used = {record.dependencies: after.digests[record.dependencies] for record in records.values()}
        cache.put(f"{key}:{number}", _encoder.encode(Segment(records, used)))
    if not after.parsed.keys() <= before.parsed.keys():
        cache.put(f"{key}:parsed", _encoder.encode(after.parsed))
    if after.totals is not None and before.totals is not after.totals:
        cache.put(f"{key}:totals", _encoder.encode(after.totals))


def _load(cache: Cache, key: str, decoder: msgspec.msgpack.Decoder[_Value]) -> _Value | None:
    raw = cache.get(key)
    try:
        return decoder.decode(raw) if raw else None
    except (msgspec.MsgspecError, UnicodeDecodeError):  # it is computed again
        return None


def _number(path: str) -> int:
    return crc32(path.encode()) % SEGMENTS


_encoder = msgspec.msgpack.Encoder()
_segment = msgspec.msgpack.Decoder(Segment)
_parsed = msgspec.msgpack.Decoder(dict[str, bytes])
_totals = msgspec.msgpack.Decoder(ObjectTotals)
