"""Small things by name, kept together from run to run."""

from collections.abc import Mapping

import msgspec

from reconciler.ports import Cache


class Kept:
    """What was kept under one key of the cache; nothing where there is nothing, or nothing readable."""

    def __init__(self, cache: Cache, key: str) -> None:
        self._cache, self._key = cache, key
        raw = cache.get(key)
        try:
            self.known: Mapping[str, bytes] = _decoder.decode(raw) if raw else {}
        except msgspec.MsgspecError:
            self.known = {}

    def keep(self, new: Mapping[str, bytes]) -> None:
        """Keep these too."""
        if new:
            self._cache.put(self._key, msgspec.msgpack.encode({**self.known, **new}))


_decoder = msgspec.msgpack.Decoder(dict[str, bytes])
