"""Shows sections as Markdown, with at most a given number of rows in each table and list."""

from collections.abc import Iterable, Iterator, Sequence

from reconciler.core.values import plural
from reconciler.outputs.comment.markup import code, details, prose, table_of
from reconciler.outputs.findings import Finding, FindingEntry, group_findings, name_of
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
from reconciler.outputs.terminal.page import Piece, Style

_BOLD = frozenset({Style.STRONG, Style.CREATED, Style.UPDATED, Style.DELETED, Style.MOVED, Style.ERROR, Style.WARNING})
_MAX_LISTED = 10  # of objects or places with the same finding


def sections_markdown(sections: Iterable[PageSection], rows: int) -> Iterator[str]:
    """Yield the parts of a comment. If `rows` is 0, sections with a count are only named."""
    for section in sections:
        count = f" ({section.count:,})" if section.count else ""
        remark = f" ({section.remark})" if section.remark else ""
        title = f"{section.title}{count}{remark}"
        body = "\n\n".join(part for part in _blocks(section.blocks, rows) if part) if rows else ""
        if body and section.is_folded:
            yield details(f"<b>{title}</b>", body)
        elif body or section.count:
            yield f"#### {title}"
            if body:
                yield body


def _blocks(blocks: Sequence[Block], rows: int) -> Iterator[str]:
    records = 0
    for block in blocks:
        match block:
            case TableBlock():
                yield _table(block, rows)
            case SentenceBlock(pieces):
                yield _inline(pieces)
            case CommandBlock(text):
                yield code(text)
            case NamesBlock(names):
                yield "\n".join(f"- {code(name)}" for name in names[:rows]) + _more(len(names) - rows)
            case FindingsBlock(members=members):
                yield _findings(members, rows)
            case FactsBlock():
                records += 1
                if records <= rows:
                    yield from _record(block)
    if records > rows:
        yield f"… and {records - rows:,} more"


def _more(count: int) -> str:
    return f"\n\n… and {count:,} more" if count > 0 else ""


def _table(table: TableBlock, rows: int) -> str:
    titles = [
        (column.title[:1].upper() + column.title[1:]) + (":" if column.form is Form.NUMBER else "")
        for column in table.columns
    ]
    cells = [[_cell(piece) for piece in row] for row in (*table.rows[:rows], *table.footer)]
    return table_of(titles, cells, most=len(cells)) + _more(len(table.rows) - rows)


def _cell(piece: Piece) -> str:
    is_alarm = not isinstance(piece, str) and piece.text and piece.style is Style.ERROR
    return f"⚠️ {_piece(piece)}" if is_alarm else _piece(piece)


def _inline(pieces: Sequence[Piece]) -> str:
    return "".join(map(_piece, pieces))


def _piece(piece: Piece) -> str:
    """Format a name as code, and emphasize other styled text."""
    if isinstance(piece, Name):
        return code(piece.text) if piece.text else ""
    if isinstance(piece, str):
        return prose(piece)
    shown = prose(piece.text.strip())
    return f"**{shown}**" if shown and piece.style in _BOLD else shown


def _record(record: FactsBlock) -> Iterator[str]:
    facts = [f"- {label}: {_inline(pieces)}" for label, pieces in record.facts]
    yield "\n".join([_inline(record.title), *facts])
    if record.details is not None:
        yield details(record.details_title, _table(record.details, len(record.details.rows)))


def _findings(members: Sequence[Finding], rows: int) -> str:
    """List findings by rule, with at most `rows` different messages in total."""
    lines, left = [], rows
    for group in group_findings(members):
        shown = group.entries[:left]
        if not shown:
            break
        left -= len(shown)
        count = f" ({group.count:,})" if group.count > 1 else ""
        label = f" **{prose(group.first.label)}**" if group.first.label else ""
        parts = [f"- **{code(group.first.rule)}**{count}{label}"]
        for entry in shown:
            parts.append(_entry(entry))
            if not group.hint and entry.first.hint:
                parts.append(f"→ {prose(entry.first.hint)}")
        hidden = sum(1 + len(entry.others) for entry in group.entries[len(shown) :])
        parts += [f"… and {hidden:,} more"] if hidden else []
        parts += [f"→ {prose(group.hint)}"] if group.hint else []
        lines.append("<br>".join(parts))
    rules = len({(finding.rule, finding.level) for finding in members}) - len(lines)
    return "\n".join(lines) + (f"\n\n… and {plural(rules, 'more rule')}" if rules else "")


def _entry(entry: FindingEntry) -> str:
    finding = entry.first
    says = (f"{code(finding.field)} " if finding.field else "") + prose(finding.message)
    if entry.others:
        what, names = entry.names
        listed = ", ".join(code(name) for name in names[:_MAX_LISTED])
        more = len(names) - _MAX_LISTED
        return f"{says}<br>{f'{prose(what)}: ' if what else ''}{listed}" + (f" and {more:,} more" if more > 0 else "")
    name = name_of(finding)
    subject = f" {code(finding.subject)}" if finding.subject not in ("", name) else ""
    return (f"{code(name)}{subject}: " if name else "") + says
