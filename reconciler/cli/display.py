"""Formats results for the terminal or for the file that standard output is."""

# ruff: noqa: PLC0415 - each format is imported only when it is used

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from reconciler.core.plan import Plan
    from reconciler.core.plan.explanation import Explanation
    from reconciler.outputs.sizing.answer import SizeAnswer
    from reconciler.settings import Settings

_MIN_WIDTH = 40
_FILE_WIDTH = 100


def format_plan(
    plan: "Plan",
    settings: "Settings",
    *,
    full: bool = False,
    lint: bool = False,
    summary: bool = False,
    filters: dict[str, tuple[str, ...]] | None = None,
) -> Iterator[str]:
    """Format a plan, in parts; `lint` shows only findings, because nothing was compared."""
    from reconciler.outputs.registry import FOR_PEOPLE, RenderOptions, render

    if (summary or filters) and settings.output not in FOR_PEOPLE:
        flag = "--summary" if summary else "--filter"
        raise click.UsageError(f"{flag} does not apply to -o {settings.output}; use it with {' or '.join(FOR_PEOPLE)}")
    options = RenderOptions(full=full, lint=lint, summary=summary, filters=filters or {}, **terminal(settings))
    return render(plan, settings.output, options)


def format_explanation(explanation: "Explanation", settings: "Settings") -> str:
    """Format the reasons of an object or a field."""
    from reconciler.outputs.explain import render_explain, render_explain_json

    if settings.output == "json":
        return render_explain_json(explanation)
    return render_explain(explanation, **terminal(settings))


def format_sizes(answers: Sequence["SizeAnswer"], settings: "Settings") -> str:
    """Format answers to sizing questions; as JSON, one indented object or one object per line."""
    if settings.output == "json":
        import msgspec

        from reconciler.outputs.sizing.report import size_report

        lines = [msgspec.json.encode(size_report(answer)) for answer in answers]
        lines = [msgspec.json.format(line, indent=2) for line in lines] if len(lines) == 1 else lines
        return "".join(line.decode() + "\n" for line in lines)
    from reconciler.outputs.sizing.text import render_size

    return "\n".join(render_size(answer, **terminal(settings)) for answer in answers)


def terminal(settings: "Settings") -> dict[str, Any]:
    """Return the width, color and character set of standard output."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return {"width": _width(settings), "color": _has_color(settings), "unicode": encoding in {"utf8", "utf16"}}


def _has_color(settings: "Settings") -> bool:
    """Return whether to color: the flag first, then NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, then the terminal."""
    if settings.color != "auto":
        return settings.color == "always"
    environ = os.environ
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    if any(environ.get(name, "") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return sys.stdout.isatty() and environ.get("CLICOLOR") != "0"


def _width(settings: "Settings") -> int:
    if settings.width:
        return max(settings.width, _MIN_WIDTH)
    if not sys.stdout.isatty():
        return _FILE_WIDTH
    import shutil  # imports the archive modules

    return max(shutil.get_terminal_size().columns, _MIN_WIDTH)
