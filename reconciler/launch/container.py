"""A container's `command` and `args`: the kubelet's expansion of `$(NAME)`, and the place of each word.

The rules are those of k8s.io/kubernetes third_party/forked/golang/expansion: `$$` is one dollar, an unknown name stays
as it is written.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from reconciler.kube.secrets import mask_text
from reconciler.launch.facts import Span
from reconciler.launch.shell.expansion import MAX_LENGTH, UNKNOWN, Field

_DOLLAR = re.compile(r"\$[$(]")
_MAX_SNIPPET = 80


class ExpandedText(Struct, frozen=True):
    """The text that a program receives, and how its offsets map to the source.

    Each replaced piece is (start, end) in `text`, (start, end) in the source. `unknown` names the variables whose
    value is unknown. A text beyond MAX_LENGTH is unknown as a whole.
    """

    text: str
    pieces: tuple[tuple[int, int, int, int], ...] = ()
    unknown: tuple[str, ...] = ()

    def source_range(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the place of a part of `text`; None for a part of a variable's value."""
        if not self.pieces:
            return start, end
        first, last = self._source_offset(start, at_end=False), self._source_offset(end, at_end=True)
        return None if first is None or last is None else (first, last)

    def _source_offset(self, offset: int, *, at_end: bool) -> int | None:
        index = bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1
        if index >= 0 and at_end and self.pieces[index][0] == offset:
            index -= 1
        if index < 0:
            return offset
        start, end, source_start, source_end = self.pieces[index]
        if offset >= end:
            return source_end + offset - end
        return source_start if offset == start and not at_end else None


def expand_references(text: str, env: Mapping[str, str | None]) -> ExpandedText:
    """Expand one item of `command` or `args`; None in `env` is a value that is not in the repository."""
    if "$(" not in text and "$$" not in text:
        return ExpandedText(text)
    parts: list[str] = []
    pieces: list[tuple[int, int, int, int]] = []
    unknown: list[str] = []
    copied = length = 0
    for start, end, name in _references(text):
        if name is not None and name not in env:
            continue
        value = "$" if name is None else env[name]
        if value is None:
            value = UNKNOWN
            unknown.append(name or "")
        parts += (text[copied:start], value)
        begin = length + start - copied
        length = begin + len(value)
        pieces.append((begin, length, start, end))
        copied = end
        if length > MAX_LENGTH:  # the kernel refuses it; without the limit, variables that double would fill the memory
            return ExpandedText(UNKNOWN, ((0, 1, 0, len(text)),), (name or "",))
    parts.append(text[copied:])
    return ExpandedText("".join(parts), tuple(pieces), tuple(unknown))


def expand_env(env: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Expand the values of a container's variables: each may refer to earlier ones."""
    if not any(value is not None and ("$(" in value or "$$" in value) for value in env.values()):
        return env
    expanded_env: dict[str, str | None] = {}
    for name, value in env.items():
        expanded = None if value is None else expand_references(value, expanded_env)
        expanded_env[name] = None if expanded is None or expanded.unknown else expanded.text
    return expanded_env


def _references(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield start, end and name of each reference; the name of `$$` is None. Scans each character once."""
    position = 0
    while match := _DOLLAR.search(text, position):
        if match[0] == "$$":
            position = match.end()
            yield match.start(), position, None
            continue
        closing = text.find(")", match.end())
        if closing < 0:
            following = text.find("$$", match.end())
            position = following if following >= 0 else len(text)
            continue
        position = closing + 1
        yield match.start(), position, text[match.end() : closing]


class ContainerArgument(Struct, frozen=True, gc=False):
    """One item of `command` or `args`: as written, and as the container's program receives it."""

    field: str
    index: int
    text: str
    expanded: ExpandedText


class SourceMap(Struct, frozen=True):
    """Maps words to their place in `command` and `args`.

    With `script`, the words' offsets are offsets in the only item. Otherwise a word's `start` is the number of its
    item. Without items, the words cannot be edited; `title` names their source (`the file train.sh`).
    """

    items: tuple[ContainerArgument, ...] = ()
    script: bool = False
    title: str = ""

    def span(self, field: Field, end: Field | None = None) -> Span | None:
        """Return the place from one word to another; None where they are not written as such."""
        last = end or field
        if not self.items or field.start < 0 or last.start < 0 or not field.whole or not last.whole:
            return None
        if not self.script:
            item = self.items[field.start]
            return Span(field=item.field, index=item.index, start=0, end=len(item.text))
        item = self.items[0]
        source = item.expanded.source_range(field.start, last.end)
        return source and Span(field=item.field, index=item.index, start=source[0], end=source[1])

    def locate(self, fields: Sequence[Field]) -> tuple[str, Span | None]:
        """Return words as they are written, shortened and without secrets, and their place."""
        span = self.span(fields[0], fields[-1])
        if self.script and span is not None:
            return _shown(self.items[0].text[span.start : span.end]), span
        if self.script and self.items and fields[0].start >= 0:
            return _shown(self.items[0].expanded.text[fields[0].start : fields[-1].end]), span
        return _shown(" ".join([field.text for field in fields])), span

    def snippet(self, fields: Sequence[Field]) -> str:
        """Return words as they are written, shortened and without secrets."""
        return self.locate(fields)[0]


@lru_cache(maxsize=1024)  # jobs have many words in common
def _shown(text: str) -> str:
    return shorten(mask_text(text))


def shorten(text: str) -> str:
    """Return text on one line, cut at 80 characters, with `?` for what cannot be printed."""
    if len(text) <= _MAX_SNIPPET and "  " not in text and text.isprintable() and text.strip() == text:
        return text
    line = " ".join(text.replace("\\\n", " ").split())
    if not line.isprintable():
        line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= _MAX_SNIPPET else line[: _MAX_SNIPPET - 1] + "…"
