"""A plan in, text for a terminal out: first what it does to the GPUs, then what is wrong, then every object."""

import re
from collections import Counter
from collections.abc import Sequence

from reconciler.core.plan import Change, FieldChange, JobChange, Operation, Plan, Revision
from reconciler.core.plan.digest import acknowledgement
from reconciler.outputs.differences import Family, Group, because, compare, families, groups, is_single, scalar, telling
from reconciler.outputs.findings import Finding, Kind, Level, findings, where
from reconciler.outputs.page import Page, Piece, Span, Tone
from reconciler.outputs.printable import cells
from reconciler.outputs.registry import DEFAULTS, RenderOptions
from reconciler.outputs.sizing import write_sizings
from reconciler.outputs.summary import (
    QueueRow,
    Total,
    arrow,
    commitment,
    counts,
    gpus,
    headlines,
    lint_headline,
    number,
    obstacles,
    percent,
    plural,
    queue_rows,
    rest,
    signed,
    total,
)

SIGNS = {Operation.CREATE: "+", Operation.UPDATE: "~", Operation.DELETE: "-", Operation.MOVE: ">"}
TONES = {
    Operation.CREATE: Tone.CREATED,
    Operation.UPDATE: Tone.UPDATED,
    Operation.DELETE: Tone.DELETED,
    Operation.MOVE: Tone.MOVED,
}
_LEVEL_TONES = {Level.ERROR: Tone.ALARM, Level.WARNING: Tone.CAUTION, Level.NOTE: Tone.FAINT}
_WORD_TONES = {"added": Tone.CREATED, "removed": Tone.DELETED, "resized": Tone.UPDATED}
_SHOWN_A_RULE = 5  # warnings of one rule; errors are never left out
_SHOWN_RELATIVES = 8  # names of objects with the same edit
_SHORT_DIGEST = 12
_WIDE = 100
_VENDOR = re.compile(r"^(NVIDIA|AMD)-(?=.)")


def render_text(plan: Plan, options: RenderOptions = DEFAULTS) -> str:
    """Render the plan for a terminal."""
    page, full = Page(width=options.width, colour=options.colour, unicode=options.unicode), options.full
    if options.lint:
        page.write(Span(lint_headline(plan), Tone.ALARM if obstacles(plan) else Tone.STRONG))
        _findings(page, plan, full=True)
        _exceptions(page, plan)
        return page.text()
    _headline(page, plan)
    _queues(page, plan, full=full)
    _capacity(page, plan)
    _jobs(page, plan)
    write_sizings(page, plan, full=full)
    _findings(page, plan, full=full)
    _objects(page, plan, full=full)
    _exceptions(page, plan)
    _footer(page, plan)
    return page.text()


def _headline(page: Page, plan: Plan) -> None:
    for sentence in headlines(plan):
        page.write(Span(sentence, Tone.STRONG))
    pieces: list[Piece] = []
    for operation, count in counts(plan):
        pieces += [*([" · "] if pieces else []), Span(count, TONES[operation] if operation else Tone.FAINT)]
    page.write(*pieces)
    stopped = obstacles(plan)
    if stopped:
        page.write(Span("Cannot be committed: ", Tone.ALARM), Span(", ".join(stopped), Tone.ALARM))
    elif plan.breaches:
        page.write(Span(f"{plural(len(plan.breaches), 'budget')} exceeded, and acknowledged", Tone.CAUTION))


def _queues(page: Page, plan: Plan, *, full: bool) -> None:
    rows = queue_rows(plan)
    shown = [row for row in rows if full or row.is_changed or row.remark]
    if not shown:
        return
    page.heading("GPUs")
    table = [_queue_row(page, row) for row in shown]
    if len(shown) < len(rows):
        table.append(_sum(plural(len(rows) - len(shown), "more queue"), rest(plan, shown), Tone.FAINT))
    if len(rows) > 1:
        table.append(_sum("total", total(plan), Tone.STRONG))
    header = ("cluster", "queue", "product", "requested", "+/-", "quota", "limit", "")
    page.table(header, table, right=(3, 4, 5, 6), gives=(2,))


def _product(page: Page, product: str) -> str:
    return product if page.width >= _WIDE else _VENDOR.sub("", product)


def _queue_row(page: Page, row: QueueRow) -> list[Piece]:
    guaranteed = arrow(row.guaranteed_before, row.guaranteed_after)
    tone = Tone.CREATED if row.delta > 0 else Tone.DELETED if row.delta else Tone.FAINT
    return [
        row.cluster,
        Span(row.queue or "(no queue)", Tone.STRONG if row.queue else Tone.CAUTION),
        _product(page, row.product) or "any",
        str(row.asked_below) if row.is_parent else arrow(row.requested_before, row.requested_after),
        "" if row.is_parent else Span(signed(row.delta), tone),
        Span(guaranteed, Tone.UPDATED if row.quota_is_changed else Tone.PLAIN) if row.has_quota else "",
        ("none" if row.limit is None else number(row.limit)) if row.has_quota and row.exists_after else "",
        Span(row.remark, Tone.ALARM if row.over_limit or not row.exists_after else Tone.CAUTION),
    ]


def _sum(name: str, asked: Total, tone: Tone) -> list[Piece]:
    cell = ["", name, "", arrow(asked.before, asked.after), signed(asked.after - asked.before), "", "", ""]
    return [Span(text, tone) for text in cell]


def _capacity(page: Page, plan: Plan) -> None:
    if not plan.capacity:
        return
    page.heading("Capacity")
    table: list[list[Piece]] = []
    for line in plan.capacity:
        is_over = line.guaranteed is not None and line.guaranteed > line.capacity
        lacks = line.requested > line.capacity
        share = "" if line.guaranteed is None else f"  {percent(line.guaranteed, line.capacity)}"
        remark = commitment(line) + (f", {number(line.requested - line.capacity)} short" if lacks else "")
        table.append(
            [
                line.cluster,
                _product(page, line.product) or "any",
                Span(str(line.capacity), Tone.STRONG),
                f"{number(line.guaranteed)}{share}",
                f"{line.requested}  {percent(line.requested, line.capacity)}",
                Span(remark, Tone.ALARM if lacks else Tone.CAUTION if is_over else Tone.FAINT),
            ]
        )
    page.table(("cluster", "product", "GPUs", "guaranteed", "requested", ""), table, right=(2, 3, 4), gives=(1,))


def _jobs(page: Page, plan: Plan) -> None:
    if not plan.jobs:
        return
    page.heading("Jobs")
    header = ("", "job", "cluster", "GPUs", "queue", "source")
    columns = len(header) if page.width >= _WIDE else len(header) - 1  # the objects below tell the source as well
    page.table(header[:columns], [_job_row(job)[:columns] for job in plan.jobs], right=(3,))


def _job_row(job: JobChange) -> list[Piece]:
    name = "/".join(part for part in (job.key.namespace, job.key.name) if part)
    return [
        Span(job.word, _WORD_TONES.get(job.word, Tone.MOVED)),
        Span(name, Tone.STRONG),
        job.cluster,
        arrow(job.gpus_before, job.gpus_after),
        job.queue or Span("(no queue)", Tone.CAUTION),
        Span(where(job.source), Tone.FAINT),
    ]


def _findings(page: Page, plan: Plan, *, full: bool) -> None:
    found = findings(plan)
    shown = [finding for finding in found if finding.kind in (Kind.PROBLEM, Kind.VERDICT)]
    risks = [finding for finding in found if finding.kind is Kind.RISK]
    most = None if full else _SHOWN_A_RULE
    _list(page, "Errors", [finding for finding in shown if finding.level is Level.ERROR], most=None)
    _held_back(page, plan)
    _breaches(page, plan)
    _list(page, "Risks", risks, most=most)
    _list(page, "Warnings", [finding for finding in shown if finding.level is Level.WARNING], most=most)
    _list(page, "Notes", [finding for finding in shown if finding.level is Level.NOTE], most=most)


def _held_back(page: Page, plan: Plan) -> None:
    if plan.held_back:
        page.blank()
        count = plural(len(plan.held_back), "rendered file")
        page.write(Span(f"{count} left as is, for the source has errors or waits for an answer:", Tone.CAUTION))
        for path in plan.held_back:
            page.write(path, indent=2)


def _list(page: Page, title: str, members: Sequence[Finding], *, most: int | None) -> None:
    if members:
        page.heading(title, Span(f" ({len(members):,})", Tone.FAINT))
    seen: Counter[str] = Counter()
    for finding in members:
        seen[finding.rule] += 1
        if most is None or seen[finding.rule] <= most:
            _finding(page, finding)
    for rule, count in seen.items():
        if most is not None and count > most:
            page.write(Span(f"… {count - most:,} more of {rule} (--full shows them)", Tone.FAINT), indent=2)


def _finding(page: Page, finding: Finding) -> None:
    place = Span(where(finding.place) or finding.subject, Tone.STRONG)
    mark = Span("! ", _LEVEL_TONES[finding.level])
    page.write(mark, place, "  ", Span(finding.rule, _LEVEL_TONES[finding.level]), indent=2)
    subject = [f"{finding.subject}: "] if finding.place and finding.subject else []
    field = [f"{finding.field}: "] if finding.field else []
    page.write(*subject, *field, finding.message, indent=4, hang=0)
    if finding.hint:
        page.write(Span("→ ", Tone.FAINT), Span(finding.hint, Tone.FAINT), indent=4)


def _breaches(page: Page, plan: Plan) -> None:
    if not plan.breaches:
        return
    page.heading("Budgets exceeded", Span(" (acknowledged)" if plan.acknowledged else "", Tone.FAINT))
    for breach in plan.breaches:
        page.write(Span("! ", Tone.ALARM), Span(breach.budget, Tone.ALARM), f"  {breach.message}", indent=2)
    if not plan.acknowledged:
        page.write("To accept exactly this plan, and no other:", indent=2)
        page.verbatim(Span(""), f"reconciler commit --acknowledge {acknowledgement(plan.digest)}", indent=4)


def _objects(page: Page, plan: Plan, *, full: bool) -> None:
    if not plan.changes:
        return
    page.heading("Objects", Span(f" ({len(plan.changes):,})", Tone.FAINT))
    for family in families(plan.changes):
        page.blank()
        _family(page, family, full=full)


def _family(page: Page, family: Family, *, full: bool) -> None:
    change = family.first
    _object(page, change)
    if change.operation in (Operation.CREATE, Operation.DELETE) and not full:
        _compact(page, change)
    else:
        for group in groups(change.fields):
            _group(page, group)
        if not change.fields:
            _all_because(page, change)
    if family.others:
        names = [_name(other) for other in family.others]
        shown = names if full else names[:_SHOWN_RELATIVES]
        rest = len(names) - len(shown)
        more = f" and {rest:,} more" if rest else ""
        page.write(Span("the same in: ", Tone.UPDATED), ", ".join(shown) + more, indent=4)


def _group(page: Page, group: Group) -> None:
    is_short = [_field(page, field) for field in group.fields] == [True]
    if group.why is not None:
        reason = because(group.why, group.fields[0].path if len(group.fields) == 1 else "")
        if not (is_short and page.append(Span(f"  because {reason}", Tone.FAINT))):
            _because(page, reason, indent=6)


def _name(change: Change) -> str:
    name = "/".join(part for part in (change.key.namespace, change.key.name) if part)
    return f"{name} on {change.cluster}"


def _object(page: Page, change: Change) -> None:
    tone = TONES[change.operation]
    pieces: list[Piece] = [Span(f"{SIGNS[change.operation]} ", tone), Span(f"{change.key.kind} ", tone)]
    pieces += [Span(_name(change).removesuffix(f" on {change.cluster}"), Tone.STRONG), f" on {change.cluster}"]
    if change.gpus_before != change.gpus_after:
        pieces.append(Span(f"  {change.gpus_before} → {gpus(change.gpus_after)}", tone))
    if change.source:
        pieces.append(Span(f"  {where(change.source)}", Tone.FAINT))
    page.write(*pieces, indent=2, hang=4)
    if change.moved_from:
        page.write(Span("from ", Tone.FAINT), change.moved_from, indent=6)
        page.write(Span("to   ", Tone.FAINT), change.path, indent=6)


def _compact(page: Page, change: Change) -> None:
    if change.operation is Operation.CREATE:
        facts: list[Piece] = []
        for step, value in telling(change):
            facts += [*([Span(" · ", Tone.FAINT)] if facts else []), Span(f"{step} ", Tone.FAINT), value]
        if facts:
            page.write(*facts, indent=4)
    _all_because(page, change)


def _all_because(page: Page, change: Change) -> None:
    """Write the weightiest reason of a change whose fields are not shown one by one."""
    for why in change.because[:1]:
        _because(page, because(why), indent=4)


def _because(page: Page, reason: str, *, indent: int) -> None:
    page.write(Span("because ", Tone.FAINT), Span(reason, Tone.FAINT), indent=indent)


def _field(page: Page, field: FieldChange) -> bool:
    """Write one field, and tell whether one line was enough."""
    before = scalar(field.before) if field.has_before else ""
    after = scalar(field.after) if field.has_after else ""
    if (not field.has_before or is_single(field.before)) and (not field.has_after or is_single(field.after)):
        return _short(page, field, before, after)
    page.write(Span(f"{_sign(field)} ", _field_tone(field)), field.path, Span(":", Tone.FAINT), indent=4)
    for line in compare(field):
        tone = {"+": Tone.CREATED, "-": Tone.DELETED}.get(line.sign, Tone.FAINT)
        page.verbatim(Span(f"{line.sign} ", tone), line.text, tone=tone, indent=8)
    return False


def _short(page: Page, field: FieldChange, before: str, after: str) -> bool:
    start: list[Piece] = [Span(f"{_sign(field)} ", _field_tone(field)), field.path, Span(": ", Tone.FAINT)]
    if not (field.has_before and field.has_after):
        page.write(*start, Span(after or before, _field_tone(field)), indent=4, hang=4)
        return True
    both = [Span(before, Tone.DELETED), Span(" → ", Tone.FAINT), Span(after, Tone.CREATED)]
    if cells(page.shown(f"{field.path}: {before} → {after}")) + 6 <= page.width:
        page.write(*start, *both, indent=4)
        return True
    page.write(*start, indent=4)
    page.verbatim(Span("- ", Tone.DELETED), before, tone=Tone.DELETED, indent=8)
    page.verbatim(Span("+ ", Tone.CREATED), after, tone=Tone.CREATED, indent=8)
    return False


def _sign(field: FieldChange) -> str:
    return "~" if field.has_before and field.has_after else "+" if field.has_after else "-"


def _field_tone(field: FieldChange) -> Tone:
    return {"~": Tone.UPDATED, "+": Tone.CREATED, "-": Tone.DELETED}[_sign(field)]


def _exceptions(page: Page, plan: Plan) -> None:
    if not plan.exceptions:
        return
    page.heading("Exceptions in force", Span(f" ({len(plan.exceptions)})", Tone.FAINT))
    for exception in plan.exceptions:
        unused = [Span("  not needed any more", Tone.CAUTION)] if not exception.used else []
        page.write(exception.rule, " for ", Span(exception.target, Tone.STRONG), *unused, indent=2)
        page.write(f"until {exception.expires}, owner {exception.owner}: {exception.reason}", indent=4, hang=0)
        page.write(Span(where(exception.place), Tone.FAINT), indent=4)


def _footer(page: Page, plan: Plan) -> None:
    page.blank()
    page.write(Span(f"{_revision(plan.base)} → {_revision(plan.head)} · engine {plan.engine}", Tone.FAINT))
    page.write(Span(f"plan {plan.digest or 'without digest'}", Tone.FAINT))


def _revision(revision: Revision) -> str:
    return f"{revision.label} {revision.commit[:_SHORT_DIGEST]}".strip()
