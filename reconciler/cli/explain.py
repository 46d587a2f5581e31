"""`reconciler explain`."""

from typing import Any

import click

from reconciler.cli import options


@click.command(
    "explain",
    epilog="""\b
Examples:
  reconciler explain Job/team-a/vit
  reconciler explain Job/team-a/vit spec.completions
  reconciler explain rendered/main/team-a/job-vit.yaml spec.template.spec.containers[0].image
""",
)
@click.argument("object_", metavar="OBJECT")
@click.argument("field", metavar="[FIELD]", required=False, default="")
@options.repo
@options.revision
@options.cluster
@options.output(("text", "json"))
@click.option("--width", metavar="N", help="Columns of text. [default: the terminal's]")
@options.run_options
def command(*, object_: str, field: str, repo: str, **flags: Any) -> int:
    """Say why an object or one of its fields is what it is: the chain to source lines, formulas and evidence.

    OBJECT is Kind/namespace/name, Kind/name, or the path of a file in rendered/. FIELD is a path such as
    spec.template.spec.containers[name=trainer].image; without it every field is listed with its reason.
    """
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    session = wiring.open_session(repo, options.setting_flags(flags), options.environment())
    click.echo(wiring.render_explanation(session.explain(object_, field), session.settings), nl=False)
    return 0
