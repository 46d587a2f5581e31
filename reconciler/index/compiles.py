"""Source files as they were compiled, most of which stay encoded: nobody asks for what did not change."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import cached_property, partial
from itertools import accumulate

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.summary import ObjectSummary
from reconciler.index.summary import DIGEST_BYTES, FileState, decode_file
from reconciler.revision.listing import Listing


class Forgotten(LookupError):
    """What was there when a run began is no longer: another process has written a newer memory, or deleted all."""


class Heap(Struct, frozen=True, array_like=True):
    """Encoded values one after the other; `ends` tells of each its end. Reading it makes no objects, and no copy."""

    ends: bytes = b""
    data: memoryview = memoryview(b"")

    @classmethod
    def of(cls, values: Sequence[bytes | memoryview]) -> "Heap":
        """Put encoded values together."""
        return cls(array("I", accumulate(map(len, values))).tobytes(), memoryview(b"".join(values)))

    def __getitem__(self, position: int) -> memoryview:
        """Cut out one value."""
        ends = memoryview(self.ends).cast("I")
        return self.data[ends[position - 1] if position else 0 : ends[position]]

    def between(self, begin: int, end: int) -> memoryview:
        """Cut out the values from one position up to another."""
        ends = memoryview(self.ends).cast("I")
        return self.data[ends[begin - 1] if begin else 0 : ends[end - 1] if end else 0]

    def holding(self, wanted: bytes) -> Iterator[int]:
        """Find the values that hold these bytes anywhere."""
        ends = memoryview(self.ends).cast("I")
        data = bytes(self.data)
        at = data.find(wanted)
        while at >= 0:
            position = bisect_right(ends, at)
            yield position
            at = data.find(wanted, ends[position])


class Whole(Struct, frozen=True, array_like=True):
    """A whole memory as it lies on disk, but for two heaps: the files of `sources`, and their rows.

    `facts` and `links` hold those of every file, one after the other.
    """

    stamp: bytes = b""
    sources: str = ""
    desired: str = ""
    facts: bytes = b""
    links: bytes = b""


class Compiles(Mapping[str, FileState]):
    """Source files as they were compiled: those that changed since, over a whole memory, most of which stays encoded.

    Its heaps are read when somebody asks for a file that did not change; `Forgotten` where they are gone.
    """

    def __init__(
        self,
        sources: Listing,
        changed: Mapping[str, FileState],
        whole: Whole,
        read_heap: Callable[[str], Heap] = lambda _: Heap(),
    ) -> None:
        self.sources = sources
        self.changed = changed
        self.whole = whole
        self._saved = Listing(whole.sources)
        self._read_heap = read_heap

    def __getitem__(self, path: str) -> FileState:
        """Return one file, without its rows."""
        if path in self.changed:
            return self.changed[path]
        if path not in self.sources:
            raise KeyError(path)
        return decode_file(self._files[self._saved.position(path)])

    def __iter__(self) -> Iterator[str]:
        """Yield the paths, sorted."""
        return iter(self._all)

    def __len__(self) -> int:
        """Count the files."""
        return len(self.sources)

    def items(self) -> ItemsView[str, FileState]:
        """Decode all files, in the order of their paths."""
        return self._all.items()

    def values(self) -> ValuesView[FileState]:
        """Decode all files, in the order of their paths."""
        return self._all.values()

    @cached_property
    def _all(self) -> dict[str, FileState]:
        at = self._positions
        return {path: self.changed.get(path) or decode_file(self._files[at[path]]) for path in self.sources}

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {path: position for position, path in enumerate(self._saved)}

    @cached_property
    def _files(self) -> Heap:
        return self._read_heap(FILES)

    @cached_property
    def _rows(self) -> Heap:
        return self._read_heap(ROWS)

    def rows(self, path: str) -> tuple[ObjectSummary, ...]:
        """Return a row for each object that a file renders."""
        return _rows.decode(self._encoded_rows(path, self._saved.position))

    def all_rows(self) -> list[tuple[ObjectSummary, ...]]:
        """Return the rows of every file: decoded as the one array that they are, once it has a head."""
        head = _ARRAY + len(self.sources).to_bytes(4, "big")
        return _all_rows.decode(self._column(self._rows.between, lambda held: held.encoded_rows, head))

    def facts(self) -> bytes:
        """Return the facts of every file, one after the other."""
        return self._column(_digests(self.whole.facts), lambda held: held.facts)

    def links(self) -> bytes:
        """Return the links of every file, one after the other."""
        return self._column(_digests(self.whole.links), lambda held: held.links)

    def _column(
        self, saved: Callable[[int, int], bytes | memoryview], own: Callable[[FileState], bytes], head: bytes = b""
    ) -> bytes:
        """Put together what was saved of unchanged files, given from one position up to another, and of the others."""
        altered = sorted({*self._saved.differing(self.sources), *self.changed})
        place = self._saved.position if len(altered) <= _FEW else partial(bisect_left, list(self._saved))
        pieces: list[bytes | memoryview] = [head]
        done = 0
        for path in altered:
            at = place(path)
            pieces.append(saved(done, at))
            if path in self.changed:
                pieces.append(own(self.changed[path]))
            done = at + (path in self._saved)
        return b"".join([*pieces, saved(done, len(self._saved))])

    def _encoded_rows(self, path: str, position: Callable[[str], int]) -> bytes | memoryview:
        held = self.changed.get(path)
        return self._rows[position(path)] if held is None else held.encoded_rows

    def packed(self) -> tuple[Heap, Heap]:
        """Put all files together, and their rows."""
        at = self._positions
        rows = [self._encoded_rows(path, at.__getitem__) for path in self.sources]
        return Heap.of([self._packed(path, at) for path in self.sources]), Heap.of(rows)

    def _packed(self, path: str, at: Mapping[str, int]) -> bytes | memoryview:
        held = self.changed.get(path)
        return self._files[at[path]] if held is None else _encoder.encode(replace(held, encoded_rows=b""))

    def advanced(self, sources: Listing, fresh: Mapping[str, FileState]) -> "Compiles":
        """Return the files of `sources`, of which these have been compiled again."""
        changed = {path: held for path, held in {**self.changed, **fresh}.items() if path in sources}
        return Compiles(sources, changed, self.whole, self._read_heap)

    def origin(self, rendered: str) -> str | None:
        """Return the source file of a rendered path that no two files render."""
        for path, held in self.changed.items():
            if rendered in held.paths:
                return path
        paths = list(self._saved)
        for position in self._files.holding(rendered.encode()):
            path = paths[position]
            if path not in self.changed and path in self.sources and rendered in self[path].paths:
                return path
        return None


def _digests(saved: bytes) -> Callable[[int, int], bytes]:
    return lambda begin, end: saved[begin * DIGEST_BYTES : end * DIGEST_BYTES]


FILES, ROWS = "files", "rows"
"""The heaps of a whole memory: `FileState` without rows, and rows."""

_encoder = msgspec.msgpack.Encoder()
_rows = msgspec.msgpack.Decoder(tuple[ObjectSummary, ...])
_all_rows = msgspec.msgpack.Decoder(list[tuple[ObjectSummary, ...]])
_ARRAY = b"\xdd"  # array 32 of MessagePack: four bytes for the length, then the values
_FEW = 20
"""So many places are searched one by one."""
