"""`reconciler commit`."""

from typing import Any

import click

from reconciler.cli import options
from reconciler.outputs.registry import output_names


@click.command(
    "commit",
    epilog="""\b
Examples:
  git commit -am "vit: 16 -> 32 GPUs" && reconciler commit
  reconciler commit --branch rendered/vit       leave the checked-out branch as it is
  reconciler commit --acknowledge 3f9c21ab04d2  a plan over budget, after reading it
""",
)
@options.repo
@options.cluster
@click.option("--branch", metavar="NAME", help="Commit on this branch, made from HEAD. [default: in place]")
@click.option("--message", "-m", metavar="TEXT", help="First line of the commit. [default: what the plan does]")
@options.output(output_names("commit"))
@click.option("--width", metavar="N", help="Columns of text. [default: the terminal's]")
@options.date
@options.acknowledge
@options.run_options
def command(*, repo: str, branch: str | None, message: str | None, **flags: Any) -> int:
    """Write rendered/ and make one commit of it.

    Renders the sources of HEAD (commit your edits first) and commits the difference with the plan's digest in its
    trailers. Where nothing differs nothing is committed. Your working tree and index are otherwise untouched.
    """
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    session = wiring.open_session(repo, options.setting_flags(flags) | {"revision": "HEAD"}, options.environment())
    planned = session.plan(against_head=True)
    click.echo(wiring.render_plan(planned.plan, session.settings), nl=False)
    wiring.raise_if_refused(planned.plan)
    oid = session.commit(planned, branch=branch, message=message)
    if oid is None:
        click.echo("nothing to commit: rendered/ is what the sources mean", err=True)
    else:
        click.echo(f"committed {oid[:12]}{f' on {branch}' if branch else ''}", err=True)
    for path in session.uncommitted_sources():
        click.echo(f"warning: {path} has uncommitted edits, which are not part of this", err=True)
    return 0
