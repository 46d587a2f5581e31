"""Spans of text in, lines for a terminal out: escaped, coloured, wrapped and aligned by display cells.

Everything that reaches a page goes through `printable`, so that no name in a repository can move the cursor; colour is
added after that and is the only escape sequence in the output.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

from msgspec import Struct, field

from reconciler.outputs.printable import cells, clip, clip_middle, printable, without_commands


class Tone(StrEnum):
    """What a span means; the value is its ANSI colour (SGR parameters). Sixteen colours: every theme knows them."""

    PLAIN = ""
    STRONG = "1"
    FAINT = "2"
    CREATED = "32"
    UPDATED = "33"
    DELETED = "31"
    MOVED = "36"
    ALARM = "1;31"
    CAUTION = "1;33"
    FINE = "1;32"


class Span(Struct, frozen=True):
    """A piece of a line in one tone."""

    text: str
    tone: Tone = Tone.PLAIN


Piece = Span | str
Row = Sequence[Piece]

_ASCII = str.maketrans(
    {"→": "->", "·": "|", "…": "...", "—": "-", "│": "|", "└": "`", "├": "|", "─": "-", "█": "#", "░": ".", "▓": "%"}
)
_NARROWEST = 40
_LEAST_COLUMN = 8
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TOKENS = re.compile(r" +|[^ ]+")


class Page(Struct, kw_only=True):
    """Lines as they are written, for one terminal."""

    width: int = 80
    colour: bool = False
    unicode: bool = True
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.width = max(self.width, _NARROWEST)

    def blank(self) -> None:
        """Write an empty line, never two in a row and never at the top."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def heading(self, title: str, *rest: Piece) -> None:
        """Write a heading with air above it."""
        self.blank()
        self.write(Span(title, Tone.STRONG), *rest)

    def write(self, *pieces: Piece, indent: int = 0, hang: int = 2) -> None:
        """Write one paragraph, wrapped between words; lines after the first are indented by `hang` cells more."""
        spans = [self._span(piece) for piece in pieces]
        left = " " * indent
        if indent + sum(cells(text) for text, _ in spans) <= self.width:
            self._finish([left, *(self._toned(text, tone) for text, tone in spans)])
            return
        used, line = indent, [(left, Tone.PLAIN)]
        is_fresh = True
        for text, tone in self._tokens(spans, self.width - indent - hang):
            is_full = used + cells(text) > self.width and not is_fresh
            if is_full and not text.isspace():
                self._finish(self._runs(line))
                used, line = indent + hang, [(" " * (indent + hang), Tone.PLAIN)]
                is_fresh = True
            if text.isspace() and (is_fresh or is_full):
                continue
            line.append((text, tone))
            used += cells(text)
            is_fresh = False
        self._finish(self._runs(line))

    def append(self, span: Span) -> bool:
        """Add to the line written last if there is room, and tell whether there was."""
        text = self.shown(span.text)
        if not self.lines or cells(_COLOUR.sub("", self.lines[-1])) + cells(text) > self.width:
            return False
        self.lines[-1] += self._toned(text, span.tone)
        return True

    def verbatim(self, start: Span, text: str, *, tone: Tone = Tone.PLAIN, indent: int = 0) -> None:
        """Write one line with its blanks kept; what is too long goes on below, so that nothing is lost."""
        shown = self.shown(text)
        room = self.width - indent - cells(self.shown(start.text))
        lead = self._toned(self.shown(start.text), start.tone)
        for part in _cut(shown, room):
            self._finish([" " * indent, lead, self._toned(part, tone)])
            lead = " " * cells(self.shown(start.text))

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Row],
        *,
        right: Iterable[int] = (),
        gives: Iterable[int] = (),
        indent: int = 2,
    ) -> None:
        """Write a table; columns in `right` are numbers and never cut.

        Where it is too wide, the columns in `gives` are cut first, at their ends; then the widest, in the middle.
        """
        numbers = frozenset(right)
        shown = [[self._span(piece) for piece in row] for row in rows]
        titles = [(title, Tone.FAINT) for title in header]
        widths = [max(cells(row[i][0]) for row in [titles, *shown]) for i in range(len(header))]
        room = self.width - indent - 2 * (len(header) - 1)
        giving = [column for column in gives if column < len(header)]
        self._shrink(widths, giving, room)
        self._shrink(widths, [i for i in range(len(header)) if i not in numbers], room)
        for row in [titles, *shown] if any(header) else shown:
            parts: list[str] = []
            for i, (text, tone) in enumerate(row):
                cut = (clip if i in giving else clip_middle)(text, widths[i], ellipsis=self.ellipsis)
                parts.append(self._padded(cut, tone, widths[i], to_right=i in numbers))
            self._finish([" " * indent, "  ".join(parts)])

    def text(self) -> str:
        """Return the page, with one line break at its end."""
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        return without_commands("\n".join(self.lines) + "\n")

    def shown(self, text: str) -> str:
        """Return text as this page may show it."""
        return printable(text if self.unicode else text.translate(_ASCII), unicode=self.unicode)

    @property
    def ellipsis(self) -> str:
        """The sign for text that was cut."""
        return "…" if self.unicode else "..."

    def _runs(self, line: Iterable[tuple[str, Tone]]) -> Iterable[str]:
        for tone, run in groupby(line, key=itemgetter(1)):
            yield self._toned("".join(text for text, _ in run), tone)

    def _span(self, piece: Piece) -> tuple[str, Tone]:
        return (self.shown(piece), Tone.PLAIN) if isinstance(piece, str) else (self.shown(piece.text), piece.tone)

    def _tokens(self, spans: Iterable[tuple[str, Tone]], longest: int) -> Iterable[tuple[str, Tone]]:
        for text, tone in spans:
            for token in _TOKENS.findall(text):
                for part in _cut(token, longest):
                    yield part, tone

    def _shrink(self, widths: list[int], flexible: list[int], room: int) -> None:
        while sum(widths) > room:
            widest = max(flexible, key=lambda i: widths[i], default=-1)
            if widest < 0 or widths[widest] <= _LEAST_COLUMN:
                return
            widths[widest] -= 1

    def _padded(self, text: str, tone: Tone, width: int, *, to_right: bool) -> str:
        pad = " " * (width - cells(text))
        return pad + self._toned(text, tone) if to_right else self._toned(text, tone) + pad

    def _toned(self, text: str, tone: Tone) -> str:
        if not self.colour or not tone or not text.strip():
            return text
        seen = text.rstrip(" ")  # blanks stay outside, so that lines end alike with and without colour
        return f"\x1b[{tone}m{seen}\x1b[0m{text[len(seen) :]}"

    def _finish(self, parts: Iterable[str]) -> None:
        self.lines.append("".join(parts).rstrip())


def _cut(text: str, width: int) -> list[str]:
    """Cut text into pieces of at most `width` cells; empty text is one empty piece."""
    if cells(text) <= width:
        return [text]
    parts: list[str] = []
    while text:
        part = clip(text, width, ellipsis="") or text[:1]
        parts.append(part)
        text = text[len(part) :]
    return parts
