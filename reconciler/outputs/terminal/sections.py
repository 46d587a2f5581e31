"""Shows sections as text."""

import re
from collections import Counter
from collections.abc import Iterable

from reconciler.outputs.findings import Finding, Level, where
from reconciler.outputs.sections.model import (
    Block,
    CommandBlock,
    FactsBlock,
    FindingsBlock,
    Form,
    Name,
    NamesBlock,
    PageSection,
    SentenceBlock,
    TableBlock,
)
from reconciler.outputs.terminal.page import Page, Piece, Style, Styled

_LEVEL_STYLES = {Level.ERROR: Style.ERROR, Level.WARNING: Style.WARNING, Level.NOTE: Style.DIM}
_MAX_PER_RULE = 5
_WIDE_PAGE = 100
_VENDOR = re.compile(r"^(NVIDIA|AMD)-(?=.)")


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
            write_table(page, block)
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
    """Write a table. A narrow page leaves out places and the vendors of products."""
    is_wide = page.width >= _WIDE_PAGE
    shown = [i for i, column in enumerate(table.columns) if is_wide or column.form is not Form.PLACE]
    columns = [table.columns[i] for i in shown]
    products = set() if is_wide else {i for i, column in enumerate(table.columns) if column.form is Form.PRODUCT}
    rows = [
        [_without_vendor(row[i]) if i in products else row[i] for i in shown] for row in (*table.rows, *table.footer)
    ]
    page.table(
        [column.title for column in columns],
        rows,
        right=[i for i, column in enumerate(columns) if column.form is Form.NUMBER],
        keep=[i for i, column in enumerate(columns) if column.form is Form.PRODUCT],
        has_notes=columns[-1].form is Form.NOTE,
    )


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
    per_rule: Counter[str] = Counter()
    is_complete = full or block.is_complete
    for finding in block.members:
        per_rule[finding.rule] += 1
        if is_complete or per_rule[finding.rule] <= _MAX_PER_RULE:
            _write_finding(page, finding)
    for rule, count in per_rule.items():
        if not is_complete and count > _MAX_PER_RULE:
            more = f"… {count - _MAX_PER_RULE:,} more of {rule} (use --full to show all)"
            page.write(Styled(more, Style.DIM), indent=2)


def _write_finding(page: Page, finding: Finding) -> None:
    place = where(finding.place) or finding.subject
    style = _LEVEL_STYLES[finding.level]
    start = Styled(f"{place}  " if place else "", Style.STRONG)
    page.write(Styled("! ", style), start, Styled(finding.rule, style), indent=2)
    subject = [f"{finding.subject}: "] if finding.place and finding.subject else []
    field = [f"{finding.field}: "] if finding.field else []
    page.write(*subject, *field, finding.message, indent=4, hang=0)
    if finding.hint:
        page.write(Styled("→ ", Style.DIM), Styled(finding.hint, Style.DIM), indent=4)
