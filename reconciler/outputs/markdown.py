"""The Markdown output: one pull-request comment with the summary first, details folded, and a bounded length."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from reconciler.core.plan import Change, FieldChange, Operation, Plan, Revision
from reconciler.core.plan.digest import acknowledgement
from reconciler.core.reasons import Why
from reconciler.core.values import plural
from reconciler.outputs.differences import (
    ChangeGroup,
    FieldGroup,
    diff_lines,
    group_changes,
    group_fields,
    is_single_line,
    key_fields,
    leaves,
    reason_parts,
    scalar,
)
from reconciler.outputs.findings import Category, Finding, Level, findings, qualified_name, where
from reconciler.outputs.markup import code, details, fence, html_code, marker, prose, size, table_of
from reconciler.outputs.registry import DEFAULTS, RenderOptions
from reconciler.outputs.sizing import markdown_sizing
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
from reconciler.outputs.terminal.printable import without_commands

GITHUB_LIMIT = 65_536
"""Most characters in one comment on GitHub."""

_MIN_LIMIT = 1_000
_ROWS = (60, 25, 10, 4, 1, 0)  # most rows of a table or list, tried in turn until the summary fits
_MAX_DIFF_LINES = 200  # lines of one object
_SIGNS = {Operation.CREATE: "+", Operation.UPDATE: "~", Operation.DELETE: "-", Operation.MOVE: "→"}
_MAX_NAMES = 20
_LONG_REASON = 90  # characters that fit in a comment without scrolling
_SHORT_COMMIT = 12


def render_markdown(
    plan: Plan, options: RenderOptions = DEFAULTS, *, scope: str = "default", limit: int = GITHUB_LIMIT
) -> str:
    """Render the plan as one comment of at most `limit` characters.

    `scope` distinguishes the comments of one pull request, such as one per cluster; it goes into the hidden first line.
    Raises ValueError for a limit under 1,000, which is too small for a summary.
    """
    if limit < _MIN_LIMIT:
        raise ValueError(f"the limit of a comment is at least {_MIN_LIMIT} characters, not {limit}")
    lint = options.lint
    start, end = marker(scope), "" if lint else without_commands(_footer(plan))
    # Escaping log commands lengthens the text, so every part is measured after it.
    for rows in _ROWS:
        parts = [start, *(_lint(plan, rows) if lint else _summary(plan, rows))]
        head = without_commands("\n\n".join(parts))
        if size(head) + size(end) + _MIN_LIMIT // 2 <= limit:
            break
    else:
        return _least(plan, start, lint=lint)
    if lint:
        return f"{head}\n"
    room = limit - size(head) - size(end) - len("\n\n\n\n\n")  # between the parts and at the end
    return "\n\n".join(part for part in (head, _objects(plan, room, full=options.full), end) if part) + "\n"


def _least(plan: Plan, start: str, *, lint: bool) -> str:
    what = lint_headline(plan) if lint else ", ".join(text for _, text in counts(plan))
    verb = "lint" if lint else "plan"
    return f"{start}\n\n### {prose(what)}\n\nThe plan is too long for a comment. Run `reconciler {verb}` to see it.\n"


def _summary(plan: Plan, rows: int) -> Iterator[str]:
    first, *others = headlines(plan)
    yield f"### {prose(first)}"
    if others and rows:
        yield "<br>".join(f"**{prose(sentence)}**" for sentence in others[:rows])
    yield " · ".join(f"**{text}**" if operation else text for operation, text in counts(plan))
    yield from _status(plan)
    yield from _queues(plan, rows)
    yield from _capacity(plan, rows)
    yield from _jobs(plan, rows)
    yield from markdown_sizing(plan, rows)
    yield from _findings(plan, rows)
    yield from _exceptions(plan, rows)


def _lint(plan: Plan, rows: int) -> Iterator[str]:
    yield f"### {prose(lint_headline(plan))}"
    yield from _findings(plan, rows)
    yield from _exceptions(plan, rows)


def _status(plan: Plan) -> Iterator[str]:
    blocking = blockers(plan)
    if blocking:
        lines = [f"**Cannot be committed:** {', '.join(blocking)}"]
        if plan.breaches and not plan.acknowledged:
            token = acknowledgement(plan.digest)
            lines += [
                "",
                f"To accept exactly this plan, run {code(f'reconciler commit --acknowledge {token}')}",
            ]
        yield "\n".join(["> [!CAUTION]", *(f"> {line}".rstrip() for line in lines)])
    elif plan.breaches:
        yield f"> [!WARNING]\n> {acknowledged_headline(plan)}"


def _section(title: str, rows: int, total: int, body: Callable[[], str]) -> Iterator[str]:
    """Yield a section, or only its title and count if `rows` is 0."""
    if total:
        yield f"#### {title}" if rows else f"#### {title}: {total:,}"
        if rows:
            yield body()


def _queues(plan: Plan, rows: int) -> Iterator[str]:
    all_rows = queue_rows(plan)
    shown = sorted((row for row in all_rows if row.is_changed or row.remark), key=lambda row: -abs(row.delta))
    if not shown or not rows:
        return
    table = [_queue_row(row) for row in shown[:rows]]
    hidden = len(all_rows) - len(table)
    if hidden:
        table.append(_total_row(f"*{plural(hidden, 'more queue')}*", hidden_requests(plan, shown[:rows])))
    if len(all_rows) > 1:
        table.append(_total_row("**total**", total_requests(plan)))
    yield "#### GPUs"
    titles = ("Cluster", "Queue", "Product", "Requested:", "Δ:", "Quota:", "Limit:", "")
    yield table_of(titles, table, most=len(table))


def _total_row(name: str, requested: RequestTotal) -> list[str]:
    change = _delta(requested.after - requested.before)
    return ["", name, "", arrow(requested.before, requested.after), change, "", "", ""]


def _delta(delta: int) -> str:
    return f"**{signed(delta)}**" if delta else "0"


def _queue_row(row: QueueRow) -> list[str]:
    quota = arrow(row.guaranteed_before, row.guaranteed_after)
    alarm = "⚠️ " if row.over_limit or (row.has_quota and not row.exists_after) else ""
    return [
        code(row.cluster),
        code(row.queue) if row.queue else "*no queue*",
        code(row.product) if row.product else "any",
        str(row.requested_with_children) if row.is_parent else arrow(row.requested_before, row.requested_after),
        "" if row.is_parent else _delta(row.delta),
        "" if not row.has_quota else f"**{quota}**" if row.quota_is_changed else quota,
        "" if not row.has_quota or not row.exists_after else "none" if row.limit is None else number(row.limit),
        alarm + row.remark,
    ]


def _capacity(plan: Plan, rows: int) -> Iterator[str]:
    table = []
    for line in plan.capacity:
        is_over = line.guaranteed is not None and line.guaranteed > line.capacity
        shortage = line.requested - line.capacity
        share = "" if line.guaranteed is None else f" ({percent(line.guaranteed, line.capacity)})"
        remark = ("⚠️ " if is_over or shortage > 0 else "") + commitment(line)
        table.append(
            [
                code(line.cluster),
                code(line.product) if line.product else "any",
                str(line.capacity),
                f"{number(line.guaranteed)}{share}",
                f"{line.requested} ({percent(line.requested, line.capacity)})",
                remark + (f", **{shortage} short**" if shortage > 0 else "") + evidence_age(line),
            ]
        )
    titles = ("Cluster", "Product", "GPUs:", "Guaranteed:", "Requested:", "")
    yield from _section("Capacity", rows, len(table), lambda: table_of(titles, table, most=rows))


def _jobs(plan: Plan, rows: int) -> Iterator[str]:
    table = [
        [
            f"**{prose(job.word)}**",
            code(qualified_name(job.key)),
            code(job.cluster),
            arrow(job.gpus_before, job.gpus_after),
            code(job.queue) if job.queue else "*no queue*",
            code(where(job.source)),
        ]
        for job in plan.jobs
    ]
    titles = ("", "Job", "Cluster", "GPUs:", "Queue", "Source")
    yield from _section("Jobs", rows, len(table), lambda: table_of(titles, table, most=rows))


def _findings(plan: Plan, rows: int) -> Iterator[str]:
    everything = findings(plan)
    checks = [finding for finding in everything if finding.category in (Category.PROBLEM, Category.VERDICT)]
    errors = [finding for finding in checks if finding.level is Level.ERROR]
    budgets = [finding for finding in everything if finding.category is Category.BUDGET]
    risks = [finding for finding in everything if finding.category is Category.RISK]
    yield from _section("Errors", rows, len(errors), lambda: _list(errors, rows))
    yield from _held_back(plan, rows)
    yield from _section("Budgets exceeded", rows, len(budgets), lambda: _list(budgets, rows))
    yield from _section("Risks", rows, len(risks), lambda: _list(risks, rows))
    for level in (Level.WARNING, Level.NOTE):
        members = [finding for finding in checks if finding.level is level]
        if members and rows:
            yield details(f"<b>{plural(len(members), level)}</b>", _list(members, rows))


def _held_back(plan: Plan, rows: int) -> Iterator[str]:
    if plan.held_back:
        names = ", ".join(code(path) for path in plan.held_back[:rows])
        more = len(plan.held_back) - rows
        yield f"{held_back_headline(plan)}: {names}" + (f" and {more:,} more" if more > 0 else "")


def _list(members: Sequence[Finding], most: int) -> str:
    lines = [_finding(finding) for finding in members[:most]]
    return "\n".join(lines) + _more(len(members) - most)


def _more(count: int) -> str:
    return f"\n\n… and {count:,} more" if count > 0 else ""


def _finding(finding: Finding) -> str:
    place = f" at {code(where(finding.place))}" if finding.place else ""
    subject = f"{code(finding.subject)}: " if finding.subject else ""
    field = f"{code(finding.field)} " if finding.field else ""
    hint = f"<br>→ {prose(finding.hint)}" if finding.hint else ""
    return f"- **{code(finding.rule)}**{place}<br>{subject}{field}{prose(finding.message)}{hint}"


def _exceptions(plan: Plan, rows: int) -> Iterator[str]:
    if not plan.exceptions or not rows:
        return
    lines = [
        f"- {code(exception.rule)} for {code(exception.target)} until {code(exception.expires)}, "
        f"owner {code(exception.owner)}: {prose(exception.reason)} ({code(where(exception.place))})"
        + ("" if exception.used else " — **no longer used**")
        for exception in plan.exceptions[:rows]
    ]
    title = f"<b>{plural(len(plan.exceptions), 'exception')} in force</b>"
    yield details(title, "\n".join(lines) + _more(len(plan.exceptions) - rows))


def _objects(plan: Plan, room: int, *, full: bool) -> str:
    """Render changes while there is room. Changes that do not fit are counted and never cut."""
    if not plan.changes:
        return ""
    parts = [f"#### Objects: {len(plan.changes):,}"]
    used, left = size(parts[0]), len(plan.changes)
    reserved = size(_omitted(left)) + 2
    for group in group_changes(plan):
        members = 1 + len(group.others)
        reserve = reserved if left > members else 0
        for block in (_full_block(group, full=full), _short_block(group)):
            block = without_commands(block)  # noqa: PLW2901
            if used + 2 + size(block) + reserve <= room:
                break
        else:
            break
        parts.append(block)
        used += 2 + size(block)
        left -= members
    if left:
        parts.append(_omitted(left))
    return "\n\n".join(parts)


def _omitted(count: int) -> str:
    return f"… and {plural(count, 'more object')}. Run `reconciler plan` to see all."


def _full_block(group: ChangeGroup, *, full: bool) -> str:
    change = group.first
    parts = []
    if change.moved_from:
        parts.append(f"{code(change.moved_from)} → {code(change.path)}")
    is_compact = change.operation in (Operation.CREATE, Operation.DELETE) and not full
    lines = list(_compact(change) if is_compact else _diff(change))
    if lines:
        cut = len(lines) - _MAX_DIFF_LINES
        parts.append(fence([*lines[:_MAX_DIFF_LINES], *([f"@@ {plural(cut, 'more line')} @@"] if cut > 0 else [])]))
    if group.others:
        names = [code(_name(other)) for other in group.others[:_MAX_NAMES]]
        more = len(group.others) - len(names)
        parts.append(f"Same change in {', '.join(names)}" + (f" and {more:,} more" if more else ""))
    return details(_title(group), "\n\n".join(parts)) if parts else _short_block(group)


def _short_block(group: ChangeGroup) -> str:
    return details(_title(group), "Run `reconciler plan` to see the fields.")


def _title(group: ChangeGroup) -> str:
    change = group.first
    facts = []
    if change.gpus_before != change.gpus_after:
        facts.append(f"<b>{change.gpus_before} → {gpus(change.gpus_after)}</b>")
    if change.fields and change.operation in (Operation.UPDATE, Operation.MOVE):
        facts.append(plural(len(change.fields), "field"))
    if group.others:
        facts.append(f"same change in {plural(len(group.others), 'more object')}")
    kind = html_code(change.key.kind)
    if change.key.kind.isalnum():
        kind = kind.removeprefix("<code>").removesuffix("</code>")
    title = f"<code>{_SIGNS[change.operation]}</code> {kind} {html_code(_name(change))}"
    return " · ".join([title, *facts])


def _name(change: Change) -> str:
    return f"{qualified_name(change.key)} on {change.cluster}"


def _compact(change: Change) -> Iterator[str]:
    sign = "+" if change.operation is Operation.CREATE else "-"
    for step, value in key_fields(change):
        yield f"{sign} {step}: {value}"
    total = sum(1 for _ in leaves(change.fields))
    if total:
        yield f"# {plural(total, 'field')} in total, in {change.path}"
    for why in change.because[:1]:
        yield from _because(why)


def _diff(change: Change) -> Iterator[str]:
    for position, group in enumerate(group_fields(change.fields)):
        if position:
            yield ""
        yield from _field_group(group)
    if not change.fields:
        for why in change.because[:1]:
            yield from _because(why)


def _field_group(group: FieldGroup) -> Iterator[str]:
    for field in group.fields:
        yield from _field(field)
    if group.why is not None:
        path = group.fields[0].path if len(group.fields) == 1 else ""
        yield from _because(group.why, path)


def _because(why: Why, path: str = "") -> Iterator[str]:
    parts = reason_parts(why, path)
    if sum(map(len, parts)) <= _LONG_REASON:
        parts = (": ".join(parts),)
    yield f"# because {parts[0]}"
    yield from (f"#   {part}" for part in parts[1:])


def _field(field: FieldChange) -> Iterable[str]:
    if (not field.has_before or is_single_line(field.before)) and (not field.has_after or is_single_line(field.after)):
        if field.has_before:
            yield f"- {field.path}: {scalar(field.before)}"
        if field.has_after:
            yield f"+ {field.path}: {scalar(field.after)}"
        return
    yield f"@@ {field.path} @@"
    for line in diff_lines(field):
        yield f"@@ {line.text} @@" if line.sign == "…" else f"{line.sign} {line.text}".rstrip()


def _footer(plan: Plan) -> str:
    ends = f"{_revision(plan.base)} → {_revision(plan.head)}"
    digest = code(plan.digest) if plan.digest else "(no digest)"
    return f"<sub>{ends} · plan {digest} · engine {code(plan.engine)}</sub>"


def _revision(revision: Revision) -> str:
    commit = f" {code(revision.commit[:_SHORT_COMMIT])}" if revision.commit else ""
    return f"{code(revision.label)}{commit}"
