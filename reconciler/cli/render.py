"""`reconciler render`."""

from pathlib import Path
from typing import Any

import click

from reconciler.cli import options


@click.command(
    "render",
    epilog="""\b
Examples:
  reconciler render                        every manifest as one YAML stream
  reconciler render --to /tmp/rendered     a folder, one object a file
  reconciler render --cluster main | kubectl diff -f -
""",
)
@options.repo
@options.revision
@options.cluster
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write below this folder, which must be empty or absent. [default: standard output]",
)
@options.date
@options.run_options
def command(*, repo: str, to: Path | None, **flags: Any) -> int:
    """Write the rendered manifests to a folder or standard output, without Git."""
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    session = wiring.open_session(repo, options.setting_flags(flags), options.environment())
    contents = session.render()
    if to is None:
        for path, content in contents.items():
            click.echo(f"---\n# {path}\n".encode() + content, nl=False)
        return 0
    wiring.write_folder(contents, to)
    click.echo(f"{len(contents)} manifests written below {to}", err=True)
    return 0
