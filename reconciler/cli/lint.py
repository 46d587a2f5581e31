"""`reconciler lint`."""

from typing import Any

import click

from reconciler.cli import options
from reconciler.outputs.registry import output_names


@click.command(
    "lint",
    epilog="""\b
Examples:
  reconciler lint                    the working tree
  reconciler lint --revision HEAD -o sarif > lint.sarif
""",
)
@options.repo
@options.revision
@options.cluster
@options.output(output_names("lint"))
@click.option("--width", metavar="N", help="Columns of text. [default: the terminal's]")
@options.date
@options.run_options
def command(*, repo: str, **flags: Any) -> int:
    """Check every file and say everything that is wrong: all problems of all files in one run.

    Needs no commit and compares with nothing: YAML as Kubernetes reads it, schemas, cross references and policies.
    """
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    session = wiring.open_session(repo, options.setting_flags(flags), options.environment())
    checked = session.lint()
    click.echo(wiring.render_lint(checked, session.settings), nl=False)
    wiring.raise_if_refused(checked)
    return 0
