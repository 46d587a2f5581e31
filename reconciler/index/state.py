"""What a plan remembers of all source files, so that the next one costs what changed."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.policy.verdict import Verdict
from reconciler.core.queues import QueueUsage
from reconciler.index.compiles import FILES, ROWS, Compiles, Forgotten, Heap, Whole
from reconciler.index.summary import FileState, digest, digests_of
from reconciler.ports import Cache
from reconciler.revision.layout import are_usual
from reconciler.revision.listing import Listing


class Counted(Struct, frozen=True):
    """What all files say together, as long as `facts` holds: verdicts between objects, and the GPUs of each queue.

    Those verdicts are apart that hold as long as `links` does.
    """

    facts: bytes
    verdicts: tuple[Verdict, ...]
    usage: dict[str, QueueUsage]
    links: bytes
    linked: tuple[Verdict, ...]


class State(Struct, frozen=True, kw_only=True):
    """All source files of a repository under one context, and what they say together, so that few are ever decoded.

    desired: blob ids by path below the rendered folder. Of two objects with one path the first counts.
    objects: how many there are: more than are desired, where two have one path.
    noted: findings, encoded, of the files that have some.
    defining: files that others depend on.
    facts, links: digests of those of all files, in order.
    usual: whether all names are in lower case and can be checked out anywhere.
    queues: digests of the queues by what files need.
    """

    files: Compiles = Compiles(Listing(), {}, Whole())
    desired: Listing = Listing()
    objects: int = 0
    noted: Mapping[str, bytes] = {}
    defining: frozenset[str] = frozenset()
    facts: bytes = b""
    links: bytes = b""
    usual: bool = True
    context: str = ""
    queues: Mapping[str, str] = {}

    def advanced(self, sources: Listing, fresh: Mapping[str, FileState]) -> "State":
        """Return the state of `sources`, of which these files have been compiled again."""
        stale = {*self.files.sources.differing(sources), *fresh}
        before = {path: held for path in stale if (held := self.files.get(path))}
        files = self.files.advanced(sources, fresh)
        after = {path: files[path] for path in stale if path in sources}
        objects = self.objects - _objects(before) + _objects(after)
        gone = dict.fromkeys(path for held in before.values() for path in held.paths)
        moved = {**gone, **digests_of(after[path] for path in sorted(after))}
        desired = self.desired.replaced(moved)
        if objects != len(desired) or self.objects != len(self.desired):
            desired = Listing.of(digests_of(files.values()))
        kept = [(held, after[path]) for path, held in before.items() if path in after]
        same = len(before) == len(after) == len(kept)
        noted = {path: held for path, held in self.noted.items() if path not in stale}
        return replace(
            self,
            files=files,
            desired=desired,
            objects=objects,
            noted=noted | {path: held.encoded_findings for path, held in after.items() if held.encoded_findings},
            defining=self.defining - stale | {path for path, held in after.items() if held.defines},
            facts=self.facts if same and all(was.facts == now.facts for was, now in kept) else digest(files.facts()),
            links=self.links if same and all(was.links == now.links for was, now in kept) else digest(files.links()),
            usual=self.usual and are_usual(path for path in after if path not in before),
        )

    @property
    def has_doubles(self) -> bool:
        """Whether two objects have one path."""
        return self.objects != len(self.desired)


def _objects(files: Mapping[str, FileState]) -> int:
    return sum(held.count for held in files.values())


class _Since(Struct, frozen=True, array_like=True):
    """What a state has other than the whole one of this stamp; empty findings and None: nothing is there."""

    stamp: bytes
    changed: dict[str, FileState]
    gone: list[str]
    desired: dict[str, str | None]
    objects: int
    noted: dict[str, bytes]
    defining: list[str]
    facts: bytes
    links: bytes
    usual: bool
    context: str
    queues: dict[str, str]


_encoder = msgspec.msgpack.Encoder()
_whole = msgspec.msgpack.Decoder(Whole)
_heap = msgspec.msgpack.Decoder(tuple[bytes, Heap])
_since = msgspec.msgpack.Decoder(_Since)
_counted = msgspec.msgpack.Decoder(Counted)


def load_state(cache: Cache, key: str) -> State:
    """Return what an earlier plan left behind; the empty state where there is nothing, or nothing readable."""
    parts = cache.get(f"whole:{key}"), cache.get(f"since:{key}")
    if parts[0] is None or parts[1] is None:
        return State()
    try:
        whole, since = _whole.decode(parts[0]), _since.decode(parts[1])
    except msgspec.MsgspecError:
        return State()
    if since.stamp != whole.stamp:  # another process has just written one of the two
        return State()
    oids = {path: held.oid for path, held in since.changed.items()}
    sources = Listing(whole.sources).replaced({**oids, **dict.fromkeys(since.gone)})
    return State(
        files=Compiles(sources, since.changed, whole, lambda name: _load_heap(cache, f"{name}:{key}", whole.stamp)),
        desired=Listing(whole.desired).replaced(since.desired),
        objects=since.objects,
        noted=since.noted,
        defining=frozenset(since.defining),
        facts=since.facts,
        links=since.links,
        usual=since.usual,
        context=since.context,
        queues=since.queues,
    )


def _load_heap(cache: Cache, key: str, stamp: bytes) -> Heap:
    raw = cache.get(key)
    try:
        held, heap = _heap.decode(raw) if raw else (b"", Heap())
    except msgspec.MsgspecError:
        raise Forgotten(key) from None
    if held != stamp:
        raise Forgotten(key)
    return heap


def save_state(cache: Cache, key: str, state: State) -> None:
    """Leave the state for the next plan: what differs from the whole one on disk or, where that is much, all."""
    files, whole = state.files, state.files.whole
    changed = files.changed
    if not whole.stamp or len(changed) > max(_FEW, len(files) // _FEW):
        try:
            whole, changed = _save_whole(cache, key, state), {}
        except Forgotten:
            return
    saved = Listing(whole.desired)
    since = _Since(
        stamp=whole.stamp,
        changed={**changed},
        gone=[path for path in Listing(whole.sources).differing(files.sources) if path not in files.sources],
        desired={path: state.desired.get(path) for path in saved.differing(state.desired)},
        objects=state.objects,
        noted={**state.noted},
        defining=sorted(state.defining),
        facts=state.facts,
        links=state.links,
        usual=state.usual,
        context=state.context,
        queues={**state.queues},
    )
    cache.put(f"since:{key}", _encoder.encode(since))


_FEW = 50
"""So many files, or one in so many, are written beside the whole state instead of writing that again."""


def _save_whole(cache: Cache, key: str, state: State) -> Whole:
    files, rows = state.files.packed()
    sources, desired = state.files.sources.text, state.desired.text
    stamp = digest(b"".join((sources.encode(), desired.encode(), files.data, rows.data)))
    columns = {"facts": state.files.facts(), "links": state.files.links()}
    whole = Whole(stamp=stamp, sources=sources, desired=desired, **columns)
    for name, heap in ((FILES, files), (ROWS, rows)):
        cache.put(f"{name}:{key}", _encoder.encode((stamp, heap)))
    cache.put(f"whole:{key}", _encoder.encode(whole))
    return whole


def load_counted(cache: Cache, key: str) -> Counted | None:
    """Return what was counted the last time."""
    raw = cache.get(f"counted:{key}")
    try:
        return _counted.decode(raw) if raw else None
    except msgspec.MsgspecError:
        return None


def save_counted(cache: Cache, key: str, counted: Counted) -> None:
    """Leave what was counted for the next plan."""
    cache.put(f"counted:{key}", _encoder.encode(counted))
