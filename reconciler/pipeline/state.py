"""What a plan remembers of every source file, by path and blob id, so that the next one costs what changed."""

import msgspec

from reconciler.core.census import Row
from reconciler.core.policy.verdict import Verdict
from reconciler.core.problems import Problem
from reconciler.ports import Cache


class Summary(msgspec.Struct, frozen=True, array_like=True):
    """A compiled file without its manifests: enough for everything but the differences."""

    rows: tuple[Row, ...] = ()
    problems: tuple[Problem, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    needs: tuple[str, ...] = ()
    documents: int = 0


class FileState(msgspec.Struct, frozen=True, array_like=True):
    """One source file: its blob id, whether other files depend on it, and its summary under `queues`' digest."""

    oid: str
    defines: bool
    queues: str
    summary: Summary


class State(msgspec.Struct, frozen=True):
    """All source files of one repository under one context."""

    context: str
    files: dict[str, FileState]


_decoder = msgspec.msgpack.Decoder(State)
summary_decoder = msgspec.msgpack.Decoder(Summary)
_encoder = msgspec.msgpack.Encoder()


def load_state(cache: Cache, key: str) -> State:
    """Return what an earlier plan left behind; the empty state where there is nothing, or nothing readable."""
    raw = cache.get(key)
    if raw is None:
        return State(context="", files={})
    try:
        return _decoder.decode(raw)
    except msgspec.MsgspecError:
        return State(context="", files={})


def save_state(cache: Cache, key: str, state: State) -> None:
    """Leave the state for the next plan."""
    cache.put(key, _encoder.encode(state))


def encode_summary(summary: Summary) -> bytes:
    """Encode for the way from a worker to the parent."""
    return _encoder.encode(summary)
