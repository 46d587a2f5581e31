"""`reconciler init`."""

from pathlib import Path

import click

from reconciler.cli.console import emit


@click.command(
    "init",
    epilog="""\b
Examples:
  reconciler init fleet                                 a new Git repository
  cd my-repository && reconciler init clusters/gpu      a folder of an existing repository
""",
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def command(*, folder: Path) -> int:
    """Create a config repository in DIR from the template.

    DIR must be empty or absent. If DIR is inside a Git repository, no new repository is created. The result passes
    `lint`, and its plan has no changes.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast

    made = wiring.init(folder)
    emit(f"wrote {made.files} files to {folder}")
    if made.uncommitted:
        emit(f"Nothing was committed: {made.uncommitted}")
    if made.inside:
        emit("Forges and Argo CD read the top folder of a repository: move the pipelines there and add")
        emit(f"--repo {made.inside} to their commands. Prefix paths in argocd/ and flux/ by {made.inside}/.")
    emit("\nNext steps:")
    for line in made.next_commands:
        emit(f"  {line}")
    return 0
