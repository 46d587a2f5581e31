"""Programs by the parts they are composed of. Those that an earlier run has left are neither read nor parsed again."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

from reconciler.core.policy.cel import runtime
from reconciler.core.policy.cel.program import Part, Program, compose

_Kept = tuple[frozenset[str], bytes]
"""The names that a program may read, and the engine's own form of it."""


class Programs:
    """Composes each program once. `made` holds those that were not known, encoded, for a later run."""

    def __init__(self) -> None:
        self.made: dict[str, bytes] = {}
        self._known: Mapping[str, bytes] = {}
        self._composed: dict[str, Program] = {}

    def recall(self, known: Mapping[str, bytes]) -> None:
        """Take what an earlier run of the same engine has made."""
        self._known = known

    def compose(self, parts: Sequence[Part]) -> Program:
        """Return the program of these parts. RuntimeError where the engine refuses the text."""
        key = sha256(repr(parts).encode()).hexdigest()
        program = self._composed.get(key) or self._recalled(key)
        if program is None:
            program = compose(parts)
            self.made[key] = _encoder.encode((program.reads, program.expression.serialize()))
        self._composed[key] = program
        return program

    def _recalled(self, key: str) -> Program | None:
        raw = self._known.get(key)
        if raw is None:
            return None
        try:
            reads, form = _decoder.decode(raw)
            return Program(expression=runtime.restored(form), reads=reads)
        except (msgspec.MsgspecError, RuntimeError, ValueError):
            return None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Kept)
