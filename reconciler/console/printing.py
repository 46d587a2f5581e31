"""The one place that prints: nothing reaches standard output or standard error without being cleaned."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress

import click

from reconciler.console.printable import clean_output
from reconciler.console.terminal import terminal
from reconciler.errors import ReconcilerError
from reconciler.kube.secrets import mask_findings, mask_text, mask_tokens
from reconciler.settings import Settings

_PART = 65_536  # characters


def emit(text: str, *, form: str = "text", color: bool = False, err: bool = False, nl: bool = True) -> None:
    """Print text in one of the output formats; see `clean_output`. Messages lose tokens and credentials in URLs.

    A message that standard error does not take, because its reader has gone or the disk is full, is dropped: the exit
    code stays that of the command.
    """
    if err:
        text = mask_tokens(text)
    with suppress(OSError) if err else nullcontext():
        click.echo(clean_output(text, form=form, color=color), err=err, nl=nl, color=color or None)


def emit_report(report: str | Iterable[str], settings: Settings) -> None:
    """Print what one of the formats of `display` returned, part by part: cleaning takes many times its length."""
    has_color = settings.output == "text" and terminal(settings)["color"]
    for lines in whole_lines([report] if isinstance(report, str) else report):
        emit(lines, form=settings.output, color=has_color, nl=False)


def whole_lines(parts: Iterable[str], size: int = _PART) -> Iterator[str]:
    """Yield text in parts of whole lines and about `size` characters: commands of build servers span no lines."""
    held: list[str] = []
    length = 0
    for part in parts:
        for line in part.splitlines(keepends=True) if len(part) > size else (part,):
            held.append(line)
            length += len(line)
            if length >= size and line.endswith("\n"):
                yield "".join(held)
                held, length = [], 0
    if held:
        yield "".join(held)


def report_error(error: ReconcilerError) -> int:
    """Print an error with what it carries, and return its exit code."""
    for problem in mask_findings(getattr(error, "problems", ())):
        emit(str(problem), err=True)
    emit(f"error: {mask_text(str(error))}", err=True)
    return error.exit_code
