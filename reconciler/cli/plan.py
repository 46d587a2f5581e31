"""`reconciler plan`."""

from pathlib import Path
from typing import Any

import click

from reconciler.cli import options
from reconciler.outputs.registry import output_names


@click.command(
    "plan",
    epilog="""\b
Examples:
  reconciler plan                               my uncommitted edits, against the upstream's main
  reconciler plan --revision HEAD --base main   a pull request
  reconciler plan -o markdown > comment.md
  reconciler plan --out plan.json --exit-code   a file to show or to check later; 1 if anything changes
""",
)
@options.repo
@options.base
@options.revision
@options.cluster
@options.output(output_names("plan"))
@click.option("--full", is_flag=True, help="Show every field of created and deleted objects too.")
@click.option("--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Save the plan as JSON.")
@click.option("--width", metavar="N", help="Columns of text. [default: the terminal's]")
@options.date
@options.acknowledge
@options.exit_code
@options.run_options
def command(*, repo: str, full: bool, out: Path | None, exit_code: bool, **flags: Any) -> int:
    """Show what the sources mean, as a diff with reasons.

    Compares what the sources of the working tree (or of --revision) render to with rendered/ of the base. Nothing is
    written, nothing is asked of a network or a clock.
    """
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    session = wiring.open_session(repo, options.setting_flags(flags), options.environment())
    planned = session.plan()
    if out is not None:
        wiring.save_plan(planned.plan, out)
    click.echo(wiring.render_plan(planned.plan, session.settings, full=full), nl=False)
    wiring.raise_if_refused(planned.plan)
    return 1 if exit_code and not planned.plan.is_empty else 0
