"""Sections of a page as data, which `terminal_sections`, `markdown` and `html` show."""

from enum import StrEnum

from msgspec import Struct

from reconciler.console.page import Piece, Style, Styled
from reconciler.plan import Plan
from reconciler.plan.outputs.findings import Finding


class View(Struct, frozen=True, kw_only=True):
    """The content of a page: the listed part of a plan, and with `full` all of it."""

    plan: Plan
    full: bool = False
    queues: frozenset[tuple[str, str]] | None = None  # (cluster, queue) of the rows to list; None: all


class Name(Styled, frozen=True):
    """A name, path or other string of the repository: a code span in Markdown."""


class Link(Name, frozen=True):
    """A name that leads to another page where there are pages; elsewhere it is only the name."""

    href: str = ""


class Form(StrEnum):
    """The content of a column, which decides its alignment and what happens to it on a narrow page."""

    TEXT = "text"  # cut in the middle
    NUMBER = "number"  # right-aligned, never cut
    PRODUCT = "product"  # a GPU product: never cut, but without its vendor if the table is too wide
    PLACE = "place"  # left out if the table is too wide
    NOTE = "note"  # the last column; below its row on a narrow page


class Column(Struct, frozen=True):
    """Title and form of one column."""

    title: str
    form: Form = Form.TEXT


Row = tuple[Piece, ...]


class TableBlock(Struct, frozen=True, kw_only=True):
    """A table. The rows of `footer`, such as totals, are shown whatever is left out of `rows`."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footer: tuple[Row, ...] = ()

    def without_empty_notes(self) -> "TableBlock":
        """Return the table without its column of notes, if there are none."""
        last = len(self.columns) - 1
        if self.columns[last].form is not Form.NOTE or any(_text(row[last]) for row in (*self.rows, *self.footer)):
            return self
        return TableBlock(
            columns=self.columns[:last],
            rows=tuple(row[:last] for row in self.rows),
            footer=tuple(row[:last] for row in self.footer),
        )


def _text(piece: Piece) -> str:
    return piece if isinstance(piece, str) else piece.text


class SentenceBlock(Struct, frozen=True):
    """A sentence. It starts with words of ours, because Markdown acts on signs at the start of a line."""

    pieces: tuple[Piece, ...]


class CommandBlock(Struct, frozen=True):
    """A command line to copy."""

    text: str


class NamesBlock(Struct, frozen=True):
    """A list of names or paths."""

    names: tuple[str, ...]


class FactsBlock(Struct, frozen=True, kw_only=True):
    """Labeled facts about one thing. `details` is folded in Markdown, and in text only shown with `--full`."""

    title: tuple[Piece, ...]
    facts: tuple[tuple[str, tuple[Piece, ...]], ...]
    details: TableBlock | None = None
    details_title: str = ""


class FindingsBlock(Struct, frozen=True, kw_only=True):
    """A list of findings, of which text shows the first ones of each rule; more of them if it `is_complete`."""

    members: tuple[Finding, ...]
    is_complete: bool = False


Block = TableBlock | SentenceBlock | CommandBlock | NamesBlock | FactsBlock | FindingsBlock


class PageSection(Struct, frozen=True, kw_only=True):
    """One section of a page.

    title: heading; `count` follows it in parentheses unless it is 0, then `remark`.
    is_folded: whether Markdown shows only the heading until it is clicked.
    """

    title: str
    blocks: tuple[Block, ...]
    count: int = 0
    remark: str = ""
    is_folded: bool = False


def strong(text: str) -> Name:
    """Return a name that stands out in text."""
    return Name(text, Style.STRONG)
