"""The section about money: GPUs per hour by queue and by team, runs of jobs, commitments, and GPUs that do nothing."""

from collections.abc import Iterable, Iterator

from reconciler.console.page import Piece, Style, Styled
from reconciler.plan import CostLine, JobChange
from reconciler.plan.outputs.findings import qualified_name
from reconciler.plan.outputs.sections.model import (
    Column,
    Form,
    Name,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
    View,
)
from reconciler.plan.plan import CommitmentUse, IdleCost, OwnerCost

_UNKNOWN = "unknown"


def _numbers(*titles: str) -> tuple[Column, ...]:
    return tuple(Column(title, Form.NUMBER) for title in titles)


_QUEUE = (Column("queue"), Column("product", Form.PRODUCT))
_NOTE = Column("", Form.NOTE)
_QUEUE_COLUMNS = (Column("cluster"), *_QUEUE, *_numbers("GPU hour", "per hour", "GPU hours", "their cost"))
_OWNER_COLUMNS = (Column("cluster"), Column("team"), *_numbers("per hour"), _NOTE)
_JOB_COLUMNS = (Column("job"), Column("cluster"), *_numbers("GPU hours", "cost"), _NOTE)
_IDLE_COLUMNS = (Column("idle in cluster"), *_QUEUE, *_numbers("GPUs", "idle", "per hour"), _NOTE)


def costs(view: View) -> PageSection | None:
    """Return the costs of queues and teams that change, and the runs of jobs that change, where they are known."""
    plan = view.plan
    changed = [line for line in plan.costs if view.full or _changes(line)]
    priced = {line.cluster for line in plan.costs}
    runs = [job for job in plan.jobs if _has_run(job, is_priced=job.cluster in priced, full=view.full)]
    if not changed and not runs:
        return None
    queues = {(line.cluster, line.queue) for line in changed}
    owners = [one for one in plan.owners if view.full or one.per_hour_before != one.per_hour_after or one.unpriced]
    idle = [one for one in plan.idle if view.full or (one.cluster, one.queue) in queues]
    tables = (
        TableBlock(columns=_QUEUE_COLUMNS, rows=tuple(map(_queue, changed))),
        TableBlock(columns=_OWNER_COLUMNS, rows=tuple(map(_owner, owners))),
        TableBlock(columns=_JOB_COLUMNS, rows=tuple(map(_job, runs))),
        TableBlock(columns=_IDLE_COLUMNS, rows=tuple(map(_idle, idle))),
    )
    texts = (*(_commitment(one) for one in plan.commitments), *_sources(changed))
    sentences = (SentenceBlock((text,)) for text in texts)
    return PageSection(title="Costs", blocks=(*(table for table in tables if table.rows), *sentences))


def _has_run(job: JobChange, *, is_priced: bool, full: bool) -> bool:
    """Return whether a row tells the run of a job: without prices, only one whose length is computed."""
    hours = job.gpu_hours_before, job.gpu_hours_after
    return hours != (None, None) and (full or hours[0] != hours[1]) and (is_priced or not job.length)


def _changes(line: CostLine) -> bool:
    hours = line.gpu_hours_before, line.gpu_hours_after
    return line.per_hour_before != line.per_hour_after or line.price is None or hours != (None, None)


def _queue(line: CostLine) -> Row:
    return (
        Name(line.cluster),
        _name(line.queue),
        Name(f"{line.product} (spot)" if line.spot else line.product) if line.product else "any",
        Styled(_UNKNOWN, Style.WARNING) if line.price is None else f"{line.price:,.2f}",
        _change(line.per_hour_before, line.per_hour_after) if line.price is not None else _UNKNOWN,
        _change(line.gpu_hours_before, line.gpu_hours_after),
        _change(line.money_before, line.money_after),
    )


def _owner(one: OwnerCost) -> Row:
    unpriced = f"and {_UNKNOWN}: {', '.join(one.unpriced)}" if one.unpriced else ""
    return (
        Name(one.cluster),
        _name(one.owner),
        f"{_change(one.per_hour_before, one.per_hour_after)} {one.currency}",
        Styled(unpriced, Style.WARNING),
    )


def _job(job: JobChange) -> Row:
    money = _change(job.money_before, job.money_after)
    most = f", p90 {job.money_most:,.2f} {job.currency}" if job.money_most is not None else ""
    return (
        Styled(qualified_name(job.key), Style.STRONG),
        Name(job.cluster),
        _change(job.gpu_hours_before, job.gpu_hours_after),
        f"{money} {job.currency}" if money else _UNKNOWN,
        Styled(f"{job.length}{most}", Style.DIM),
    )


def _idle(one: IdleCost) -> Row:
    idle = _UNKNOWN if one.idle is None else f"{one.idle:.0%}"
    money = _UNKNOWN if one.per_hour is None else f"{one.per_hour:,.2f} {one.currency}"
    minutes = f"{one.window_seconds // 60} min before {one.taken_at}"
    return (
        Name(one.cluster),
        _name(one.queue),
        Name(one.product) if one.product else _UNKNOWN,
        f"{one.covered} of {one.gpus} measured",
        idle,
        money,
        Styled(minutes, Style.DIM),
    )


def _commitment(one: CommitmentUse) -> str:
    before, after = f"{one.used_before:g}", f"{one.used_after:g}"
    used = after if before == after else f"{before} → {after}"
    rest = f"; the rest costs {one.unused_per_hour:,.2f} {one.currency} per hour all the same"
    said = f"Commitment in {one.cluster}: {used} of {one.count} {one.product} requested"
    return said + (rest if one.unused_per_hour else "")


def _name(text: str) -> Piece:
    return Name(text) if text else "(no queue)"


def _change(before: float | None, after: float | None) -> str:
    """Return an amount before and after; a side without a job has none."""
    if before is None and after is None:
        return ""
    if before == after:
        return f"{after:,.2f}"
    return " → ".join("-" if amount is None else f"{amount:,.2f}" for amount in (before, after))


def _sources(lines: Iterable[CostLine]) -> Iterator[str]:
    """Yield the sources of the prices."""
    for currency, source, date in sorted({(line.currency, line.source, line.date) for line in lines}):
        yield f"Prices in {currency} from {source}, {date}"
