"""The one place that prints: nothing reaches standard output or standard error without being cleaned."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reconciler.settings import Settings


def emit(text: str, *, form: str = "text", color: bool = False, err: bool = False, nl: bool = True) -> None:
    """Print text in one of the output formats; see `clean_output`. Messages lose tokens and credentials in URLs."""
    from reconciler.outputs.terminal.printable import clean_output  # noqa: PLC0415 - `--help` prints through click

    if err:
        from reconciler.core.secrets import mask_tokens  # noqa: PLC0415 - as above

        text = mask_tokens(text)
    click.echo(clean_output(text, form=form, color=color), err=err, nl=nl)


def emit_report(text: str, settings: "Settings") -> None:
    """Print what one of the formats of `display` returned."""
    from reconciler.cli.display import terminal  # noqa: PLC0415 - as above

    emit(text, form=settings.output, color=settings.output == "text" and terminal(settings)["color"], nl=False)
