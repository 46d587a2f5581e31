"""`reconciler render`."""

from pathlib import Path
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit


@click.command(
    "render",
    epilog="""\b
Examples:
  reconciler render                                      all manifests as one YAML stream
  reconciler render --to /tmp/rendered                   a folder with one file per object
  reconciler render --cluster main | kubectl diff -f -   compare with a live cluster
""",
)
@options.repo
@options.revision
@options.cluster
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to; must be empty or absent. [default: standard output]",
)
@click.option("--show-secrets", is_flag=True, help="Print the values of Secrets. They are masked by default.")
@options.date
@options.run_options
def command(*, repo: str, to: Path | None, show_secrets: bool, **flags: Any) -> int:
    """Render all manifests to a folder or to standard output.

    On standard output, the values of Secrets are masked. No API server accepts the masks, so they never replace a
    value in a cluster. Files in a folder contain the values.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.render import render, render_masked  # noqa: PLC0415
    from reconciler.core.values import plural  # noqa: PLC0415
    from reconciler.outputs.terminal.printable import printable  # noqa: PLC0415

    run = wiring.open_run(repo, options.setting_flags(flags), options.environment())
    contents, masked = (render(run.workspace), 0) if to or show_secrets else render_masked(run.workspace)
    if to is None:
        for path, content in contents.items():
            emit(f"---\n# {printable(path)}\n{content.decode()}", form="yaml", nl=False)
        if masked:
            emit(f"the values of {plural(masked, 'Secret')} are masked; print them with --show-secrets", err=True)
        return 0
    wiring.write_folder(contents, to)
    emit(f"wrote {len(contents)} manifest{'' if len(contents) == 1 else 's'} to {to}", err=True)
    return 0
