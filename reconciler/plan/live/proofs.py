"""Proofs: which live objects, in which version, are known to be as desired. They only save requests.

An object that has not changed since it was found equal, and whose desired content has not changed either, is equal.
"""

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from reconciler.plan import LiveVersion
from reconciler.repo.port import Cache

Proofs = Mapping[str, tuple[str, str, str]]
"""The blob id of the desired object, the UID and the resource version of the live one, by path."""

_decoder = msgspec.msgpack.Decoder(dict[str, tuple[str, str, str]])


def load_proofs(cache: Cache, server: str) -> Proofs:
    """Return the proofs of earlier runs."""
    raw = cache.get(_key(server))
    try:
        return _decoder.decode(raw) if raw else {}
    except msgspec.DecodeError:  # the server is asked again
        return {}


def save_proofs(cache: Cache, server: str, before: Proofs, proofs: Proofs) -> None:
    """Keep the proofs for the next run."""
    if proofs != before:
        cache.put(_key(server), msgspec.msgpack.encode(proofs))


def add_proofs(cache: Cache, server: str, proofs: Proofs) -> None:
    """Keep more proofs besides those of earlier runs."""
    before = load_proofs(cache, server)
    save_proofs(cache, server, before, {**before, **proofs})


def proof(blob: str, version: LiveVersion) -> tuple[str, str, str]:
    """Return the proof that a live object is as desired."""
    return (blob, version.uid, version.resource_version)


def _key(server: str) -> str:
    return f"live-objects-{blake2b(server.encode(), digest_size=16).hexdigest()}"
