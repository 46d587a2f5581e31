"""Reports as text, Markdown, CSV and JSON. What is unknown is a word in the first two, empty or null in the others."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from reconciler.console.page import Page, Piece, Style, Styled
from reconciler.plan.outputs.markdown import sections_markdown
from reconciler.plan.outputs.sections.model import (
    Block,
    Column,
    Form,
    Name,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
)
from reconciler.plan.outputs.terminal_sections import write_sections
from reconciler.reports.recorded import Freeing
from reconciler.reports.use import UseRow
from reconciler.reports.waiting import QueueUse

FORMATS = ("text", "json", "csv", "markdown")
_UNKNOWN = Styled("unknown", Style.WARNING)
_MAX_ROWS, _MAX_IDLE = 200, 10


class IdleJob(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job whose GPUs do nothing, and the edit that frees them."""

    cluster: str
    job: str
    idle: float
    idle_share: float | None
    wasted: float | None
    currency: str
    freeing: Freeing | None = None


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
    """A report: rows of one kind, and what they are about.

    by: team, queue or job. window: in words. notes: where the figures come from, and what is missing.
    """

    kind: str
    by: str
    window: str
    rows: tuple[UseRow, ...] | tuple[QueueUse, ...]
    idle_jobs: tuple[IdleJob, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


def idle_jobs(rows: Iterable[UseRow], edits: Mapping[tuple[str, str], Freeing]) -> tuple[IdleJob, ...]:
    """Return the jobs that leave most GPU hours unused."""
    idle = sorted((row for row in rows if row.idle > 0), key=lambda row: (-row.idle, row.cluster, row.name))
    return tuple(
        IdleJob(
            cluster=row.cluster,
            job=row.name,
            idle=row.idle,
            idle_share=row.idle_share,
            wasted=row.wasted,
            currency=row.currency,
            freeing=edits.get((row.cluster, row.name)),
        )
        for row in idle[:_MAX_IDLE]
    )


def render(report: Report, form: str, *, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    """Return a report in one of the formats."""
    match form:
        case "json":
            return json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False) + "\n"
        case "csv":
            return _csv(report)
        case "markdown":
            return "\n\n".join(sections_markdown(report_sections(report), _MAX_ROWS)) + "\n"
    page = Page(width=width, color=color, unicode=unicode)
    write_sections(page, report_sections(report), full=True)
    return page.text()


def _csv(report: Report) -> str:
    """Return the rows as CSV. A value that a spreadsheet would calculate is text."""
    text = io.StringIO()
    fields = [*msgspec.to_builtins(report.rows[0])] if report.rows else ["cluster", "name"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    for row in report.rows:
        writer.writerow([_plain(value) for value in msgspec.to_builtins(row).values()])
    return text.getvalue()


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


_Cell = tuple[Column, Callable[[UseRow], Piece]]


def _number(value: float | None, digits: int = 1) -> Piece:
    return _UNKNOWN if value is None else f"{value:,.{digits}f}"


def _share(value: float | None) -> Piece:
    return _UNKNOWN if value is None else f"{value:.0%}"


def _wait(hours: float | None, more: str = "") -> Piece:
    return _UNKNOWN if hours is None else f"{hours:,.1f} h{more}"


def _money(value: float | None, row: UseRow) -> Piece:
    """Return money, and the products that are not in it because they have no price."""
    missing = f"unknown: {', '.join(row.unpriced)}" if row.unpriced else ""
    if value is None:
        return Styled(missing, Style.WARNING) if missing else _UNKNOWN
    return f"{value:,.2f} {row.currency}{f' and {missing}' if missing else ''}"


def _trend(row: UseRow) -> Piece:
    if row.slope is None or row.r2 is None:
        return Styled(row.trend, Style.DIM)
    return f"{row.slope:+.2f} %/h, R² {row.r2:.2f}"


def _right(title: str) -> Column:
    return Column(title, Form.NUMBER)


_HELD: tuple[_Cell, ...] = (
    (Column("cluster"), lambda row: Name(row.cluster)),
    (Column(""), lambda row: Name(row.name) if row.name else "(none)"),
    (_right("GPU hours"), lambda row: _number(row.gpu_hours)),
    (_right("measured"), lambda row: _share(row.coverage)),
)
_EFFICIENCY: tuple[_Cell, ...] = (
    *_HELD,
    (_right("busy"), lambda row: _number(row.busy if row.covered else None)),
    (_right("idle"), lambda row: _number(row.idle if row.covered else None)),
    (_right("idle %"), lambda row: _share(row.idle_share)),
    (_right("mean"), lambda row: _number(row.mean)),
    (_right("peak"), lambda row: _number(row.peak)),
    (_right("energy, kWh"), lambda row: _number(row.kwh)),
    (_right("wasted"), lambda row: _money(row.wasted, row)),
    (Column("trend", Form.NOTE), _trend),
)
_COST: tuple[_Cell, ...] = (
    *_HELD,
    (_right("cost"), lambda row: _money(row.cost, row)),
    (_right("of it idle"), lambda row: _money(row.wasted, row)),
)
_QUEUES = (
    Column("cluster"),
    Column(""),
    _right("GPUs held"),
    _right("workloads"),
    _right("waiting"),
    _right("GPUs wanted"),
    _right("longest"),
    _right("waited p50"),
    _right("p90"),
    Column("why", Form.NOTE),
)
_TITLES = {"efficiency": "Efficiency", "cost": "Cost", "queues": "Queues"}


def report_sections(report: Report) -> list[PageSection]:
    """Return what pages show of a report."""
    table = _queues(report) if report.kind == "queues" else _use(report)
    says = [f"Window: {report.window}", *(f"Note: {note}" for note in report.notes)]
    says += [f"Warning: {failure}" for failure in report.failures]
    sentences = (SentenceBlock((text,)) for text in says)
    first: Block = table if table.rows else SentenceBlock(("Nothing held GPUs, or nothing is known.",))
    title = f"{_TITLES[report.kind]} by {report.by}"
    sections = [PageSection(title=title, count=len(report.rows), blocks=(first, *sentences))]
    if report.idle_jobs:
        sections.append(PageSection(title="Idle jobs", blocks=(_idle(report.idle_jobs),)))
    return sections


def _use(report: Report) -> TableBlock:
    cells = _COST if report.kind == "cost" else _EFFICIENCY
    columns = tuple(column if column.title or column.form is Form.NOTE else Column(report.by) for column, _ in cells)
    rows = (tuple(cell(row) for _, cell in cells) for row in report.rows if isinstance(row, UseRow))
    return TableBlock(columns=columns, rows=tuple(rows))


def _queues(report: Report) -> TableBlock:
    columns = (_QUEUES[0], Column(report.by), *_QUEUES[2:])
    return TableBlock(columns=columns, rows=tuple(_queue(row) for row in report.rows if isinstance(row, QueueUse)))


def _queue(row: QueueUse) -> Row:
    of = f" of {row.samples} in {row.window}" if row.samples is not None else ""
    return (
        Name(row.cluster),
        Name(row.name) if row.name else "(none)",
        str(row.gpus),
        str(row.workloads),
        str(row.waiting),
        str(row.waiting_gpus),
        _wait(row.longest) if row.waiting else "",
        _wait(row.p50_hours),
        _wait(row.p90_hours, of),
        Styled(f"{row.longest_job}: {row.reason}" if row.reason else row.longest_job, Style.DIM),
    )


def _idle(jobs: Sequence[IdleJob]) -> TableBlock:
    columns = (
        Column("cluster"),
        Column("job"),
        _right("idle GPU hours"),
        _right("idle %"),
        _right("wasted"),
        Column("to free them", Form.NOTE),
    )
    return TableBlock(columns=columns, rows=tuple(map(_idle_row, jobs)))


def _idle_row(job: IdleJob) -> Row:
    found = job.freeing
    edit: Piece = Name(f"{found.place}: {found.edit}") if found is not None else "not in this repository"
    money = _UNKNOWN if job.wasted is None else f"{job.wasted:,.2f} {job.currency}"
    return (Name(job.cluster), Name(job.job), _number(job.idle), _share(job.idle_share), money, edit)
