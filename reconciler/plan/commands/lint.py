"""`reconciler lint`."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit_report
from reconciler.outputs import output_names
from reconciler.plan import opening
from reconciler.plan.gate import refuse
from reconciler.plan.outputs.display import format_plan
from reconciler.plan.use_cases import lint


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
    run = opening.open_run(repo, options.setting_flags(flags), options.environment(), compiles=True)

    result = lint(run.workspace, date=run.settings.date)
    emit_report(format_plan(result, run.settings, lint=True), run.settings)
    refuse(result)
    return 0
