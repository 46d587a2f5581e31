"""What `reconciler autoconf` needs: an installed ado-autoconf in, a table out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from reconciler.adapters.predictors.table import Table


def compile_autoconf(python: str, output: Path, *, model_version: str, points: int) -> "Table":
    """Compile the model of an installed ado-autoconf into a file."""
    from reconciler.adapters.files import write_file  # noqa: PLC0415 - late, as all adapters
    from reconciler.adapters.predictors.compile import compile_table  # noqa: PLC0415 - as above
    from reconciler.adapters.predictors.installed import InstalledPredictor  # noqa: PLC0415 - as above
    from reconciler.outputs.progress import progress  # noqa: PLC0415 - late, as all outputs

    if not output.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {output.absolute().parent}", hint="make it, or name another file")
    with InstalledPredictor(python or sys.executable) as predictor, progress("questions") as advance:
        table = compile_table(predictor, version=model_version, points=points, progress=advance)
    write_file(output, table.to_bytes())
    return table


def read_autoconf_table(path: Path) -> "Table":
    """Read a compiled table and verify its digest."""
    from reconciler.adapters.predictors.table import read_table  # noqa: PLC0415 - late, as all adapters

    return read_table(path)
