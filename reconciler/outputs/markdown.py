"""The Markdown output: one pull-request comment with the summary first, details folded, and a bounded length."""

from collections.abc import Iterator

from reconciler.core.plan import Plan, Revision
from reconciler.outputs.comment.markup import code, marker, prose, size
from reconciler.outputs.comment.objects import objects_markdown
from reconciler.outputs.comment.sections import sections_markdown
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
from reconciler.outputs.terminal.printable import without_commands

GITHUB_LIMIT = 65_536
"""Most characters in one comment on GitHub."""

_MIN_LIMIT = 1_000
_ROWS = (60, 25, 10, 4, 1, 0)  # most rows of a table or list, tried in turn until the summary fits
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
    listed = apply_filters(plan, options.filters)
    view = View(plan=listed.plan, full=options.full, queues=listed.queues)
    start, end = marker(scope), "" if lint else without_commands(_footer(plan))
    # Escaping log commands lengthens the text, so every part is measured after it.
    for rows in _ROWS:
        parts = [start, *(_lint(plan, view, rows) if lint else _top(plan, listed.note, rows))]
        if not lint:
            parts += sections_markdown(plan_sections(view, summary=options.summary), rows)
        head = without_commands("\n\n".join(parts))
        if size(head) + size(end) + _MIN_LIMIT // 2 <= limit:
            break
    else:
        return _least(plan, start, lint=lint)
    if lint:
        return f"{head}\n"
    room = limit - size(head) - size(end) - len("\n\n\n\n\n")  # between the parts and at the end
    if options.summary:
        counted = listed_counts(view.plan)
        objects = f"Not listed: {', '.join(counted)}" if counted else ""
    else:
        objects = objects_markdown(view.plan, room, full=options.full)
    return "\n\n".join(part for part in (head, objects, end) if part) + "\n"


def _least(plan: Plan, start: str, *, lint: bool) -> str:
    what = lint_headline(plan) if lint else ", ".join(text for _, text in counts(plan))
    verb = "lint" if lint else "plan"
    return f"{start}\n\n### {prose(what)}\n\nThe plan is too long for a comment. Run `reconciler {verb}` to see it.\n"


def _top(plan: Plan, note: str, rows: int) -> Iterator[str]:
    """Yield what a reviewer needs first. It is about the whole plan, whatever the filters hide."""
    first, *others = headlines(plan)
    yield f"### {prose(first)}"
    if others and rows:
        yield "<br>".join(f"**{prose(sentence)}**" for sentence in others[:rows])
    yield " · ".join(f"**{text}**" if operation else text for operation, text in counts(plan))
    if plan.risks:
        count, _, harms = risk_counts(plan).partition(": ")
        yield f"⚠️ **{count}**" + (f": {harms}" if harms else "")
    yield from _status(plan)
    if note:
        yield prose(note)


def _lint(plan: Plan, view: View, rows: int) -> Iterator[str]:
    yield f"### {prose(lint_headline(plan))}"
    yield from sections_markdown(plan_sections(view, lint=True), rows)


def _status(plan: Plan) -> Iterator[str]:
    blocking = blockers(plan)
    if blocking:
        yield f"> [!CAUTION]\n> **{refusal_words(plan)}:** {', '.join(blocking)}"
    elif plan.breaches:
        yield f"> [!WARNING]\n> {approved_headline(plan)}"


def _footer(plan: Plan) -> str:
    ends = f"{_revision(plan.base)} → {_revision(plan.head)}"
    digest = code(plan.digest) if plan.digest else "(no digest)"
    last = "" if plan.is_empty else f"**{prose(closing_line(plan))}**\n\n"
    return f"{last}<sub>{ends} · plan {digest} · engine {code(plan.engine)}</sub>"


def _revision(revision: Revision) -> str:
    commit = f" {code(revision.commit[:_SHORT_COMMIT])}" if revision.commit else ""
    return f"{code(revision.label)}{commit}"
