"""Sections about GPUs: queues, capacity and jobs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from reconciler.console.page import Piece, Style, Styled
from reconciler.kinds.quantities import Gpus, total
from reconciler.kube.values import plural
from reconciler.plan import CapacityLine, EvidenceChange, JobChange, UnknownGpus
from reconciler.plan.outputs.findings import qualified_name, where
from reconciler.plan.outputs.sections.model import (
    Column,
    Form,
    Name,
    PageSection,
    Row,
    SentenceBlock,
    TableBlock,
    View,
    strong,
)
from reconciler.plan.outputs.summary.queues import (
    QueueRow,
    RequestTotal,
    arrow,
    hidden_requests,
    number,
    percent,
    queue_rows,
    signed,
    total_requests,
)

_MANY_JOBS = 4  # rows that differ only in the name of the job, and are shown as one
_NO_QUEUE = Styled("(no queue)", Style.WARNING)
_WORD_STYLES = {
    "added": Style.CREATED,
    "removed": Style.DELETED,
    "resized": Style.UPDATED,
    "changed": Style.UPDATED,
    "replaced": Style.DELETED,
    "refused": Style.ERROR,
}

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
    """Return requests and quotas of the queues that change; the others are counted."""
    rows = queue_rows(view.plan)
    moving = {row.cluster for row in rows if row.delta}
    changed = [row for row in rows if row.is_changed or (row.is_parent and row.over_limit and row.cluster in moving)]
    whole = {(row.cluster, row.queue) for row in changed} & {(row.cluster, row.queue) for row in rows if row.is_whole}
    candidates = (
        rows if view.full and changed else [row for row in rows if row in changed or (row.cluster, row.queue) in whole]
    )
    shown = [row for row in candidates if view.queues is None or (row.cluster, row.queue) in view.queues]
    unknown = tuple(_unknown(view.plan.unknown_gpus))
    if not shown:
        return PageSection(title="GPUs", blocks=unknown) if unknown else None
    footer = []
    hidden = [row for row in rows if row not in shown]
    if hidden:
        footer.append(_hidden_row(hidden, hidden_requests(view.plan, shown)))
    if len(rows) > 1:
        footer.append(_total_row("total", total_requests(view.plan), Style.STRONG, is_known=not unknown))
    ranked = sorted(shown, key=lambda row: -max(abs(row.delta), row.quota_change))
    table = TableBlock(columns=_QUEUE_COLUMNS, rows=tuple(map(_queue_row, ranked)), footer=tuple(footer))
    return PageSection(title="GPUs", blocks=(table, *unknown))


def _unknown(unknown: Sequence[UnknownGpus]) -> Iterator[SentenceBlock]:
    """Yield a sentence about GPUs that the table does not include, for all objects of which it says the same."""
    alike: dict[tuple[str, str, str], list[UnknownGpus]] = defaultdict(list)
    for one in unknown:
        change = "" if one.before == one.after else "new, " if not one.before else "removed, " if not one.after else ""
        alike[one.cluster, change, ", ".join(dict.fromkeys(one.after or one.before))].append(one)
    for (cluster, change, what), (first, *others) in alike.items():
        more = f" and {len(others):,} more" if others else ""
        name = Name(f"{first.key.kind} {qualified_name(first.key)}")
        yield SentenceBlock(("GPUs unknown: ", name, f"{more} on ", Name(cluster), f" ({change}", Name(what), ")"))


def _hidden_row(hidden: Sequence[QueueRow], requested: RequestTotal) -> Row:
    """Count the queues that do not change, and what reviewers should know about them."""
    over = sum(1 for row in hidden if row.over_limit)
    borrowing = sum(1 for row in hidden if row.borrowed > 0 and not row.over_limit)
    remarks = [f"{over} over the limit" if over else "", f"{borrowing} borrowing" if borrowing else ""]
    *cells, _ = _total_row(plural(len(hidden), "other queue"), requested, Style.DIM)
    return (*cells, Styled(", ".join(filter(None, remarks)), Style.WARNING))


def _queue_row(row: QueueRow) -> Row:
    quota = arrow(row.guaranteed_before, row.guaranteed_after)
    style = Style.CREATED if row.delta > 0 else Style.DELETED if row.delta else Style.DIM
    return (
        Name(row.cluster),
        _queue_cell(row),
        _product(row.product),
        str(row.requested_with_children) if row.is_parent else arrow(row.requested_before, row.requested_after),
        "" if row.is_parent else Styled(signed(row.delta), style),
        Styled(quota, Style.UPDATED if row.quota_is_changed else Style.PLAIN) if row.has_quota else "",
        ("none" if row.limit is None else number(row.limit)) if row.has_quota and row.exists_after else "",
        Styled(row.remark, Style.ERROR if row.over_limit or not row.exists_after else Style.WARNING),
    )


def _queue_cell(row: QueueRow) -> Piece:
    if row.is_cohort:
        return strong(f"{row.queue} (cohort)")
    return strong(row.queue) if row.queue else _NO_QUEUE


def _total_row(name: str, requested: RequestTotal, style: Style, *, is_known: bool = True) -> Row:
    change = signed(requested.after - requested.before)
    more = "" if is_known else " + unknown"
    note = f"may grow to {number(requested.most)}" if requested.most > requested.after else ""
    cells = ("", name, "", arrow(requested.before, requested.after) + more, change + more, "", "", note)
    return tuple(Styled(text, style) for text in cells)


def _product(product: str) -> Piece:
    return Name(product) if product else "any"


_CAPACITY_COLUMNS = (
    Column("cluster"),
    Column("product", Form.PRODUCT),
    Column("GPUs", Form.NUMBER),
    Column("quotas", Form.NUMBER),
    Column("requested", Form.NUMBER),
    Column("", Form.NOTE),
)


def capacity(view: View) -> PageSection | None:
    """Return the GPUs of the clusters, before and after, beside quotas and requests; and changes of evidence."""
    if not view.plan.capacity and not view.plan.evidence_changes:
        return None
    table = TableBlock(columns=_CAPACITY_COLUMNS, rows=tuple(map(_capacity_row, view.plan.capacity)))
    changes = map(_evidence_change, view.plan.evidence_changes)
    return PageSection(title="Capacity", blocks=(*([table] if table.rows else []), *changes))


def _evidence_age(line: CapacityLine) -> str:
    """Return the age of the inventory, where its age is limited: `, evidence 3 days old`."""
    return "" if line.evidence_days is None else f", evidence {plural(max(line.evidence_days, 0), 'day')} old"


def _commitment(line: CapacityLine) -> str:
    """Compare all quotas with the GPUs of the cluster: `quotas exceed the GPUs by 8`, `16 in no quota`."""
    if line.guaranteed is None:
        return "a queue is unlimited"
    spare = line.capacity - line.guaranteed
    if spare < 0:
        return f"quotas exceed the GPUs by {number(-spare)}"
    return f"{number(spare)} in no quota" if spare else "all in quotas"


def _evidence_change(change: EvidenceChange) -> SentenceBlock:
    nodes = f"{arrow(change.nodes_before, change.nodes_after)} nodes"
    dates = " → ".join(dict.fromkeys((change.taken_before or "none", change.taken_after or "none")))
    return SentenceBlock(("Evidence of ", Name(change.cluster), f": {nodes}, taken ", Name(dates)))


def _capacity_row(line: CapacityLine) -> Row:
    is_over = line.guaranteed is not None and line.guaranteed > line.capacity
    is_short = line.requested > line.capacity
    share = "" if line.guaranteed is None else f" ({percent(line.guaranteed, line.capacity)})"
    short = f", {number(line.requested - line.capacity)} short" if is_short else ""
    return (
        Name(line.cluster),
        _product(line.product),
        Styled(arrow(line.before, line.capacity), Style.STRONG),
        f"{number(line.guaranteed)}{share}",
        f"{line.requested} ({percent(line.requested, line.capacity)})",
        Styled(
            _commitment(line) + short + _evidence_age(line),
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
    """Return the workloads whose pods, GPUs or names change. Many equal rows become one, except with `full`."""
    if not view.plan.jobs:
        return None
    alike: dict[object, list[JobChange]] = defaultdict(list)
    unknown = {(one.cluster, one.key) for one in view.plan.unknown_gpus}
    for position, job in enumerate(view.plan.jobs):
        is_own = view.full or job.key_before or (job.cluster, job.key) in unknown
        alike[position if is_own else _alike(job)].append(job)
    rows: list[Row] = []
    for members in sorted(alike.values(), key=_most_gpus_first):
        if len(members) >= _MANY_JOBS:
            rows.append(_jobs_row(members))
        else:
            rows += [_job_row(job, is_known=(job.cluster, job.key) not in unknown) for job in members]
    return PageSection(
        title="Jobs", count=len(view.plan.jobs), blocks=(TableBlock(columns=_JOB_COLUMNS, rows=tuple(rows)),)
    )


def _most_gpus_first(members: Sequence[JobChange]) -> tuple[Gpus, Gpus]:
    """Order rows by the GPUs that they change, then by their GPUs."""
    change = sum(abs(job.gpus_after - job.gpus_before) for job in members)
    return -change, -sum(job.gpus_after for job in members)


def _alike(job: JobChange) -> tuple[object, ...]:
    gpus = (job.gpus_before, job.gpus_after, job.range_after)
    return (job.word, job.cluster, job.key.kind, job.key.namespace, job.queue, *gpus)


def _job_row(job: JobChange, *, is_known: bool = True) -> Row:
    name, cluster = qualified_name(job.key), job.cluster
    if job.key_before is not None and job.key_before != job.key:
        is_near = job.key_before.namespace == job.key.namespace
        name = f"{qualified_name(job.key_before)} → {job.key.name if is_near else name}"
    if job.cluster_before not in ("", cluster):
        cluster = f"{job.cluster_before} → {cluster}"
    return (
        Styled(job.word, _WORD_STYLES.get(job.word, Style.MOVED)),
        strong(name),
        Name(cluster),
        _gpus(job.gpus_before, job.gpus_after, job.range_after) + ("" if is_known else " + unknown"),
        Name(job.queue) if job.queue else _NO_QUEUE,
        Name(where(job.source), Style.DIM),
    )


def _gpus(before: Gpus, after: Gpus, bounds: tuple[Gpus, Gpus] | None) -> str:
    """Return the GPUs of a job: `8`, `8 → 16`, or `8 (4 to 64)` where their number changes while it runs."""
    return arrow(before, after) + (f" ({bounds[0]} to {bounds[1]})" if bounds else "")


def _jobs_row(members: Sequence[JobChange]) -> Row:
    """Return one row for equal changes of many jobs, with the sums of their GPUs."""
    first, *others = members
    least, most = (total(job.range_after[side] for job in members if job.range_after) for side in (0, 1))
    before, after = total(job.gpus_before for job in members), total(job.gpus_after for job in members)
    gpus = _gpus(before, after, (least, most) if first.range_after else None)
    word, _, cluster, _, queue, source = _job_row(first)
    return (word, strong(f"{qualified_name(first.key)} and {len(others):,} more"), cluster, gpus, queue, source)
