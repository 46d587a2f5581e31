"""The store: the records of the last index, on disk. Safe to delete, to damage and to replace at any time.

It is cut into segments by source path, each of them one value of the cache, which checks its digest. A segment is
valid by itself: a record counts if its blob id and the digest of its dependencies are those of now. So a missing,
damaged or concurrently replaced segment costs a compilation, and a change rewrites one segment.
"""

from collections.abc import Mapping
from typing import TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct

from reconciler.index.records import FileRecord
from reconciler.index.totals import Totals
from reconciler.ports import Cache

SEGMENTS = 16


class Segment(Struct, frozen=True, array_like=True):
    """Records by source path, and the digest that each of their dependency sets had."""

    records: dict[str, FileRecord] = {}
    digests: dict[bytes, str] = {}


class Store(Struct, frozen=True, kw_only=True):
    """What an earlier run of the same engine saved about the repository.

    parsed: encoded files of `index.parsed`. totals: the last verdicts over all objects.
    """

    segments: tuple[Segment, ...] = (Segment(),) * SEGMENTS
    parsed: dict[str, bytes] = {}
    totals: Totals | None = None

    def record(self, path: str) -> FileRecord | None:
        """Return the record of a file, whatever it is worth now."""
        return self.segments[_number(path)].records.get(path)

    def digest(self, path: str, dependencies: bytes) -> str:
        """Return the digest that the dependencies of a file had."""
        return self.segments[_number(path)].digests.get(dependencies, "")


_encoder = msgspec.msgpack.Encoder()
_segment = msgspec.msgpack.Decoder(Segment)
_parsed = msgspec.msgpack.Decoder(dict[str, bytes])
_totals = msgspec.msgpack.Decoder(Totals)
_Value = TypeVar("_Value")


def _number(path: str) -> int:
    return crc32(path.encode()) % SEGMENTS


def load_store(cache: Cache, key: str) -> Store:
    """Load what an earlier run saved under `key`. What is missing or unreadable is empty."""
    return Store(
        segments=tuple(_load(cache, f"{key}:{number}", _segment) or Segment() for number in range(SEGMENTS)),
        parsed=_load(cache, f"{key}:parsed", _parsed) or {},
        totals=_load(cache, f"{key}:totals", _totals),
    )


def _load(cache: Cache, key: str, decoder: msgspec.msgpack.Decoder[_Value]) -> _Value | None:
    raw = cache.get(key)
    try:
        return decoder.decode(raw) if raw else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def make_segments(records: Mapping[str, FileRecord], digests: Mapping[bytes, str]) -> tuple[Segment, ...]:
    """Cut records into segments, each with the digests of its dependency sets."""
    split: list[dict[str, FileRecord]] = [{} for _ in range(SEGMENTS)]
    for path, record in records.items():
        split[_number(path)][path] = record
    return tuple(
        Segment(own, {used: digests[used] for used in {record.dependencies: None for record in own.values()}})
        for own in split
    )


def save_store(cache: Cache, key: str, before: Store, after: Store) -> None:
    """Save what differs from `before`."""
    for number, (old, new) in enumerate(zip(before.segments, after.segments, strict=True)):
        if old != new:
            cache.put(f"{key}:{number}", _encoder.encode(new))
    if before.parsed.keys() != after.parsed.keys():
        cache.put(f"{key}:parsed", _encoder.encode(after.parsed))
    if after.totals is not None and before.totals != after.totals:
        cache.put(f"{key}:totals", _encoder.encode(after.totals))
