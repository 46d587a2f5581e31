"""What the kubelet does to `command` and `args` before anything is started: `$(NAME)` becomes the variable's value.

The rules are those of k8s.io/kubernetes third_party/forked/golang/expansion: `$$` is one dollar, an unknown name stays
as it is written.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.core.launch.shell.variables import MAX_LENGTH, UNKNOWN

_SIGN = re.compile(r"\$[$(]")


class Expanded(Struct, frozen=True):
    """The text a program receives, and how its places map to the written one.

    Each piece that was replaced: (start, end) in `text`, (start, end) in what was written. `unknown` names variables
    whose value is not known. A text beyond MAX_LENGTH is not known at all.
    """

    text: str
    pieces: tuple[tuple[int, int, int, int], ...] = ()
    unknown: tuple[str, ...] = ()

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Return where a part of `text` is written; None for a part of what a variable gave."""
        if not self.pieces:
            return start, end
        first, last = self._written(start, at_end=False), self._written(end, at_end=True)
        return None if first is None or last is None else (first, last)

    def _written(self, position: int, *, at_end: bool) -> int | None:
        index = bisect_right(self.pieces, position, key=lambda piece: piece[0]) - 1
        if index >= 0 and at_end and self.pieces[index][0] == position:
            index -= 1
        if index < 0:
            return position
        start, end, written_start, written_end = self.pieces[index]
        if position >= end:
            return written_end + position - end
        return written_start if position == start and not at_end else None


def expand(text: str, env: Mapping[str, str | None]) -> Expanded:
    """Expand one item of `command` or `args` (None in `env`: the value comes from elsewhere)."""
    if "$(" not in text and "$$" not in text:
        return Expanded(text)
    made: list[str] = []
    pieces: list[tuple[int, int, int, int]] = []
    unknown: list[str] = []
    written = length = 0
    for start, end, name in _references(text):
        if name is not None and name not in env:
            continue
        value = "$" if name is None else env[name]
        if value is None:
            value = UNKNOWN
            unknown.append(name or "")
        made += (text[written:start], value)
        begin = length + start - written
        length = begin + len(value)
        pieces.append((begin, length, start, end))
        written = end
        if length > MAX_LENGTH:  # the kernel would refuse it; here, values that double each other would fill the memory
            return Expanded(UNKNOWN, ((0, 1, 0, len(text)),), (name or "",))
    made.append(text[written:])
    return Expanded("".join(made), tuple(pieces), tuple(unknown))


def container_env(env: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Expand the values of a container's variables: each may refer to those that stand before it."""
    if not any(value is not None and ("$(" in value or "$$" in value) for value in env.values()):
        return env
    known: dict[str, str | None] = {}
    for name, value in env.items():
        expanded = None if value is None else expand(value, known)
        known[name] = None if expanded is None or expanded.unknown else expanded.text
    return known


def _references(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield start, end and name of each reference; the name of `$$` is None. Each character is looked at once."""
    position = 0
    while found := _SIGN.search(text, position):
        if found[0] == "$$":
            position = found.end()
            yield found.start(), position, None
            continue
        closed = text.find(")", found.end())
        if closed < 0:
            following = text.find("$$", found.end())
            position = following if following >= 0 else len(text)
            continue
        position = closed + 1
        yield found.start(), position, text[found.end() : closed]
