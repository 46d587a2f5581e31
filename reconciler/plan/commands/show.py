"""`reconciler show`."""

from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit_report
from reconciler.outputs import output_names
from reconciler.plan import opening
from reconciler.plan.gate import refuse
from reconciler.plan.outputs.display import format_plan
from reconciler.plan.outputs.page_options import page


@click.command(
    "show",
    epilog="""\b
Examples:
  reconciler show plan.json
  reconciler show plan.json -o markdown
  reconciler show plan.json --summary --filter cluster=main
  reconciler show plan.json --exit-code > /dev/null   exit with 1 if the plan has changes
""",
)
@click.argument("plan_file", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.output(output_names("show"))
@page
@options.width
@options.color
@options.exit_code
def command(
    *, plan_file: Path, full: bool, summary: bool, filters: dict[str, tuple[str, ...]], exit_code: bool, **flags: Any
) -> int:
    """Show a saved plan in any format. PLAN is a file that `reconciler plan --out` wrote.

    Exits like the command that saved the plan: with 3 for errors, 4 for policy denials, 5 for a plan over budget. A
    file that was modified is refused with 5.
    """
    settings = opening.resolve_settings(options.setting_flags(flags), options.environment())
    plan = opening.load_plan(plan_file)
    emit_report(format_plan(plan, settings, full=full, summary=summary, filters=filters), settings)
    refuse(plan)
    return 1 if exit_code and plan.has_changes else 0
