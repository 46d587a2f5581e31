"""`reconciler init`."""

from pathlib import Path

import click

from reconciler.console.printing import emit
from reconciler.submit.init import init


@click.command(
    "init",
    epilog="""\b
Examples:
  reconciler init fleet                                 a new Git repository
  cd my-repository && reconciler init clusters/gpu      a folder of an existing repository
  reconciler init fleet --source git+https://git.example.com/gpu-reconciler.git@v0.1.0
""",
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--source",
    metavar="SOURCE",
    default="",
    help="Where pipelines install gpu-reconciler from: git+URL@REVISION, a wheel, or the URL of a package index. "
    "[default: where this installation came from, else the default index]",
)
def command(*, folder: Path, source: str) -> int:
    """Create a config repository in DIR from the template.

    DIR must be empty or absent. If DIR is inside a Git repository, no new repository is created. The result passes
    `lint`, and its plan has no changes. Its requirements.txt pins the running version, which the pipelines install.
    """
    made = init(folder, source)
    emit(f"wrote {made.files} files to {folder}")
    if made.uncommitted:
        emit(f"Nothing was committed: {made.uncommitted}")
    if made.inside:
        emit("Forges and Argo CD read the top folder of a repository: move the pipelines there and add")
        emit(f"--repo {made.inside} to their commands. Prefix requirements.txt in the pipelines, and the paths in")
        emit(f"argocd/ and flux/, by {made.inside}/.")
    if made.unpublished:
        emit(f"requirements.txt pins {made.unpublished}, but this version was installed from a folder. If your package")
        emit("index does not have it, name a Git URL or a wheel there; `init --source` writes one.")
    emit("\nNext steps:")
    for line in made.next_commands:
        emit(f"  {line}")
    return 0
