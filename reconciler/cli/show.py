"""`reconciler show`."""

from pathlib import Path
from typing import Any

import click

from reconciler.cli import options
from reconciler.outputs.registry import output_names


@click.command(
    "show",
    epilog="""\b
Examples:
  reconciler show plan.json
  reconciler show plan.json -o markdown
  reconciler show plan.json --exit-code > /dev/null   is there anything to do?
""",
)
@click.argument("plan_file", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.output(output_names("show"))
@click.option("--full", is_flag=True, help="Show every field of created and deleted objects too.")
@click.option("--width", metavar="N", help="Columns of text. [default: the terminal's]")
@click.option("--color", type=click.Choice(("auto", "always", "never")), help="When to colour. [default: auto]")
@options.exit_code
def command(*, plan_file: Path, full: bool, exit_code: bool, **flags: Any) -> int:
    """Show a saved plan again, in any format. PLAN is what `reconciler plan --out` wrote."""
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    settings = wiring.resolve_settings(options.setting_flags(flags), options.environment())
    plan = wiring.load_plan(plan_file)
    click.echo(wiring.render_plan(plan, settings, full=full), nl=False)
    return 1 if exit_code and not plan.is_empty else 0
