"""The text output: what the plan does to the GPUs, then findings, then every changed object."""

import re
from collections import Counter
from collections.abc import Sequence

from reconciler.core.plan import Change, FieldChange, JobChange, Operation, Plan, Revision
from reconciler.core.plan.digest import acknowledgement
from reconciler.core.values import plural
from reconciler.outputs.differences import (
    ChangeGroup,
    FieldGroup,
    diff_lines,
    format_reason,
    group_changes,
    group_fields,
    is_single_line,
    key_fields,
    scalar,
)
from reconciler.outputs.findings import Category, Finding, Level, findings, qualified_name, where
from reconciler.outputs.registry import DEFAULTS, RenderOptions
from reconciler.outputs.sizing import write_sizing_section
from reconciler.outputs.summary import (
    QueueRow,
    RequestTotal,
    acknowledged_headline,
    arrow,
    blockers,
    commitment,
    counts,
    evidence_age,
    gpus,
    headlines,
    held_back_headline,
    hidden_requests,
    lint_headline,
    number,
    percent,
    queue_rows,
    signed,
    total_requests,
)
from reconciler.outputs.terminal.page import Page, Piece, Style, Styled
from reconciler.outputs.terminal.printable import cells

SIGNS = {Operation.CREATE: "+", Operation.UPDATE: "~", Operation.DELETE: "-", Operation.MOVE: ">"}
OPERATION_STYLES = {
    Operation.CREATE: Style.CREATED,
    Operation.UPDATE: Style.UPDATED,
    Operation.DELETE: Style.DELETED,
    Operation.MOVE: Style.MOVED,
}
_LEVEL_STYLES = {Level.ERROR: Style.ERROR, Level.WARNING: Style.WARNING, Level.NOTE: Style.DIM}
_WORD_STYLES = {"added": Style.CREATED, "removed": Style.DELETED, "resized": Style.UPDATED}
_MAX_PER_RULE = 5  # warnings of one rule; errors are always shown
_MAX_NAMES = 8  # of objects with the same edit
_SHORT_COMMIT = 12
_WIDE_PAGE = 100
_VENDOR = re.compile(r"^(NVIDIA|AMD)-(?=.)")


def render_text(plan: Plan, options: RenderOptions = DEFAULTS) -> str:
    """Render the plan for a terminal."""
    page, full = Page(width=options.width, color=options.color, unicode=options.unicode), options.full
    if options.lint:
        page.write(Styled(lint_headline(plan), Style.ERROR if blockers(plan) else Style.STRONG))
        _findings(page, plan, full=True)
        _exceptions(page, plan)
        return page.text()
    _headline(page, plan)
    _queues(page, plan, full=full)
    _capacity(page, plan)
    _jobs(page, plan)
    write_sizing_section(page, plan, full=full)
    _findings(page, plan, full=full)
    _objects(page, plan, full=full)
    _exceptions(page, plan)
    _footer(page, plan)
    return page.text()


def _headline(page: Page, plan: Plan) -> None:
    for sentence in headlines(plan):
        page.write(Styled(sentence, Style.STRONG))
    pieces: list[Piece] = []
    for operation, count in counts(plan):
        pieces += [*([" · "] if pieces else []), Styled(count, OPERATION_STYLES[operation] if operation else Style.DIM)]
    page.write(*pieces)
    blocking = blockers(plan)
    if blocking:
        page.write(Styled("Cannot be committed: ", Style.ERROR), Styled(", ".join(blocking), Style.ERROR))
    elif plan.breaches:
        page.write(Styled(acknowledged_headline(plan), Style.WARNING))


def _queues(page: Page, plan: Plan, *, full: bool) -> None:
    rows = queue_rows(plan)
    shown = [row for row in rows if full or row.is_changed or row.remark]
    if not shown:
        return
    page.heading("GPUs")
    table = [_queue_row(page, row) for row in shown]
    if len(shown) < len(rows):
        table.append(_total_row(plural(len(rows) - len(shown), "more queue"), hidden_requests(plan, shown), Style.DIM))
    if len(rows) > 1:
        table.append(_total_row("total", total_requests(plan), Style.STRONG))
    header = ("cluster", "queue", "product", "requested", "+/-", "quota", "limit", "")
    page.table(header, table, right=(3, 4, 5, 6), keep=(2,), has_notes=True)


def _product(page: Page, product: str) -> str:
    """Return a GPU product, without its vendor if the page is narrow."""
    return product if page.width >= _WIDE_PAGE else _VENDOR.sub("", product)


def _queue_row(page: Page, row: QueueRow) -> list[Piece]:
    quota = arrow(row.guaranteed_before, row.guaranteed_after)
    style = Style.CREATED if row.delta > 0 else Style.DELETED if row.delta else Style.DIM
    return [
        row.cluster,
        Styled(row.queue or "(no queue)", Style.STRONG if row.queue else Style.WARNING),
        _product(page, row.product) or "any",
        str(row.requested_with_children) if row.is_parent else arrow(row.requested_before, row.requested_after),
        "" if row.is_parent else Styled(signed(row.delta), style),
        Styled(quota, Style.UPDATED if row.quota_is_changed else Style.PLAIN) if row.has_quota else "",
        ("none" if row.limit is None else number(row.limit)) if row.has_quota and row.exists_after else "",
        Styled(row.remark, Style.ERROR if row.over_limit or not row.exists_after else Style.WARNING),
    ]


def _total_row(name: str, requested: RequestTotal, style: Style) -> list[Piece]:
    change = signed(requested.after - requested.before)
    return [
        Styled(text, style) for text in ("", name, "", arrow(requested.before, requested.after), change, "", "", "")
    ]


def _capacity(page: Page, plan: Plan) -> None:
    if not plan.capacity:
        return
    page.heading("Capacity")
    table: list[list[Piece]] = []
    for line in plan.capacity:
        is_over = line.guaranteed is not None and line.guaranteed > line.capacity
        is_short = line.requested > line.capacity
        share = "" if line.guaranteed is None else f"  {percent(line.guaranteed, line.capacity)}"
        remark = commitment(line) + (f", {number(line.requested - line.capacity)} short" if is_short else "")
        remark += evidence_age(line)
        table.append(
            [
                line.cluster,
                _product(page, line.product) or "any",
                Styled(str(line.capacity), Style.STRONG),
                f"{number(line.guaranteed)}{share}",
                f"{line.requested}  {percent(line.requested, line.capacity)}",
                Styled(remark, Style.ERROR if is_short else Style.WARNING if is_over else Style.DIM),
            ]
        )
    page.table(
        ("cluster", "product", "GPUs", "guaranteed", "requested", ""), table, right=(2, 3, 4), keep=(1,), has_notes=True
    )


def _jobs(page: Page, plan: Plan) -> None:
    if not plan.jobs:
        return
    page.heading("Jobs")
    header = ("", "job", "cluster", "GPUs", "queue", "source")
    columns = len(header) if page.width >= _WIDE_PAGE else len(header) - 1  # the objects below show the source as well
    page.table(header[:columns], [_job_row(job)[:columns] for job in plan.jobs], right=(3,))


def _job_row(job: JobChange) -> list[Piece]:
    return [
        Styled(job.word, _WORD_STYLES.get(job.word, Style.MOVED)),
        Styled(qualified_name(job.key), Style.STRONG),
        job.cluster,
        arrow(job.gpus_before, job.gpus_after),
        job.queue or Styled("(no queue)", Style.WARNING),
        Styled(where(job.source), Style.DIM),
    ]


def _findings(page: Page, plan: Plan, *, full: bool) -> None:
    everything = findings(plan)
    checks = [finding for finding in everything if finding.category in (Category.PROBLEM, Category.VERDICT)]
    risks = [finding for finding in everything if finding.category is Category.RISK]
    limit = None if full else _MAX_PER_RULE
    _list(page, "Errors", [finding for finding in checks if finding.level is Level.ERROR], limit=None)
    _held_back(page, plan)
    _breaches(page, plan)
    _list(page, "Risks", risks, limit=limit)
    _list(page, "Warnings", [finding for finding in checks if finding.level is Level.WARNING], limit=limit)
    _list(page, "Notes", [finding for finding in checks if finding.level is Level.NOTE], limit=limit)


def _held_back(page: Page, plan: Plan) -> None:
    if plan.held_back:
        page.blank()
        page.write(Styled(f"{held_back_headline(plan)}:", Style.WARNING))
        for path in plan.held_back:
            page.write(path, indent=2)


def _list(page: Page, title: str, members: Sequence[Finding], *, limit: int | None) -> None:
    if members:
        page.heading(title, Styled(f" ({len(members):,})", Style.DIM))
    per_rule: Counter[str] = Counter()
    for finding in members:
        per_rule[finding.rule] += 1
        if limit is None or per_rule[finding.rule] <= limit:
            _finding(page, finding)
    for rule, count in per_rule.items():
        if limit is not None and count > limit:
            page.write(Styled(f"… {count - limit:,} more of {rule} (use --full to show all)", Style.DIM), indent=2)


def _finding(page: Page, finding: Finding) -> None:
    place = Styled(where(finding.place) or finding.subject, Style.STRONG)
    mark = Styled("! ", _LEVEL_STYLES[finding.level])
    page.write(mark, place, "  ", Styled(finding.rule, _LEVEL_STYLES[finding.level]), indent=2)
    subject = [f"{finding.subject}: "] if finding.place and finding.subject else []
    field = [f"{finding.field}: "] if finding.field else []
    page.write(*subject, *field, finding.message, indent=4, hang=0)
    if finding.hint:
        page.write(Styled("→ ", Style.DIM), Styled(finding.hint, Style.DIM), indent=4)


def _breaches(page: Page, plan: Plan) -> None:
    if not plan.breaches:
        return
    page.heading("Budgets exceeded", Styled(" (acknowledged)" if plan.acknowledged else "", Style.DIM))
    for breach in plan.breaches:
        page.write(Styled("! ", Style.ERROR), Styled(breach.budget, Style.ERROR), f"  {breach.message}", indent=2)
    if not plan.acknowledged:
        page.write("To accept exactly this plan, run:", indent=2)
        page.verbatim("", f"reconciler commit --acknowledge {acknowledgement(plan.digest)}", indent=4)


def _objects(page: Page, plan: Plan, *, full: bool) -> None:
    if not plan.changes:
        return
    page.heading("Objects", Styled(f" ({len(plan.changes):,})", Style.DIM))
    for group in group_changes(plan):
        page.blank()
        _change_group(page, group, full=full)


def _change_group(page: Page, group: ChangeGroup, *, full: bool) -> None:
    change = group.first
    _object(page, change)
    if change.operation in (Operation.CREATE, Operation.DELETE) and not full:
        _compact(page, change)
    else:
        for fields in group_fields(change.fields):
            _field_group(page, fields)
        if not change.fields:
            _main_reason(page, change)
    if group.others:
        names = [_name(other) for other in group.others]
        shown = names if full else names[:_MAX_NAMES]
        more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
        page.write(Styled("same change in: ", Style.UPDATED), ", ".join(shown) + more, indent=4)


def _field_group(page: Page, group: FieldGroup) -> None:
    is_short = [_field(page, field) for field in group.fields] == [True]
    if group.why is not None:
        reason = format_reason(group.why, group.fields[0].path if len(group.fields) == 1 else "")
        if not (is_short and page.append(Styled(f"  because {reason}", Style.DIM))):
            _because(page, reason, indent=6)


def _name(change: Change) -> str:
    return f"{qualified_name(change.key)} on {change.cluster}"


def _object(page: Page, change: Change) -> None:
    style = OPERATION_STYLES[change.operation]
    pieces: list[Piece] = [Styled(f"{SIGNS[change.operation]} ", style), Styled(f"{change.key.kind} ", style)]
    pieces += [Styled(qualified_name(change.key), Style.STRONG), f" on {change.cluster}"]
    if change.gpus_before != change.gpus_after:
        pieces.append(Styled(f"  {change.gpus_before} → {gpus(change.gpus_after)}", style))
    if change.source:
        pieces.append(Styled(f"  {where(change.source)}", Style.DIM))
    page.write(*pieces, indent=2, hang=4)
    if change.moved_from:
        page.write(Styled("from ", Style.DIM), change.moved_from, indent=6)
        page.write(Styled("to   ", Style.DIM), change.path, indent=6)


def _compact(page: Page, change: Change) -> None:
    if change.operation is Operation.CREATE:
        facts: list[Piece] = []
        for step, value in key_fields(change):
            facts += [*([Styled(" · ", Style.DIM)] if facts else []), Styled(f"{step} ", Style.DIM), value]
        if facts:
            page.write(*facts, indent=4)
    _main_reason(page, change)


def _main_reason(page: Page, change: Change) -> None:
    """Write the main reason of a change whose fields are not shown."""
    for why in change.because[:1]:
        _because(page, format_reason(why), indent=4)


def _because(page: Page, reason: str, *, indent: int) -> None:
    page.write(Styled("because ", Style.DIM), Styled(reason, Style.DIM), indent=indent)


def _field(page: Page, field: FieldChange) -> bool:
    """Write one field. Return whether it took one line."""
    before = scalar(field.before) if field.has_before else ""
    after = scalar(field.after) if field.has_after else ""
    if (not field.has_before or is_single_line(field.before)) and (not field.has_after or is_single_line(field.after)):
        return _single_line_field(page, field, before, after)
    page.write(Styled(f"{_sign(field)} ", _field_style(field)), field.path, Styled(":", Style.DIM), indent=4)
    for line in diff_lines(field):
        style = {"+": Style.CREATED, "-": Style.DELETED}.get(line.sign, Style.DIM)
        page.verbatim(Styled(f"{line.sign} ", style), line.text, style=style, indent=8)
    return False


def _single_line_field(page: Page, field: FieldChange, before: str, after: str) -> bool:
    start: list[Piece] = [Styled(f"{_sign(field)} ", _field_style(field)), field.path, Styled(": ", Style.DIM)]
    if not (field.has_before and field.has_after):
        page.write(*start, Styled(after or before, _field_style(field)), indent=4, hang=4)
        return True
    both = [Styled(before, Style.DELETED), Styled(" → ", Style.DIM), Styled(after, Style.CREATED)]
    if cells(page.shown(f"{field.path}: {before} → {after}")) + 6 <= page.width:
        page.write(*start, *both, indent=4)
        return True
    page.write(*start, indent=4)
    page.verbatim(Styled("- ", Style.DELETED), before, style=Style.DELETED, indent=8)
    page.verbatim(Styled("+ ", Style.CREATED), after, style=Style.CREATED, indent=8)
    return False


def _sign(field: FieldChange) -> str:
    return "~" if field.has_before and field.has_after else "+" if field.has_after else "-"


def _field_style(field: FieldChange) -> Style:
    return {"~": Style.UPDATED, "+": Style.CREATED, "-": Style.DELETED}[_sign(field)]


def _exceptions(page: Page, plan: Plan) -> None:
    if not plan.exceptions:
        return
    page.heading("Exceptions in force", Styled(f" ({len(plan.exceptions)})", Style.DIM))
    for exception in plan.exceptions:
        unused = [Styled("  no longer used", Style.WARNING)] if not exception.used else []
        page.write(exception.rule, " for ", Styled(exception.target, Style.STRONG), *unused, indent=2)
        page.write(f"until {exception.expires}, owner {exception.owner}: {exception.reason}", indent=4, hang=0)
        page.write(Styled(where(exception.place), Style.DIM), indent=4)


def _footer(page: Page, plan: Plan) -> None:
    page.blank()
    page.write(Styled(f"{_revision(plan.base)} → {_revision(plan.head)} · engine {plan.engine}", Style.DIM))
    page.write(Styled(f"plan {plan.digest or '(no digest)'}", Style.DIM))


def _revision(revision: Revision) -> str:
    return f"{revision.label} {revision.commit[:_SHORT_COMMIT]}".strip()
