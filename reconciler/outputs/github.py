"""A plan in, GitHub Actions annotations out: each finding on its line of the pull request's files."""

from reconciler.core.plan import Plan
from reconciler.outputs.findings import Finding, Kind, Level, findings
from reconciler.outputs.printable import clip, printable, without_commands
from reconciler.outputs.registry import DEFAULTS, RenderOptions
from reconciler.outputs.summary import counts, headline, lint_headline

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}
_LONGEST = 4_000  # characters of one message; GitHub cuts at 64 KiB
_LONGEST_TITLE = 120


def render_github(plan: Plan, options: RenderOptions = DEFAULTS) -> str:
    """Write workflow commands, loudest first, for GitHub shows ten of a kind a step; then the headline as plain text.

    What an exception allows is no annotation.
    """
    lines = [_command(finding) for finding in findings(plan) if finding.kind is not Kind.EXCEPTED]
    what = lint_headline(plan) if options.lint else f"{headline(plan)}; {', '.join(text for _, text in counts(plan))}"
    lines.append(without_commands(f"reconciler: {printable(what)}"))
    return "\n".join(lines) + "\n"


def _command(finding: Finding) -> str:
    properties = {}
    if finding.place is not None:
        properties["file"] = finding.place.path
        if finding.place.line:
            properties["line"] = str(finding.place.line)
        if finding.place.column:
            properties["col"] = str(finding.place.column)
    properties["title"] = clip(printable(finding.rule), _LONGEST_TITLE)
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = without_commands(clip(printable(finding.sentence), _LONGEST))  # of other runners, inside this one
    return f"::{_COMMANDS[finding.level]} {written}::{_data(message)}"


def _data(text: str) -> str:
    """Escape as the runner unescapes: `%` first."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
