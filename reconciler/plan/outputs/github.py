"""The GitHub output: workflow commands that annotate the lines of a pull request, one per finding."""

from reconciler.console.printable import clip, printable, without_commands
from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import Plan
from reconciler.plan.outputs.findings import Category, Finding, Level, findings, lint_headline
from reconciler.plan.outputs.summary import counts, headline

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}
_MAX_MESSAGE = 4_000  # characters; GitHub cuts at 64 KiB
_MAX_TITLE = 120


def render_github(plan: Plan, options: RenderOptions = DEFAULTS) -> str:
    """Render one workflow command per finding, then the headline as plain text.

    Errors come first, because GitHub shows only ten annotations of each level per step. Denials that an exception
    allows are left out.
    """
    lines = [_command(finding) for finding in findings(plan) if finding.category is not Category.EXCEPTED]
    last = lint_headline(plan) if options.lint else f"{headline(plan)}; {', '.join(text for _, text in counts(plan))}"
    lines.append(without_commands(f"reconciler: {printable(last)}"))
    return "\n".join(lines) + "\n"


def _command(finding: Finding) -> str:
    properties = {}
    if finding.place is not None:
        properties["file"] = finding.place.path
        if finding.place.line:
            properties["line"] = str(finding.place.line)
        if finding.place.column:
            properties["col"] = str(finding.place.column)
    properties["title"] = clip(printable(finding.rule), _MAX_TITLE)
    joined = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = without_commands(clip(printable(finding.sentence), _MAX_MESSAGE))  # no command inside this one
    return f"::{_COMMANDS[finding.level]} {joined}::{_data(message)}"


def _data(text: str) -> str:
    """Escape a message. The runner unescapes in the reverse order, so `%` is first."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
