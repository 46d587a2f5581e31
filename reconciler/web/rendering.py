"""The HTML of one snapshot: every page is drawn once, and questions of readers are answered from what was drawn."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from reconciler.console.page import Piece, Style
from reconciler.html import page
from reconciler.plan.outputs.html import plan_values, section_values
from reconciler.plan.outputs.sections.model import Block, Link, Row, SentenceBlock, TableBlock
from reconciler.web.pages import PAGES, PLAN_EVIDENCE, Drawn, SitePage
from reconciler.web.snapshot import Snapshot

EVENTS = "/events"
_ROWS = 200
"""Rows of one page of a table: 10,000 jobs are fifty pages, each far below a megabyte."""
_MOST_KEPT = 64  # answers, as they were sent


class Query(Struct, frozen=True, kw_only=True):
    """The question of a reader to a page: words that rows contain, and the number of the page of the table."""

    words: str = ""
    number: int = 1


class SnapshotPages:
    """All pages of a snapshot. Making them takes as long as all of them together; every answer after that is quick."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._drawn: Mapping[str, tuple[Drawn, ...]] = {one.path: tuple(one.draw(snapshot)) for one in PAGES}
        self._first = {one.path: self._render(one, Query()) for one in PAGES}
        self._asked: dict[tuple[str, Query], bytes] = {}

    def html(self, path: str, query: Query) -> bytes | None:
        """Return the answer of the page at a path to a question; None: there is no such page."""
        asked = next((one for one in PAGES if one.path == path), None)
        if asked is None or query == Query():
            return self._first.get(path)
        body = self._asked.get((path, query))
        if body is None:
            body = self._render(asked, query)
            if len(self._asked) < _MOST_KEPT:
                self._asked[path, query] = body
        return body

    def source(self, path: str, text: str) -> bytes:
        """Return a page of a file of the repository, of which each line can be linked."""
        lines = list(enumerate(text.splitlines(), start=1))
        return page("source.html", title=path, lines=lines, revision=self.snapshot.revision, **_frame("")).encode()

    def _render(self, asked: SitePage, query: Query) -> bytes:
        if asked.path == "/plan":
            return page(
                "plan.html", **_frame(asked.path), **plan_values(self.snapshot.plan, evidence=PLAN_EVIDENCE)
            ).encode()
        drawn: Iterable[Drawn] = self._drawn[asked.path]
        if query.words and asked.what_if is not None:
            drawn = asked.what_if(self.snapshot, query.words)
        elif asked.what_if is None:
            drawn = (one._replace(section=replace(one.section, blocks=_paged(one, query))) for one in drawn)
        return page(
            "site.html",
            title=asked.title,
            repository=self.snapshot.repository,
            asks=asked.asks,
            ask="Find" if asked.what_if is None else "Try",
            query=query.words,
            sections=[section_values(one.section, one.chart, one.evidence) for one in drawn],
            revision=self.snapshot.revision,
            **_frame(asked.path),
        ).encode()


def _frame(here: str) -> dict[str, Any]:
    return {"live": EVENTS, "here": here, "navigation": [(one.title, one.path) for one in PAGES]}


def _paged(drawn: Drawn, query: Query) -> tuple[Block, ...]:
    """Return the blocks of a section, with the rows of a page that contain all words."""
    return tuple(block for each in drawn.section.blocks for block in _page_of(each, query))


def _page_of(block: Block, query: Query) -> Iterator[Block]:
    """Yield a table with the rows of a page, and links to the pages before and after; another block as it is."""
    if not isinstance(block, TableBlock):
        yield block
        return
    words = query.words.lower().split()
    found = [row for row in block.rows if all(word in _text(row) for word in words)] if words else block.rows
    last = max(1, -(-len(found) // _ROWS))
    at = min(max(query.number, 1), last)
    yield replace(block, rows=tuple(found[(at - 1) * _ROWS : at * _ROWS]))
    if not words and last == 1:
        return
    links: list[Piece] = [f"{len(found):,} of {len(block.rows):,}" if words else f"{len(block.rows):,} rows"]
    for name, wanted in (("previous", at - 1), ("next", at + 1)):
        if 1 <= wanted <= last:
            links += [" · ", Link(name, Style.PLAIN, f"?{urlencode({'q': query.words, 'page': wanted})}")]
    yield SentenceBlock((*links, f" · page {at} of {last}"))


def _text(row: Row) -> str:
    return " ".join(cell if isinstance(cell, str) else cell.text for cell in row).lower()
