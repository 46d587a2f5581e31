"""`reconciler render`."""

from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printable import printable
from reconciler.console.printing import emit
from reconciler.kube.values import plural
from reconciler.plan import opening
from reconciler.plan.use_cases import render, render_masked


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
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    contents, masked = (render(run.workspace), 0) if to or show_secrets else render_masked(run.workspace)
    if to is None:
        for path, content in contents.items():
            emit(f"---\n# {printable(path)}\n{content.decode()}", form="yaml", nl=False)
        if masked:
            emit(f"the values of {plural(masked, 'Secret')} are masked; print them with --show-secrets", err=True)
        return 0
    opening.write_folder(contents, to)
    emit(f"wrote {len(contents)} manifest{'' if len(contents) == 1 else 's'} to {to}", err=True)
    return 0
