"""The text output: what the plan does to the GPUs, then findings, then every changed object."""

from reconciler.core.plan import Plan, Revision
from reconciler.outputs.filters import apply_filters
from reconciler.outputs.findings import lint_headline
from reconciler.outputs.registry import DEFAULTS, RenderOptions
from reconciler.outputs.sections import plan_sections
from reconciler.outputs.sections.live import refusal_words
from reconciler.outputs.sections.model import View
from reconciler.outputs.summary import (
    approved_headline,
    blockers,
    closing_line,
    counts,
    headlines,
    listed_counts,
    risk_counts,
)
from reconciler.outputs.terminal.objects import OPERATION_STYLES, write_objects
from reconciler.outputs.terminal.page import Page, Piece, Style, Styled
from reconciler.outputs.terminal.sections import write_sections

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
    _headline(page, plan, listed.note)
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


def _headline(page: Page, plan: Plan, note: str) -> None:
    for sentence in headlines(plan):
        page.write(Styled(sentence, Style.STRONG))
    pieces: list[Piece] = []
    for operation, count in counts(plan):
        pieces += [*([" · "] if pieces else []), Styled(count, OPERATION_STYLES[operation] if operation else Style.DIM)]
    page.write(*pieces)
    if plan.risks:
        page.write(Styled(risk_counts(plan), Style.WARNING))
    blocking = blockers(plan)
    if blocking:
        page.write(Styled(f"{refusal_words(plan)}: ", Style.ERROR), Styled(", ".join(blocking), Style.ERROR))
    elif plan.breaches:
        page.write(Styled(approved_headline(plan), Style.WARNING))
    if note:
        page.write(Styled(note, Style.MOVED))


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
