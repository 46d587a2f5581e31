"""`reconciler init`."""

from pathlib import Path

import click


@click.command(
    "init",
    epilog="""\b
Examples:
  reconciler init fleet
  cd my-repository && reconciler init clusters/gpu    works inside an existing Git repository
""",
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def command(*, folder: Path) -> int:
    """Make a new config repository in DIR from the template: it lints clean and plans to "no changes".

    DIR must be empty or absent. Inside an existing Git repository no second one is made.
    """
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast

    made = wiring.init(folder)
    click.echo(f"{made.files} files written to {folder}")
    if made.uncommitted:
        click.echo(f"Nothing is committed yet: {made.uncommitted}")
    if made.inside:
        click.echo(
            f"Forges and Argo CD look at the top of a repository: move the pipelines there (with --repo {made.inside}),"
        )
        click.echo(f"and put {made.inside}/ before the paths in argocd/ and flux/.")
    click.echo("\nNext:")
    for line in made.next_commands:
        click.echo(f"  {line}")
    return 0
