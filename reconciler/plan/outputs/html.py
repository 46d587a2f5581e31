"""The HTML output: a plan as one file, which a browser shows without a network and a reader prints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from reconciler.console.page import Piece, Style
from reconciler.html import AmountBar, Mark, bars, page, source_address
from reconciler.kube.values import plural
from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import Operation, Plan, Revision
from reconciler.plan.outputs.filters import apply_filters
from reconciler.plan.outputs.findings import FindingGroup, Level, group_findings, name_of, where
from reconciler.plan.outputs.followers import told
from reconciler.plan.outputs.groups import ChangeGroup, group_changes
from reconciler.plan.outputs.markdown import compact_lines, diff_of, field_lines
from reconciler.plan.outputs.sections import plan_sections
from reconciler.plan.outputs.sections.live import refusal_words
from reconciler.plan.outputs.sections.model import (
    Block,
    Column,
    CommandBlock,
    FactsBlock,
    FindingsBlock,
    Form,
    Link,
    Name,
    NamesBlock,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
    View,
)
from reconciler.plan.outputs.summary import blockers, closing_line, counts, headlines
from reconciler.plan.outputs.summary.answers import answers
from reconciler.plan.outputs.summary.queues import arrow, gpus, number, queue_rows

_CSS = {
    Style.PLAIN: "",
    Style.STRONG: "strong",
    Style.DIM: "dim",
    Style.CREATED: "created",
    Style.UPDATED: "updated",
    Style.DELETED: "deleted",
    Style.MOVED: "moved",
    Style.ERROR: "error",
    Style.WARNING: "warning",
    Style.SUCCESS: "success",
}
_SIGNS = {
    Operation.CREATE: ("+", "created"),
    Operation.UPDATE: ("~", "updated"),
    Operation.REPLACE: ("∓", "deleted"),
    Operation.DELETE: ("-", "deleted"),
    Operation.MOVE: ("→", "moved"),
}
_LINES = {"+": "add", "-": "del", "#": "note", "@": "note"}
_ROOM = 420_000  # bytes of objects, so that a page of 1,000 changes stays below 500 kB
_MARKUP = 350  # bytes around one object
_MAX_ROWS = 200  # of a table or a list
_MAX_NAMES = 20  # of objects with the same finding
_MAX_BARS = 40
_MAX_LINES = 200  # of one object


def render_html(plan: Plan, options: RenderOptions = DEFAULTS) -> str:
    """Render the plan as a page of its own."""
    return page("plan.html", **plan_values(plan, options))


def plan_values(
    plan: Plan, options: RenderOptions = DEFAULTS, evidence: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return what the template `plan.html` shows.

    evidence: where the figures of a section come from, by its title, on pages that have links; None: a file has none.
    """
    listed = apply_filters(plan, options.filters)
    view = View(plan=listed.plan, full=options.full, queues=listed.queues)
    objects, omitted = ([], 0) if options.summary else _objects(view.plan, full=options.full)
    blocking = blockers(plan)
    charts = {"GPUs": _queue_bars, "Capacity": _capacity_bars}
    return {
        "title": headlines(plan)[0],
        "headlines": (*headlines(plan), *([listed.note] if listed.note else [])),
        "counts": [text for _, text in counts(plan)],
        "refusal": f"{refusal_words(plan)}: {', '.join(blocking)}" if blocking else "",
        "answers": [
            {"question": one.question, "text": one.text, "css": _CSS[one.style]} for one in answers(plan, view.plan)
        ],
        "sections": [
            section_values(
                one,
                charts[one.title](view.plan) if one.title in charts else "",
                None if evidence is None else evidence.get(one.title, ""),
            )
            for one in plan_sections(view, summary=options.summary)
        ],
        "objects": objects,
        "object_count": f"{len(view.plan.changes):,}",
        "omitted": f"… and {plural(omitted, 'more object')}; `reconciler plan` shows all" if omitted else "",
        "closing": "" if plan.is_empty else closing_line(plan),
        "revisions": f"{_revision(plan.base)} → {_revision(plan.head)}",
        "digest": plan.digest or "(no digest)",
        "engine": plan.engine,
    }


def _revision(revision: Revision) -> str:
    return f"{revision.label} {revision.commit[:12]}".strip()


def section_values(section: PageSection, chart: str = "", evidence: str | None = None) -> dict[str, Any]:
    """Return what the template shows of a section, below a chart.

    evidence: the address that figures lead to, unless their row has a place; empty: there is none. None: no links.
    """
    return {
        "title": section.title + (f" ({section.remark})" if section.remark else ""),
        "count": f"{section.count:,}" if section.count else "",
        "is_folded": section.is_folded,
        "chart": chart,
        "blocks": [_block(block, evidence) for block in section.blocks],
    }


def _queue_bars(plan: Plan) -> Markup:
    """Draw the GPUs that the changed queues request, before and after, with their quota and limit."""
    rows = [row for row in queue_rows(plan) if row.is_changed and not row.is_cohort]
    ranked = sorted(rows, key=lambda row: -max(abs(row.delta), row.quota_change))[:_MAX_BARS]
    return bars(
        [
            AmountBar(
                label=row.queue or "(no queue)",
                before=float(row.requested_before),
                after=float(row.requested_after),
                text=f"{row.requested_before} → {row.requested_after}",
                marks=tuple(
                    Mark(name=name, at=amount)
                    for name, amount in (("quota", row.guaranteed_after), ("limit", row.limit))
                    if row.has_quota and amount is not None
                ),
                is_over=row.over_limit > 0,
            )
            for row in ranked
        ],
        title="Requested GPUs by queue: grey before, blue after; the line is the quota, the dashed line the limit",
    )


def _capacity_bars(plan: Plan) -> Markup:
    """Draw the GPUs that are requested of each product, with those that the nodes have."""
    return bars(
        [
            AmountBar(
                label=line.product or "any product",
                before=float(line.capacity),
                after=float(line.requested),
                text=f"{number(line.requested)} of {arrow(line.before, line.capacity)}",
                is_over=line.requested > line.capacity,
            )
            for line in plan.capacity[:_MAX_BARS]
        ],
        title="Requested GPUs by product, of those that the nodes have (grey)",
    )


def _block(block: Block, evidence: str | None) -> dict[str, Any]:
    match block:
        case TableBlock():
            return {"kind": "table", **_table(block, evidence)}
        case SentenceBlock(pieces):
            return {"kind": "sentence", "pieces": _pieces(pieces)}
        case CommandBlock(text):
            return {"kind": "command", "text": text}
        case NamesBlock(names):
            return {"kind": "names", "names": names[:_MAX_ROWS], "more": max(0, len(names) - _MAX_ROWS)}
        case FactsBlock():
            return {
                "kind": "facts",
                "title": _pieces(block.title),
                "facts": [(label, _pieces(pieces)) for label, pieces in block.facts],
                "details": _table(block.details, evidence) if block.details is not None else None,
                "details_title": block.details_title,
            }
        case FindingsBlock(members=members):
            return {"kind": "findings", "groups": [_findings(group) for group in group_findings(members)]}


_FORMS = {Form.NUMBER: "number", Form.NOTE: "note"}


def _table(table: TableBlock, evidence: str | None) -> dict[str, Any]:
    table = table.without_empty_notes()
    rows = table.rows[:_MAX_ROWS]
    return {
        "columns": [{"title": one.title, "css": _FORMS.get(one.form, "")} for one in table.columns],
        "rows": [_pieces(row if evidence is None else _linked(table.columns, row, evidence)) for row in rows],
        "footer": [_pieces(row if evidence is None else _linked(table.columns, row, evidence)) for row in table.footer],
        "more": max(0, len(table.rows) - _MAX_ROWS),
    }


def _linked(columns: Sequence[Column], row: Row, evidence: str) -> Row:
    """Return a row whose place is a link, and whose figures lead there, or else to the evidence."""
    pairs = [*zip(row, columns, strict=True)]
    place = next((cell.text for cell, column in pairs if isinstance(cell, Name) and column.form is Form.PLACE), "")
    target = source_address(place) if place else evidence
    return tuple(_link(cell, target) if target and _leads(cell, column) else cell for cell, column in pairs)


def _link(cell: Piece, target: str) -> Link:
    words, style = (cell, Style.PLAIN) if isinstance(cell, str) else (cell.text, cell.style)
    return Link(words, style, target)


def _leads(cell: Piece, column: Column) -> bool:
    """Return whether a cell is a place or a figure that leads nowhere yet."""
    if isinstance(cell, Link):
        return False
    words = cell if isinstance(cell, str) else cell.text
    is_place = isinstance(cell, Name) and column.form is Form.PLACE
    return is_place or (column.form is Form.NUMBER and any(sign.isdigit() for sign in words))


def _pieces(pieces: Iterable[Piece]) -> list[str | dict[str, Any]]:
    return [
        one
        if isinstance(one, str)
        else {
            "text": one.text,
            "css": _CSS[one.style],
            "is_name": isinstance(one, Name),
            "href": one.href if isinstance(one, Link) else "",
        }
        for one in pieces
    ]


_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "note"}


def _findings(group: FindingGroup) -> dict[str, Any]:
    entries = []
    for entry in group.entries[:_MAX_ROWS]:
        finding = entry.first
        says = f"{finding.field}: {finding.message}" if finding.field else finding.message
        if entry.others:
            what, names = entry.names
            listed = ", ".join(names[:_MAX_NAMES])
            more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
            says += f" ({f'{what}: ' if what else ''}{listed}{more})"
            entries.append({"name": "", "place": "", "text": says})
        else:
            name = name_of(finding)
            subject = f"{finding.subject}: " if finding.subject not in ("", name) else ""
            place = where(finding.place)
            entries.append({"name": name, "place": place if name == place else "", "text": subject + says})
    return {
        "css": _LEVELS[group.first.level],
        "rule": group.first.rule,
        "label": group.first.label,
        "count": group.count,
        "entries": entries,
        "more": max(0, len(group.entries) - _MAX_ROWS),
        "hint": group.hint or (group.entries[0].first.hint if len(group.entries) == 1 else ""),
    }


def _objects(plan: Plan, *, full: bool) -> tuple[list[dict[str, Any]], int]:
    """Return the changed objects while there is room, and the number of the others."""
    shown: list[dict[str, Any]] = []
    used, left = 0, len(plan.changes)
    for group in group_changes(plan):
        for made in (_object(group, full=full), _title(group)):
            size = _MARKUP + sum(len(str(value)) for value in made.values())
            if used + size <= _ROOM:
                break
        else:
            break
        shown.append(made)
        used += size
        left -= 1 + len(group.others)
    return shown, left


def _object(group: ChangeGroup, *, full: bool) -> dict[str, Any]:
    change = group.first
    made = _title(group)
    if change.operation in (Operation.CREATE, Operation.DELETE) and not full:
        lines: Sequence[str] = tuple(compact_lines(group))
        rest: Sequence[str] = ()
    else:
        lines = tuple(diff_of(group, full=full))
        hidden = [field for one in told(group, full=full).followers for field in one.fields]
        rest = tuple(field_lines(group, hidden, full=False)) if hidden else ()
        made["rest_title"] = f"The {plural(len(hidden), 'field')}"
    return made | {"lines": list(_marked(lines)), "rest": list(_marked(rest))}


def _marked(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield lines with the class of each, and say how many are left out."""
    for line in lines[:_MAX_LINES]:
        yield _LINES.get(line[:1], ""), line
    if len(lines) > _MAX_LINES:
        yield "note", f"… {plural(len(lines) - _MAX_LINES, 'more line')}"


def _title(group: ChangeGroup) -> dict[str, Any]:
    change = group.first
    sign, css = _SIGNS[change.operation]
    kind, _, name = group.title.partition(" ")
    each = " each" if group.others else ""
    is_edit = change.operation in (Operation.UPDATE, Operation.REPLACE, Operation.MOVE)
    return {
        "sign": sign,
        "css": css,
        "kind": kind,
        "name": name,
        "gpus": f"{change.gpus_before} → {gpus(change.gpus_after)}{each}"
        if change.gpus_before != change.gpus_after
        else "",
        "fields": plural(len(change.fields), "field") if change.fields and is_edit else "",
        "place": where(change.source) if change.source is not None and not group.others else "",
        "names": group.names[:_MAX_ROWS] if group.others else (),
        "lines": [],
        "rest": [],
        "rest_title": "",
    }
