"""The text output: what the plan does to the GPUs, then findings, then every changed object."""

from reconciler.console.page import Page, Piece, Style, Styled
from reconciler.console.printable import cells
from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import FieldChange, Operation, Plan, Revision
from reconciler.plan.outputs.differences import (
    FieldGroup,
    diff_lines,
    group_fields,
    is_single_line,
    scalar,
    short_digests,
)
from reconciler.plan.outputs.filters import Filtered, apply_filters
from reconciler.plan.outputs.findings import lint_headline, where
from reconciler.plan.outputs.followers import is_generated_json, told
from reconciler.plan.outputs.groups import ChangeGroup, group_changes, key_fields, main_reason
from reconciler.plan.outputs.sections import plan_sections
from reconciler.plan.outputs.sections.live import refusal_words
from reconciler.plan.outputs.sections.model import View
from reconciler.plan.outputs.summary import (
    approved_headline,
    blockers,
    closing_line,
    counts,
    headlines,
    listed_counts,
    risk_counts,
)
from reconciler.plan.outputs.summary.answers import answers
from reconciler.plan.outputs.summary.queues import gpus
from reconciler.plan.outputs.terminal_sections import write_facts, write_sections

# Shows the changed objects of a plan as text.


OPERATION_STYLES = {
    Operation.CREATE: Style.CREATED,
    Operation.UPDATE: Style.UPDATED,
    Operation.REPLACE: Style.DELETED,
    Operation.DELETE: Style.DELETED,
    Operation.MOVE: Style.MOVED,
}

_SIGNS = {
    Operation.CREATE: "+",
    Operation.UPDATE: "~",
    Operation.REPLACE: "-/+",
    Operation.DELETE: "-",
    Operation.MOVE: ">",
}

_MAX_NAMES = 8  # of objects with the same edit


def write_objects(page: Page, plan: Plan, *, full: bool) -> None:
    """Write every changed object, with the fields of updates and the reasons of all."""
    if not plan.changes:
        return
    page.heading("Objects", Styled(f" ({len(plan.changes):,})", Style.DIM))
    page.blank()
    is_short = True
    for group in group_changes(plan):
        own = Page(width=page.width, color=page.color, unicode=page.unicode)
        _change_group(own, group, full=full)
        if not (is_short and len(own.lines) == 1):
            page.blank()
        page.lines += own.lines
        is_short = len(own.lines) == 1


def _change_group(page: Page, group: ChangeGroup, *, full: bool) -> None:
    change = group.first
    _object(page, group)
    if group.others:
        shown = group.names if full else group.names[:_MAX_NAMES]
        more = f" and {len(group.names) - len(shown):,} more" if len(group.names) > len(shown) else ""
        page.write(Styled(", ".join(shown), Style.STRONG), more, indent=4, hang=0)
    if change.operation in (Operation.CREATE, Operation.DELETE) and not full:
        _compact(page, group)
    else:
        parts = told(group, full=full)
        for followers in parts.followers:
            page.write(Styled(followers.because, Style.DIM), indent=4)
            page.write(followers.count, indent=4)
        for fields in group_fields(parts.listed):
            _field_group(page, group, fields, full=full)
        if not change.fields:
            _main_reason(page, group)


def _field_group(page: Page, group: ChangeGroup, alike: FieldGroup, *, full: bool) -> None:
    is_short = [_field(page, field, full=full) for field in alike.fields] == [True]
    if alike.why is not None:
        reason = ": ".join(group.reason(alike.why, alike.fields[0].path if len(alike.fields) == 1 else ""))
        if not (is_short and page.append(Styled(f"  because {reason}", Style.DIM))):
            _because(page, reason, indent=6)


def _object(page: Page, group: ChangeGroup) -> None:
    change = group.first
    style = OPERATION_STYLES[change.operation]
    kind, _, rest = group.title.partition(" ")
    pieces: list[Piece] = [Styled(f"{_SIGNS[change.operation]} {kind} ", style), Styled(rest, Style.STRONG)]
    if change.gpus_before != change.gpus_after:
        each = " each" if group.others else ""
        pieces.append(Styled(f"  {change.gpus_before} → {gpus(change.gpus_after)}{each}", style))
    if change.source and not group.others:
        pieces.append(Styled(f"  {where(change.source)}", Style.DIM))
    page.write(*pieces, indent=2, hang=4)
    if change.moved_from:
        page.write(Styled("from ", Style.DIM), change.moved_from, indent=6)
        page.write(Styled("to   ", Style.DIM), change.path, indent=6)
    if change.recreated:
        page.write(Styled("deleted and created again because of ", Style.DIM), change.recreated, indent=6)


def _compact(page: Page, group: ChangeGroup) -> None:
    change = group.first
    if change.operation is Operation.CREATE:
        facts: list[Piece] = []
        for step, value in key_fields(change):
            facts += [*([Styled(" · ", Style.DIM)] if facts else []), Styled(f"{step} ", Style.DIM), value]
        if facts:
            page.write(*facts, indent=4)
    _main_reason(page, group)


def _main_reason(page: Page, group: ChangeGroup) -> None:
    """Write the main reason of a change whose fields are not shown, on the same line if there is room."""
    why = main_reason(group.first)
    if why is not None:
        reason = ": ".join(group.reason(why))
        if not page.append(Styled(f"  because {reason}", Style.DIM)):
            _because(page, reason, indent=4)


def _because(page: Page, reason: str, *, indent: int) -> None:
    page.write(Styled("because ", Style.DIM), Styled(reason, Style.DIM), indent=indent)


def _field(page: Page, field: FieldChange, *, full: bool) -> bool:
    """Write one field. Return whether it took one line."""
    if not full and is_generated_json(field):
        start = f"{field.path}: "
        page.write(
            Styled(f"{_sign(field)} ", _field_style(field)), start, Styled("a decision as JSON", Style.DIM), indent=4
        )
        return True
    before = scalar(field.before) if field.has_before else ""
    after = scalar(field.after) if field.has_after else ""
    if not full:
        before, after = short_digests(before, after)
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


_SHORT_COMMIT = 12


def render_text(plan: Plan, options: RenderOptions = DEFAULTS) -> str:
    """Render the plan for a terminal. Headline and last lines are about all of it, whatever the filters hide."""
    page = Page(width=options.width, color=options.color, unicode=options.unicode)
    listed = apply_filters(plan, options.filters)
    view = View(plan=listed.plan, full=options.full or options.lint, queues=listed.queues)
    if options.lint:
        page.write(Styled(lint_headline(plan), Style.ERROR if blockers(plan) else Style.STRONG))
        write_sections(page, plan_sections(view, lint=True), full=True)
        return page.text()
    _headline(page, plan, listed)
    write_sections(page, plan_sections(view, summary=options.summary, last=False), full=options.full)
    if options.summary:
        _counts(page, view)
    else:
        write_objects(page, view.plan, full=options.full)
        write_sections(page, plan_sections(view, last=True), full=options.full)
    _footer(page, plan)
    return page.text()


def _counts(page: Page, view: View) -> None:
    """Write how many findings and objects a summary leaves out."""
    counts = listed_counts(view.plan)
    if counts:
        page.blank()
        page.write(Styled(f"Not listed: {', '.join(counts)}", Style.DIM))


def _headline(page: Page, plan: Plan, listed: Filtered) -> None:
    for sentence in headlines(plan):
        page.write(Styled(sentence, Style.STRONG))
    pieces: list[Piece] = []
    for operation, count in counts(plan):
        pieces += [*([" · "] if pieces else []), Styled(count, OPERATION_STYLES[operation] if operation else Style.DIM)]
    page.write(*pieces)
    blocking = blockers(plan)
    if blocking:
        page.write(Styled(f"{refusal_words(plan)}: ", Style.ERROR), Styled(", ".join(blocking), Style.ERROR))
    elif plan.breaches:
        page.write(Styled(approved_headline(plan), Style.WARNING))
    if listed.note:
        page.write(Styled(listed.note, Style.MOVED))
    found = answers(plan, listed.plan)
    if found:
        page.blank()
        write_facts(page, [(one.question, (Styled(one.text, one.style),)) for one in found], indent=2)


def _footer(page: Page, plan: Plan) -> None:
    page.blank()
    page.write(Styled(f"{_revision(plan.base)} → {_revision(plan.head)} · engine {plan.engine}", Style.DIM))
    page.write(Styled(f"plan {plan.digest or '(no digest)'}", Style.DIM))
    page.blank()
    if not plan.is_empty:
        page.write(Styled(closing_line(plan), Style.STRONG))
    if plan.risks:
        page.write(Styled(risk_counts(plan), Style.WARNING))


def _revision(revision: Revision) -> str:
    return f"{revision.label} {revision.commit[:_SHORT_COMMIT]}".strip()
