"""Sections about GPUs: queues, capacity and jobs."""

from reconciler.core.plan import CapacityLine, JobChange
from reconciler.core.values import plural
from reconciler.outputs.findings import qualified_name, where
from reconciler.outputs.sections.model import Column, Form, Name, PageSection, Row, TableBlock, View, strong
from reconciler.outputs.summary import (
    QueueRow,
    RequestTotal,
    arrow,
    commitment,
    evidence_age,
    hidden_requests,
    number,
    percent,
    queue_rows,
    signed,
    total_requests,
)
from reconciler.outputs.terminal.page import Piece, Style, Styled

_NO_QUEUE = Styled("(no queue)", Style.WARNING)
_WORD_STYLES = {"added": Style.CREATED, "removed": Style.DELETED, "resized": Style.UPDATED}

_QUEUE_COLUMNS = (
    Column("cluster"),
    Column("queue"),
    Column("product", Form.PRODUCT),
    Column("requested", Form.NUMBER),
    Column("+/-", Form.NUMBER),
    Column("quota", Form.NUMBER),
    Column("limit", Form.NUMBER),
    Column("", Form.NOTE),
)


def queues(view: View) -> PageSection | None:
    """Return requested and guaranteed GPUs of the queues that change; the others are counted."""
    rows = queue_rows(view.plan)
    shown = [row for row in rows if view.full or row.is_changed or row.remark]
    if not shown:
        return None
    footer = []
    if len(shown) < len(rows):
        hidden = plural(len(rows) - len(shown), "more queue")
        footer.append(_total_row(hidden, hidden_requests(view.plan, shown), Style.DIM))
    if len(rows) > 1:
        footer.append(_total_row("total", total_requests(view.plan), Style.STRONG))
    table = TableBlock(columns=_QUEUE_COLUMNS, rows=tuple(map(_queue_row, shown)), footer=tuple(footer))
    return PageSection(title="GPUs", blocks=(table,))


def _queue_row(row: QueueRow) -> Row:
    quota = arrow(row.guaranteed_before, row.guaranteed_after)
    style = Style.CREATED if row.delta > 0 else Style.DELETED if row.delta else Style.DIM
    return (
        Name(row.cluster),
        strong(row.queue) if row.queue else _NO_QUEUE,
        _product(row.product),
        str(row.requested_with_children) if row.is_parent else arrow(row.requested_before, row.requested_after),
        "" if row.is_parent else Styled(signed(row.delta), style),
        Styled(quota, Style.UPDATED if row.quota_is_changed else Style.PLAIN) if row.has_quota else "",
        ("none" if row.limit is None else number(row.limit)) if row.has_quota and row.exists_after else "",
        Styled(row.remark, Style.ERROR if row.over_limit or not row.exists_after else Style.WARNING),
    )


def _total_row(name: str, requested: RequestTotal, style: Style) -> Row:
    change = signed(requested.after - requested.before)
    cells = ("", name, "", arrow(requested.before, requested.after), change, "", "", "")
    return tuple(Styled(text, style) for text in cells)


def _product(product: str) -> Piece:
    return Name(product) if product else "any"


_CAPACITY_COLUMNS = (
    Column("cluster"),
    Column("product", Form.PRODUCT),
    Column("GPUs", Form.NUMBER),
    Column("guaranteed", Form.NUMBER),
    Column("requested", Form.NUMBER),
    Column("", Form.NOTE),
)


def capacity(view: View) -> PageSection | None:
    """Return the GPUs of the clusters beside guarantees and requests."""
    if not view.plan.capacity:
        return None
    table = TableBlock(columns=_CAPACITY_COLUMNS, rows=tuple(map(_capacity_row, view.plan.capacity)))
    return PageSection(title="Capacity", blocks=(table,))


def _capacity_row(line: CapacityLine) -> Row:
    is_over = line.guaranteed is not None and line.guaranteed > line.capacity
    is_short = line.requested > line.capacity
    share = "" if line.guaranteed is None else f" ({percent(line.guaranteed, line.capacity)})"
    short = f", {number(line.requested - line.capacity)} short" if is_short else ""
    return (
        Name(line.cluster),
        _product(line.product),
        Styled(str(line.capacity), Style.STRONG),
        f"{number(line.guaranteed)}{share}",
        f"{line.requested} ({percent(line.requested, line.capacity)})",
        Styled(
            commitment(line) + short + evidence_age(line),
            Style.ERROR if is_short else Style.WARNING if is_over else Style.DIM,
        ),
    )


_JOB_COLUMNS = (
    Column(""),
    Column("job"),
    Column("cluster"),
    Column("GPUs", Form.NUMBER),
    Column("queue"),
    Column("source", Form.PLACE),
)


def jobs(view: View) -> PageSection | None:
    """Return the workloads whose pods or GPUs change."""
    if not view.plan.jobs:
        return None
    table = TableBlock(columns=_JOB_COLUMNS, rows=tuple(map(_job_row, view.plan.jobs)))
    return PageSection(title="Jobs", count=len(view.plan.jobs), blocks=(table,))


def _job_row(job: JobChange) -> Row:
    return (
        Styled(job.word, _WORD_STYLES.get(job.word, Style.MOVED)),
        strong(qualified_name(job.key)),
        Name(job.cluster),
        arrow(job.gpus_before, job.gpus_after),
        Name(job.queue) if job.queue else _NO_QUEUE,
        Name(where(job.source), Style.DIM),
    )
