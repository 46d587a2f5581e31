"""Formats results for the terminal or for the file that standard output is."""

from collections.abc import Iterator

import click

from reconciler.console.terminal import terminal
from reconciler.outputs import FOR_PEOPLE, RenderOptions, render
from reconciler.plan import Plan
from reconciler.plan.explanation import Explanation
from reconciler.plan.outputs.explain import render_explain, render_explain_json
from reconciler.settings import Settings


def format_plan(
    plan: Plan,
    settings: Settings,
    *,
    full: bool = False,
    lint: bool = False,
    summary: bool = False,
    filters: dict[str, tuple[str, ...]] | None = None,
) -> Iterator[str]:
    """Format a plan, in parts; `lint` shows only findings, because nothing was compared."""
    if (summary or filters) and settings.output not in FOR_PEOPLE:
        flag = "--summary" if summary else "--filter"
        raise click.UsageError(f"{flag} does not apply to -o {settings.output}; use it with {' or '.join(FOR_PEOPLE)}")
    options = RenderOptions(full=full, lint=lint, summary=summary, filters=filters or {}, **terminal(settings))
    return render(plan, settings.output, options)


def format_explanation(explanation: Explanation, settings: Settings) -> str:
    """Format the reasons of an object or a field."""
    if settings.output == "json":
        return render_explain_json(explanation)
    return render_explain(explanation, **terminal(settings))
