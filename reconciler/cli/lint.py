"""`reconciler lint`."""

from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit_report
from reconciler.outputs.registry import output_names


@click.command(
    "lint",
    epilog="""\b
Examples:
  reconciler lint                                        the working tree
  reconciler lint --revision HEAD -o sarif > lint.sarif  a commit, as SARIF
""",
)
@options.repo
@options.revision
@options.cluster
@options.output(output_names("lint"))
@options.width
@options.date
@options.run_options
def command(*, repo: str, **flags: Any) -> int:
    """Check all files and report every problem.

    Checks YAML syntax, schemas, references between objects, and policies. Compares nothing and needs no commit.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast

    run = wiring.open_run(repo, options.setting_flags(flags), options.environment(), compiles=True)
    from reconciler.app.lint import lint  # noqa: PLC0415 - after git has begun to look for changes
    from reconciler.cli.display import format_plan  # noqa: PLC0415
    from reconciler.planning.gate import refuse  # noqa: PLC0415

    result = lint(run.workspace, date=run.settings.date)
    emit_report(format_plan(result, run.settings, lint=True), run.settings)
    refuse(result)
    return 0
