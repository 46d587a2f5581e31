"""`reconciler autoconf compile` and `reconciler autoconf check`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reconciler.adapters.predictors.table import Table


@click.group(
    "autoconf",
    epilog="""\b
Examples:
  reconciler autoconf compile -o autoconf.table
  reconciler autoconf compile --python ~/ado/bin/python -o autoconf.table
  reconciler autoconf check autoconf.table
""",
)
def command() -> None:
    """Compile the model of an installed ado-autoconf into a small table, which answers without it.

    The model is not ours: compile the release that you installed, under its licence.
    """


@command.command(
    "compile",
    epilog="""\b
Examples:
  reconciler autoconf compile -o autoconf.table
  reconciler autoconf compile --python ~/ado/bin/python -o autoconf.table
""",
)
@click.option("--python", metavar="PATH", default="", help="The interpreter that has ado-autoconf. [default: this one]")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="autoconf.table",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the table.",
)
@click.option("--model-version", metavar="X.Y.Z", default="3.1.0", show_default=True, help="The model to compile.")
@click.option(
    "--points",
    type=click.IntRange(1000, 10_000_000),
    metavar="N",
    default=20_000,
    show_default=True,
    help="Random points on which table and model must agree.",
)
def compile_(python: str, output: Path, model_version: str, points: int) -> int:
    """Ask the model for every cell, compare both on random points and whole questions, then write the table.

    Nothing is written where the model is not of trees alone (release 1.9.7 is), or where both differ in a single bit.
    """
    from reconciler.wiring import autoconf  # noqa: PLC0415 - imports late, so that --help stays fast

    table = autoconf.compile_autoconf(python, output, model_version=model_version, points=points)
    click.echo(f"{output}: {_described(table)}")
    return 0


@command.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> int:
    """Verify that a table is what was compiled, and say of what it was."""
    from reconciler.wiring import autoconf  # noqa: PLC0415 - imports late, so that --help stays fast

    click.echo(f"{file}: {_described(autoconf.read_autoconf_table(file))}")
    return 0


def _described(table: "Table") -> str:
    header = table.header
    versions = ", ".join(f"{name} {version}" for name, version in header.versions.items())
    return (
        f"{versions}, model {header.model_version} (sha256 {header.model_sha256[:12]}); {header.cells:,} cells, "
        f"equal to the model on {header.points:,} random points; sha256 {table.digest}"
    )
