"""Answers to sizing questions as text or JSON."""

from collections.abc import Sequence

import msgspec

from reconciler.console.terminal import terminal
from reconciler.settings import Settings
from reconciler.size.pages.answer import SizeAnswer
from reconciler.size.pages.report import size_report
from reconciler.size.pages.text import render_size


def format_sizes(answers: Sequence[SizeAnswer], settings: Settings) -> str:
    """Format answers to sizing questions; as JSON, one indented object or one object per line."""
    if settings.output == "json":
        lines = [msgspec.json.encode(size_report(answer)) for answer in answers]
        lines = [msgspec.json.format(line, indent=2) for line in lines] if len(lines) == 1 else lines
        return "".join(line.decode() + "\n" for line in lines)

    return "\n".join(render_size(answer, **terminal(settings)) for answer in answers)
