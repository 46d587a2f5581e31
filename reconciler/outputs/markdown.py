"""A plan in, one pull-request comment out: summary first, details folded, bounded, and deaf to hostile names."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from reconciler.core.plan import Change, FieldChange, Operation, Plan, Revision
from reconciler.core.plan.digest import acknowledgement
from reconciler.core.reasons import Why
from reconciler.outputs.differences import (
    Family,
    Group,
    because_parts,
    compare,
    families,
    groups,
    is_single,
    leaves,
    scalar,
    telling,
)
from reconciler.outputs.findings import Finding, Kind, Level, findings, where
from reconciler.outputs.markup import code, details, fence, html_code, marker, prose, size, table_of
from reconciler.outputs.printable import without_commands
from reconciler.outputs.registry import DEFAULTS, RenderOptions
from reconciler.outputs.sizing import markdown_sizings
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

GITHUB_LIMIT = 65_536
"""Characters that GitHub takes in one comment."""

_LEAST_LIMIT = 1_000
_ROWS = (60, 25, 10, 4, 1, 0)  # rows a table or list may have, tried in turn until the summary fits
_MOST_DIFFERENCE = 200  # lines of one object
_SIGNS = {Operation.CREATE: "+", Operation.UPDATE: "~", Operation.DELETE: "-", Operation.MOVE: "→"}
_SHOWN_RELATIVES = 20
_LONG_REASON = 90  # characters that a comment shows without scrolling
_SHORT_DIGEST = 12


def render_markdown(
    plan: Plan, options: RenderOptions = DEFAULTS, *, scope: str = "default", limit: int = GITHUB_LIMIT
) -> str:
    """Write the plan as one comment of at most `limit` characters.

    `scope` tells several plans on one pull request apart (a cluster, a folder): it goes into the hidden first line.
    Raises ValueError for a limit under 1,000, in which nothing useful fits.
    """
    if limit < _LEAST_LIMIT:
        raise ValueError(f"a comment needs at least {_LEAST_LIMIT} characters, not {limit}")
    lint = options.lint
    start, end = marker(scope), "" if lint else without_commands(_footer(plan))
    # Breaking up log commands lengthens the text, so that every part is measured after it.
    for rows in _ROWS:
        parts = [start, *(_lint(plan, rows) if lint else _summary(plan, rows))]
        head = without_commands("\n\n".join(parts))
        if size(head) + size(end) + _LEAST_LIMIT // 2 <= limit:
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
    return f"{start}\n\n### {prose(what)}\n\nToo much to show here: run `reconciler {verb}` to see it.\n"


def _summary(plan: Plan, rows: int) -> Iterator[str]:
    first, *others = headlines(plan)
    yield f"### {prose(first)}"
    if others and rows:
        yield "<br>".join(f"**{prose(sentence)}**" for sentence in others[:rows])
    yield " · ".join(f"**{text}**" if operation else text for operation, text in counts(plan))
    yield from _standing(plan)
    yield from _queues(plan, rows)
    yield from _capacity(plan, rows)
    yield from _jobs(plan, rows)
    yield from markdown_sizings(plan, rows)
    yield from _findings(plan, rows)
    yield from _exceptions(plan, rows)


def _lint(plan: Plan, rows: int) -> Iterator[str]:
    yield f"### {prose(lint_headline(plan))}"
    yield from _findings(plan, rows)
    yield from _exceptions(plan, rows)


def _standing(plan: Plan) -> Iterator[str]:
    stopped = obstacles(plan)
    if stopped:
        lines = [f"**Cannot be committed:** {', '.join(stopped)}"]
        if plan.breaches and not plan.acknowledged:
            token = acknowledgement(plan.digest)
            lines += [
                "",
                f"To accept exactly this plan, and no other: {code(f'reconciler commit --acknowledge {token}')}",
            ]
        yield "\n".join(["> [!CAUTION]", *(f"> {line}".rstrip() for line in lines)])
    elif plan.breaches:
        yield f"> [!WARNING]\n> {plural(len(plan.breaches), 'budget')} exceeded, and acknowledged"


def _section(title: str, rows: int, total: int, body: Callable[[], str]) -> Iterator[str]:
    """Yield a titled part, or only its title and count where no rows are allowed."""
    if total:
        yield f"#### {title}" if rows else f"#### {title}: {total:,}"
        if rows:
            yield body()


def _queues(plan: Plan, rows: int) -> Iterator[str]:
    everything = queue_rows(plan)
    shown = sorted((row for row in everything if row.is_changed or row.remark), key=lambda row: -abs(row.delta))
    if not shown or not rows:
        return
    table = [_queue_row(row) for row in shown[:rows]]
    left = len(everything) - len(table)
    if left:
        table.append(_sum(f"*{plural(left, 'more queue')}*", rest(plan, shown[:rows])))
    if len(everything) > 1:
        table.append(_sum("**total**", total(plan)))
    yield "#### GPUs"
    titles = ("Cluster", "Queue", "Product", "Requested:", "Δ:", "Quota:", "Limit:", "")
    yield table_of(titles, table, most=len(table))


def _sum(name: str, asked: Total) -> list[str]:
    return ["", name, "", arrow(asked.before, asked.after), _delta(asked.after - asked.before), "", "", ""]


def _delta(delta: int) -> str:
    return f"**{signed(delta)}**" if delta else "0"


def _queue_row(row: QueueRow) -> list[str]:
    quota = arrow(row.guaranteed_before, row.guaranteed_after)
    alarm = "⚠️ " if row.over_limit or (row.has_quota and not row.exists_after) else ""
    return [
        code(row.cluster),
        code(row.queue) if row.queue else "*no queue*",
        code(row.product) if row.product else "any",
        str(row.asked_below) if row.is_parent else arrow(row.requested_before, row.requested_after),
        "" if row.is_parent else _delta(row.delta),
        "" if not row.has_quota else f"**{quota}**" if row.quota_is_changed else quota,
        "" if not row.has_quota or not row.exists_after else "none" if row.limit is None else number(row.limit),
        alarm + row.remark,
    ]


def _capacity(plan: Plan, rows: int) -> Iterator[str]:
    table = []
    for line in plan.capacity:
        is_over = line.guaranteed is not None and line.guaranteed > line.capacity
        lacks = line.requested - line.capacity
        share = "" if line.guaranteed is None else f" ({percent(line.guaranteed, line.capacity)})"
        remark = ("⚠️ " if is_over or lacks > 0 else "") + commitment(line)
        table.append(
            [
                code(line.cluster),
                code(line.product) if line.product else "any",
                str(line.capacity),
                f"{number(line.guaranteed)}{share}",
                f"{line.requested} ({percent(line.requested, line.capacity)})",
                remark + (f", **{lacks} short**" if lacks > 0 else ""),
            ]
        )
    titles = ("Cluster", "Product", "GPUs there:", "Guaranteed:", "Requested:", "")
    yield from _section("Capacity", rows, len(table), lambda: table_of(titles, table, most=rows))


def _jobs(plan: Plan, rows: int) -> Iterator[str]:
    table = [
        [
            f"**{prose(job.word)}**",
            code("/".join(part for part in (job.key.namespace, job.key.name) if part)),
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
    found = findings(plan)
    judged = [finding for finding in found if finding.kind in (Kind.PROBLEM, Kind.VERDICT)]
    errors = [finding for finding in judged if finding.level is Level.ERROR]
    budgets = [finding for finding in found if finding.kind is Kind.BUDGET]
    risks = [finding for finding in found if finding.kind is Kind.RISK]
    yield from _section("Errors", rows, len(errors), lambda: _list(errors, rows))
    yield from _held_back(plan, rows)
    yield from _section("Budgets exceeded", rows, len(budgets), lambda: _list(budgets, rows))
    yield from _section("Risks", rows, len(risks), lambda: _list(risks, rows))
    for level, noun in ((Level.WARNING, "warning"), (Level.NOTE, "note")):
        members = [finding for finding in judged if finding.level is level]
        if members and rows:
            yield details(f"<b>{plural(len(members), noun)}</b>", _list(members, rows))


def _held_back(plan: Plan, rows: int) -> Iterator[str]:
    if plan.held_back:
        count = plural(len(plan.held_back), "rendered file")
        names = ", ".join(code(path) for path in plan.held_back[:rows])
        rest = len(plan.held_back) - rows
        more = f" and {rest:,} more" if rest > 0 else ""
        yield f"{count} left as is, for the source has errors or waits for an answer: {names}{more}"


def _list(members: Sequence[Finding], most: int) -> str:
    lines = [_finding(finding) for finding in members[:most]]
    rest = len(members) - most
    return "\n".join(lines) + (f"\n\n… and {rest:,} more" if rest > 0 else "")


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
        + ("" if exception.used else " — **not needed any more**")
        for exception in plan.exceptions[:rows]
    ]
    rest = len(plan.exceptions) - rows
    more = f"\n\n… and {rest:,} more" if rest > 0 else ""
    yield details(f"<b>{plural(len(plan.exceptions), 'exception')} in force</b>", "\n".join(lines) + more)


def _objects(plan: Plan, room: int, *, full: bool) -> str:
    """Write objects while there is room; what has none is counted, never cut."""
    if not plan.changes:
        return ""
    parts = [f"#### Objects: {len(plan.changes):,}"]
    spent, left = size(parts[0]), len(plan.changes)
    reserve = size(_rest(left)) + 2
    for family in families(plan.changes):
        members = 1 + len(family.others)
        keep = reserve if left > members else 0
        for write in (_whole, _brief):
            block = without_commands(write(family, full=full))
            if spent + 2 + size(block) + keep <= room:
                break
        else:
            break
        parts.append(block)
        spent += 2 + size(block)
        left -= members
    if left:
        parts.append(_rest(left))
    return "\n\n".join(parts)


def _rest(left: int) -> str:
    return f"… and {plural(left, 'more object')}: run `reconciler plan` to see the rest."


def _whole(family: Family, *, full: bool) -> str:
    change = family.first
    parts = []
    if change.moved_from:
        parts.append(f"{code(change.moved_from)} → {code(change.path)}")
    is_compact = change.operation in (Operation.CREATE, Operation.DELETE) and not full
    lines = list(_compact(change) if is_compact else _difference(change))
    if lines:
        cut = len(lines) - _MOST_DIFFERENCE
        parts.append(fence([*lines[:_MOST_DIFFERENCE], *([f"@@ {cut:,} more lines @@"] if cut > 0 else [])]))
    if family.others:
        names = [code(_name(other)) for other in family.others[:_SHOWN_RELATIVES]]
        rest = len(family.others) - len(names)
        parts.append(f"The same in {', '.join(names)}" + (f" and {rest:,} more" if rest else ""))
    return details(_title(family), "\n\n".join(parts)) if parts else _brief(family, full=full)


def _brief(family: Family, *, full: bool) -> str:  # noqa: ARG001 - the same shape as `_whole`
    return details(_title(family), "Run `reconciler plan` to see its fields.")


def _title(family: Family) -> str:
    change = family.first
    facts = []
    if change.gpus_before != change.gpus_after:
        facts.append(f"<b>{change.gpus_before} → {gpus(change.gpus_after)}</b>")
    if change.fields and change.operation in (Operation.UPDATE, Operation.MOVE):
        facts.append(plural(len(change.fields), "field"))
    if family.others:
        facts.append(f"the same in {plural(len(family.others), 'more object')}")
    kind = html_code(change.key.kind).removeprefix("<code>").removesuffix("</code>")
    if not change.key.kind.isalnum():
        kind = html_code(change.key.kind)
    title = f"<code>{_SIGNS[change.operation]}</code> {kind} {html_code(_name(change))}"
    return " · ".join([title, *facts])


def _name(change: Change) -> str:
    name = "/".join(part for part in (change.key.namespace, change.key.name) if part)
    return f"{name} on {change.cluster}"


def _compact(change: Change) -> Iterator[str]:
    sign = "+" if change.operation is Operation.CREATE else "-"
    for step, value in telling(change):
        yield f"{sign} {step}: {value}"
    total = sum(1 for _ in leaves(change.fields))
    if total:
        yield f"# {plural(total, 'field')} in all, in {change.path}"
    for why in change.because[:1]:
        yield from _because(why)


def _difference(change: Change) -> Iterator[str]:
    for position, group in enumerate(groups(change.fields)):
        if position:
            yield ""
        yield from _group(group)
    if not change.fields:
        for why in change.because[:1]:
            yield from _because(why)


def _group(group: Group) -> Iterator[str]:
    for field in group.fields:
        yield from _field(field)
    if group.why is not None:
        path = group.fields[0].path if len(group.fields) == 1 else ""
        yield from _because(group.why, path)


def _because(why: Why, path: str = "") -> Iterator[str]:
    parts = because_parts(why, path)
    if sum(map(len, parts)) <= _LONG_REASON:
        parts = (": ".join(parts),)
    yield f"# because {parts[0]}"
    yield from (f"#   {part}" for part in parts[1:])


def _field(field: FieldChange) -> Iterable[str]:
    if (not field.has_before or is_single(field.before)) and (not field.has_after or is_single(field.after)):
        if field.has_before:
            yield f"- {field.path}: {scalar(field.before)}"
        if field.has_after:
            yield f"+ {field.path}: {scalar(field.after)}"
        return
    yield f"@@ {field.path} @@"
    for line in compare(field):
        yield f"@@ {line.text} @@" if line.sign == "…" else f"{line.sign} {line.text}".rstrip()


def _footer(plan: Plan) -> str:
    ends = f"{_revision(plan.base)} → {_revision(plan.head)}"
    digest = code(plan.digest) if plan.digest else "without digest"
    return f"<sub>{ends} · plan {digest} · engine {code(plan.engine)}</sub>"


def _revision(revision: Revision) -> str:
    commit = f" {code(revision.commit[:_SHORT_DIGEST])}" if revision.commit else ""
    return f"{code(revision.label)}{commit}"
