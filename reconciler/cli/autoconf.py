"""`reconciler autoconf compile` and `reconciler autoconf check`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.console import emit

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
    """Compile the model of an installed ado-autoconf into a small table that gives the same answers.

    The model is not part of this project. Compile the release that you have installed, under its own licence.
    """


@command.command(
    "compile",
    short_help="Compile and verify a table.",
    epilog="""\b
Examples:
  reconciler autoconf compile -o autoconf.table
  reconciler autoconf compile --python ~/ado/bin/python -o autoconf.table
""",
)
@click.option(
    "--python", metavar="PATH", default="", help="Python interpreter that has ado-autoconf. [default: this one]"
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="autoconf.table",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write the table to.",
)
@click.option("--model-version", metavar="X.Y.Z", default="3.1.0", show_default=True, help="Model to compile.")
@click.option(
    "--points",
    type=click.IntRange(1000, 10_000_000),
    metavar="N",
    default=20_000,
    show_default=True,
    help="Number of random points to compare table and model on.",
)
def compile_(python: str, output: Path, model_version: str, points: int) -> int:
    """Query the model for every cell of the table, then compare both on random points and on whole questions.

    Nothing is written if table and model differ anywhere, or if the model does not consist of decision trees alone
    (the one in release 1.9.7 does).
    """
    from reconciler.wiring import predictors  # noqa: PLC0415 - imported late so that --help stays fast

    table = predictors.compile_autoconf(python, output, model_version=model_version, points=points)
    emit(f"{output}: {_summary(table)}")
    return 0


@command.command(
    "check",
    short_help="Verify a table.",
    epilog="""\b
Examples:
  reconciler autoconf check autoconf.table
""",
)
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> int:
    """Verify the digest of a table, and print what it was compiled from."""
    from reconciler.wiring import predictors  # noqa: PLC0415 - imported late so that --help stays fast

    emit(f"{file}: {_summary(predictors.read_autoconf_table(file))}")
    return 0


def _summary(table: "Table") -> str:
    header = table.header
    versions = ", ".join(f"{name} {version}" for name, version in header.versions.items())
    return (
        f"{versions}, model {header.model_version} (sha256 {header.model_sha256[:12]}); {header.cells:,} cells, "
        f"equal to the model at {header.points:,} random points; sha256 {table.digest}"
    )
