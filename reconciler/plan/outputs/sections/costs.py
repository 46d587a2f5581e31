"""The section about money: what GPUs cost per hour by queue, and what whole runs of jobs cost."""

from collections.abc import Iterator

from reconciler.console.page import Style, Styled
from reconciler.plan import CostLine, JobChange
from reconciler.plan.outputs.findings import qualified_name
from reconciler.plan.outputs.sections.model import Column, Form, Name, PageSection, Row, SentenceBlock, TableBlock, View

_UNKNOWN = "unknown"
_QUEUE_COLUMNS = (
    Column("cluster"),
    Column("queue"),
    Column("product", Form.PRODUCT),
    Column("GPU hour", Form.NUMBER),
    Column("per hour", Form.NUMBER),
    Column("GPU hours", Form.NUMBER),
    Column("for these", Form.NUMBER),
)
_JOB_COLUMNS = (Column("job"), Column("cluster"), Column("GPU hours", Form.NUMBER), Column("cost", Form.NUMBER))


def costs(view: View) -> PageSection | None:
    """Return the costs of queues that change, and the whole runs of jobs that change, where they are known."""
    changed = [line for line in view.plan.costs if view.full or _changes(line)]
    runs = [job for job in view.plan.jobs if job.gpu_hours_before is not None or job.gpu_hours_after is not None]
    if not changed and not runs:
        return None
    blocks: list[TableBlock | SentenceBlock] = []
    if changed:
        blocks.append(TableBlock(columns=_QUEUE_COLUMNS, rows=tuple(map(_queue, changed))))
    if runs:
        blocks.append(TableBlock(columns=_JOB_COLUMNS, rows=tuple(map(_job, runs))))
    blocks += (SentenceBlock((text,)) for text in _sources(changed))
    return PageSection(title="Costs", blocks=tuple(blocks))


def _changes(line: CostLine) -> bool:
    hours = line.gpu_hours_before, line.gpu_hours_after
    return line.per_hour_before != line.per_hour_after or line.price is None or hours != (None, None)


def _queue(line: CostLine) -> Row:
    return (
        Name(line.cluster),
        Name(line.queue) if line.queue else "(no queue)",
        Name(line.product) if line.product else "any",
        Styled(_UNKNOWN, Style.WARNING) if line.price is None else f"{line.price:,.2f}",
        _change(line.per_hour_before, line.per_hour_after) if line.price is not None else _UNKNOWN,
        _change(line.gpu_hours_before, line.gpu_hours_after),
        _change(line.money_before, line.money_after),
    )


def _job(job: JobChange) -> Row:
    money = _change(job.money_before, job.money_after)
    return (
        Styled(qualified_name(job.key), Style.STRONG),
        Name(job.cluster),
        _change(job.gpu_hours_before, job.gpu_hours_after),
        f"{money} {job.currency}" if money else _UNKNOWN,
    )


def _change(before: float | None, after: float | None) -> str:
    """Return an amount before and after; a side without a job has none."""
    if before is None and after is None:
        return ""
    if before == after:
        return f"{after:,.2f}"
    return " → ".join("-" if amount is None else f"{amount:,.2f}" for amount in (before, after))


def _sources(lines: list[CostLine]) -> Iterator[str]:
    """Yield the sources of the prices."""
    for currency, source, date in sorted({(line.currency, line.source, line.date) for line in lines}):
        yield f"Prices in {currency} from {source}, {date}"
