"""Shows sections as text."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from reconciler.console.page import Page, Piece, Style, Styled
from reconciler.kube.patterns import later
from reconciler.plan.outputs.findings import FindingEntry, Level, group_findings, name_of
from reconciler.plan.outputs.sections.model import (
    Block,
    Column,
    CommandBlock,
    FactsBlock,
    FindingsBlock,
    Form,
    Name,
    NamesBlock,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
)

_LEVEL_STYLES = {Level.ERROR: Style.ERROR, Level.WARNING: Style.WARNING, Level.NOTE: Style.DIM}
_MAX_ROWS = 25  # of one table
_MAX_ENTRIES = 5  # of one rule
_MAX_ERRORS = 50
_MAX_NAMES = 8  # of objects or places with the same finding
_VENDOR = later(r"^(NVIDIA|AMD)-(?=.)")


def write_sections(page: Page, sections: Iterable[PageSection], *, full: bool) -> None:
    """Write sections; `full` shows every finding and all details."""
    for section in sections:
        count = f" ({section.count:,})" if section.count else ""
        remark = f" ({section.remark})" if section.remark else ""
        page.heading(section.title, Styled(count + remark, Style.DIM))
        for block in section.blocks:
            _write_block(page, block, full=full)


def _write_block(page: Page, block: Block, *, full: bool) -> None:
    match block:
        case TableBlock():
            hidden = 0 if full else max(0, len(block.rows) - _MAX_ROWS)
            write_table(page, replace(block, rows=block.rows[: len(block.rows) - hidden]))
            _write_hidden(page, hidden, indent=2)
        case SentenceBlock(pieces):
            page.write(*pieces, indent=2)
        case CommandBlock(text):
            page.verbatim("", text, indent=4)
        case NamesBlock(names):
            for name in names:
                page.write(name, indent=4)
        case FactsBlock():
            write_record(page, block, full=full)
        case FindingsBlock():
            _write_findings(page, block, full=full)


def write_table(page: Page, table: TableBlock) -> None:
    """Write a table. If it is too wide, places are left out, and then the vendors of products."""
    columns, rows = table.columns, [*table.rows, *table.footer]
    if not _fits(page, columns, rows):
        shown = [i for i, column in enumerate(columns) if column.form is not Form.PLACE]
        columns, rows = tuple(columns[i] for i in shown), [tuple(row[i] for i in shown) for row in rows]
    if not _fits(page, columns, rows):
        products = {i for i, column in enumerate(columns) if column.form is Form.PRODUCT}
        rows = [
            tuple(_without_vendor(piece) if i in products else piece for i, piece in enumerate(row)) for row in rows
        ]
    page.table(
        [column.title for column in columns],
        rows,
        right=[i for i, column in enumerate(columns) if column.form is Form.NUMBER],
        keep=[i for i, column in enumerate(columns) if column.form is Form.PRODUCT],
        has_notes=columns[-1].form is Form.NOTE,
    )


def _fits(page: Page, columns: Sequence[Column], rows: Iterable[Row]) -> bool:
    """Return whether nothing of a table is cut. Notes can be written below their rows."""
    titles = [column.title for column in columns if column.form is not Form.NOTE]
    return page.table_width(titles, [row[: len(titles)] for row in rows]) <= page.width


def _without_vendor(piece: Piece) -> Piece:
    if isinstance(piece, str):
        return _VENDOR.sub("", piece)
    return Name(_VENDOR.sub("", piece.text), piece.style)


def write_record(page: Page, record: FactsBlock, *, full: bool = False, indent: int = 2) -> None:
    """Write a title, its facts below it, and with `full` its details."""
    page.write(*record.title, indent=indent)
    write_facts(page, record.facts, indent=indent + 2)
    if full and record.details is not None:
        write_table(page, record.details)


def write_facts(page: Page, facts: Iterable[tuple[str, tuple[Piece, ...]]], *, indent: int) -> None:
    """Write labeled facts below each other."""
    facts = tuple(facts)
    width = max((len(label) for label, _ in facts), default=0) + 2
    for label, pieces in facts:
        page.write(Styled(label.ljust(width), Style.DIM), *pieces, indent=indent, hang=width)


def _write_findings(page: Page, block: FindingsBlock, *, full: bool) -> None:
    for group in group_findings(block.members):
        style = _LEVEL_STYLES[group.first.level]
        count = f" ({group.count:,})" if group.count > 1 else ""
        label = Styled(f"  {group.first.label}" if group.first.label else "", Style.STRONG)
        page.write(Styled("! ", style), Styled(group.first.rule, style), Styled(count, Style.DIM), label, indent=2)
        shown = group.entries if full else group.entries[: _MAX_ERRORS if block.is_complete else _MAX_ENTRIES]
        for entry in shown:
            _write_entry(page, entry, full=full)
            if not group.hint:
                _write_hint(page, entry.first.hint)
        hidden = sum(1 + len(entry.others) for entry in group.entries[len(shown) :])
        _write_hidden(page, hidden, indent=4)
        _write_hint(page, group.hint)


def _write_hidden(page: Page, count: int, *, indent: int) -> None:
    if count:
        page.write(Styled(f"… {count:,} more (use --full to show all)", Style.DIM), indent=indent)


def _write_entry(page: Page, entry: FindingEntry, *, full: bool) -> None:
    finding = entry.first
    says = [f"{finding.field}: " if finding.field else "", finding.message]
    if not entry.others:
        name = name_of(finding)
        start: list[Piece] = [Styled(name, Style.STRONG), ": "] if name else []
        page.write(*start, f"{finding.subject}: " if finding.subject not in ("", name) else "", *says, indent=4)
        return
    page.write(*says, indent=4)
    what, names = entry.names
    shown = names if full else names[:_MAX_NAMES]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    page.write(f"{what}: " if what else "", Styled(", ".join(shown), Style.STRONG), more, indent=6, hang=0)


def _write_hint(page: Page, hint: str) -> None:
    if hint:
        page.write(Styled("→ ", Style.DIM), Styled(hint, Style.DIM), indent=4)
