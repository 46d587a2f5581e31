"""`reconciler verify`."""

from typing import Any

import click

from reconciler.cli import options
from reconciler.outputs.registry import output_names


@click.command(
    "verify",
    epilog="""\b
Examples:
  reconciler verify                      HEAD
  reconciler verify --revision v1.4 -o json
""",
)
@options.repo
@options.revision
@options.cluster
@options.output(output_names("verify"))
@click.option("--width", metavar="N", help="Columns of text. [default: the terminal's]")
@options.date
@options.run_options
def command(*, repo: str, **flags: Any) -> int:
    """Fail unless rendered/ is exactly what the sources mean, at HEAD or at --revision.

    A gate for CI: exits with 5 and shows the difference where somebody edited rendered/ by hand or forgot
    `reconciler commit`.
    """
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    given = options.setting_flags(flags)
    session = wiring.open_session(repo, {"revision": "HEAD", **given}, options.environment())
    planned = session.plan(against_head=True)
    if not planned.plan.is_empty or planned.plan.errors or planned.plan.denials:
        click.echo(wiring.render_plan(planned.plan, session.settings), nl=False)
    wiring.raise_if_refused(planned.plan, budgets=False)
    wiring.raise_if_stale(planned.plan)
    click.echo(f"verified: {planned.plan.unchanged} objects of {session.settings.revision} are what its sources mean")
    return 0
