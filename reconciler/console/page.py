"""A page of terminal text: styled spans, wrapped and aligned by display width, with escape sequences kept out.

All text passes through `printable`, so no name in a repository can move the cursor. Color is added afterwards and is
the only escape sequence in the result. Tables are laid out here and not by rich, because importing and running
`rich.table` costs more than the rest of a small plan (120 ms of processor time, measured with rich 15).
"""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

from msgspec import Struct, field

from reconciler.console.printable import cells, clip, clip_middle, printable, without_commands
from reconciler.kube.patterns import later


class Style(StrEnum):
    """The role of a span; the value is its ANSI color (SGR parameters), from the sixteen that every theme has."""

    PLAIN = ""
    STRONG = "1"
    DIM = "2"
    CREATED = "32"
    UPDATED = "33"
    DELETED = "31"
    MOVED = "36"
    ERROR = "1;31"
    WARNING = "1;33"
    SUCCESS = "1;32"


class Styled(Struct, frozen=True):
    """Text in one style."""

    text: str
    style: Style = Style.PLAIN


Piece = Styled | str
TableRow = Sequence[Piece]

_ASCII = str.maketrans(
    {"→": "->", "·": "|", "…": "...", "—": "-", "│": "|", "└": "`", "├": "|", "─": "-", "█": "#", "░": ".", "▓": "%"}
)
_MIN_WIDTH = 40
_MIN_COLUMN = 12
_MAX_LABEL = 63  # characters of a Kubernetes label value, such as a GPU product
_COLOR = later(r"\x1b\[[0-9;]*m")  # takes no cells
_TOKENS = later(r" +|[^ ]+")
_INDENT = 2  # of a table
_SEPARATORS = "./,]"  # of paths of files and fields, image names and lists: a long one continues after them


class Page(Struct, kw_only=True):
    """Lines for one terminal. Widths are in cells."""

    width: int = 80
    color: bool = False
    unicode: bool = True
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.width = max(self.width, _MIN_WIDTH)

    def blank(self) -> None:
        """Add an empty line, unless the page is empty or already ends in one."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def heading(self, title: str, *more: Piece) -> None:
        """Add a heading after an empty line."""
        self.blank()
        self.write(Styled(title, Style.STRONG), *more)

    def write(self, *pieces: Piece, indent: int = 0, hang: int = 2) -> None:
        """Add a paragraph, wrapped between words. Lines after the first are indented by `hang` more cells."""
        spans = [self._span(piece) for piece in pieces]
        left = " " * indent
        if indent + sum(cells(text) for text, _ in spans) <= self.width:
            self._add([left, *(self._style(text, style) for text, style in spans)])
            return
        used, line = indent, [(left, Style.PLAIN)]
        is_fresh = True
        for word in self._words(spans, self.width - indent - hang):
            size, is_space = sum(cells(text) for text, _ in word), word[0][0].isspace()
            is_full = used + size > self.width and not is_fresh
            if is_full and not is_space:
                self._add(self._runs(line))
                used, line = indent + hang, [(" " * (indent + hang), Style.PLAIN)]
                is_fresh = True
            if is_space and (is_fresh or is_full):
                continue
            line += word
            used += size
            is_fresh = False
        self._add(self._runs(line))

    def append(self, piece: Styled) -> bool:
        """Add to the last line if there is room. Return whether there was."""
        text = self.shown(piece.text)
        if not self.lines or cells(_COLOR.sub("", self.lines[-1])) + cells(text) > self.width:
            return False
        self.lines[-1] += self._style(text, piece.style)
        return True

    def verbatim(self, start: Piece, text: str, *, style: Style = Style.PLAIN, indent: int = 0) -> None:
        """Add one line with its spaces kept. Text that is too long continues on the next lines."""
        lead, lead_style = self._span(start)
        blank = " " * cells(lead)
        for part in _split(self.shown(text), self.width - indent - cells(lead)):
            self._add([" " * indent, self._style(lead, lead_style), self._style(part, style)])
            lead = blank

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[TableRow],
        *,
        right: Collection[int] = (),
        keep: Collection[int] = (),
        has_notes: bool = False,
        indent: int = _INDENT,
    ) -> None:
        """Add a table. Columns in `right` hold numbers and are right-aligned; they and those in `keep` are never cut.

        If the table is too wide and its last column holds notes, they are written below their rows. The widest other
        columns are then cut in the middle. If that is not enough, each row becomes a record of several lines.
        """
        body = [[self._span(piece) for piece in row] for row in rows]
        titles = [(title, Style.DIM) for title in header]
        widths = [max(cells(row[i][0]) for row in [titles, *body]) for i in range(len(header))]
        widths = [min(width, _MAX_LABEL) if i in keep else width for i, width in enumerate(widths)]
        room = self.width - indent - 2 * (len(header) - 1)
        is_split = has_notes and sum(widths) > room
        if is_split:
            widths, room = widths[:-1], room + 2
        _shrink(widths, [i for i in range(len(widths)) if i not in right and i not in keep], room)
        if sum(widths) > room:
            for row in body:
                self._record(header, row, right=right, has_notes=has_notes, indent=indent)
            return
        for row in [titles, *body] if any(header) else body:
            parts = []
            for i, width in enumerate(widths):
                text, style = row[i]
                cut = clip_middle(text, width, ellipsis=self.ellipsis)
                pad = " " * (width - cells(cut))
                parts.append(pad + self._style(cut, style) if i in right else self._style(cut, style) + pad)
            self._add([" " * indent, "  ".join(parts)])
            if is_split and row[-1][0]:
                self.write(Styled(*row[-1]), indent=indent + 4, hang=0)

    def _record(
        self,
        header: Sequence[str],
        row: Sequence[tuple[str, Style]],
        *,
        right: Collection[int],
        has_notes: bool,
        indent: int,
    ) -> None:
        """Write a row as its names, its numbers with their titles, and its note."""
        notes = {len(header) - 1} if has_notes else set()
        names = [
            (clip_middle(row[i][0], _MAX_LABEL, ellipsis=self.ellipsis), row[i][1])
            for i in range(len(row))
            if i not in right and i not in notes and row[i][0]
        ]
        numbers = [(header[i], row[i]) for i in range(len(row)) if i in right and row[i][0]]
        self.write(*_joined([[Styled(*name)] for name in names], "  "), indent=indent)
        listed = [[Styled(f"{title} ", Style.DIM), Styled(*number)] for title, number in numbers]
        if listed:
            self.write(*_joined(listed, " · "), indent=indent + 4, hang=0)
        if notes and row[-1][0]:
            self.write(Styled(*row[-1]), indent=indent + 4, hang=0)

    def table_width(self, header: Sequence[str], rows: Sequence[TableRow]) -> int:
        """Return the width of a table in which nothing is cut, with its indent."""
        columns = zip(*([*map(self._span, row)] for row in (header, *rows)), strict=True)
        widths = [max(cells(text) for text, _ in column) for column in columns]
        return _INDENT + sum(widths) + 2 * (len(widths) - 1)

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

    def _runs(self, line: Iterable[tuple[str, Style]]) -> Iterable[str]:
        for style, run in groupby(line, key=itemgetter(1)):
            yield self._style("".join(text for text, _ in run), style)

    def _span(self, piece: Piece) -> tuple[str, Style]:
        return (self.shown(piece), Style.PLAIN) if isinstance(piece, str) else (self.shown(piece.text), piece.style)

    def _words(self, spans: Iterable[tuple[str, Style]], longest: int) -> Iterable[list[tuple[str, Style]]]:
        """Yield words and the spaces between them. Spans that touch are one word while it fits on a line."""
        word: list[tuple[str, Style]] = []
        for text, style in self._tokens(spans, longest):
            is_apart = not word or text.isspace() or word[-1][0].isspace()
            if is_apart or sum(cells(part) for part, _ in word) + cells(text) > longest:
                if word:
                    yield word
                word = []
            word.append((text, style))
        if word:
            yield word

    def _tokens(self, spans: Iterable[tuple[str, Style]], longest: int) -> Iterable[tuple[str, Style]]:
        for text, style in spans:
            for token in _TOKENS.findall(text):
                for part in _split(token, longest):
                    yield part, style

    def _style(self, text: str, style: Style) -> str:
        if not self.color or not style or not text.strip():
            return text
        visible = text.rstrip(" ")  # spaces stay outside, so that lines end alike with and without color
        return f"\x1b[{style}m{visible}\x1b[0m{text[len(visible) :]}"

    def _add(self, parts: Iterable[str]) -> None:
        self.lines.append("".join(parts).rstrip())


def _joined(groups: Iterable[Sequence[Styled]], separator: str) -> list[Styled]:
    """Join groups of spans with a separator."""
    pieces: list[Styled] = []
    for group in groups:
        pieces += [*([Styled(separator, Style.DIM)] if pieces else []), *group]
    return pieces


def _shrink(widths: list[int], columns: Sequence[int], room: int) -> None:
    """Take cells from the widest of `columns` until the table fits or all of them are as narrow as may be."""
    while sum(widths) > room:
        widest = max(columns, key=lambda i: widths[i], default=-1)
        if widest < 0 or widths[widest] <= _MIN_COLUMN:
            return
        widths[widest] -= 1


def _split(text: str, width: int) -> list[str]:
    """Split text into parts of at most `width` cells, after a separator where one is in the second half of a part.

    Empty text is one empty part.
    """
    if cells(text) <= width:
        return [text]
    parts: list[str] = []
    while cells(text) > width:
        part = clip(text, width, ellipsis="") or text[:1]
        end = max(map(part.rfind, _SEPARATORS)) + 1
        parts.append(part[:end] if 2 * end > len(part) else part)
        text = text[len(parts[-1]) :]
    return [*parts, text] if text else parts
