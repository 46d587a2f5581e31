"""`reconciler init`."""

from pathlib import Path

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.kube.values import plural
from reconciler.submit.init import init, init_existing


@click.command(
    "init",
    epilog="""\b
Examples:
  reconciler init fleet                                 a new Git repository
  cd my-repository && reconciler init clusters/gpu      a folder of an existing repository
  reconciler init --existing                            one reconciler.yaml for the repository as it is
  reconciler init fleet --source git+https://git.example.com/gpu-reconciler.git@v0.1.0
""",
)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--existing",
    is_flag=True,
    help="Read the repository around DIR (default: the current folder), and write only reconciler.yaml, for what it "
    "has: Flux and Argo CD objects, Kustomize overlays, Helm charts, manifests.",
)
@click.option(
    "--source",
    metavar="SOURCE",
    default="",
    help="Where pipelines install gpu-reconciler from: git+URL@REVISION, a wheel, or the URL of a package index. "
    "[default: where this installation came from, else the default index]",
)
def command(*, folder: Path | None, existing: bool, source: str) -> int:
    """Create a config repository in DIR from the template.

    DIR must be empty or absent. If DIR is inside a Git repository, no new repository is created. The result passes
    `lint`, and its plan has no changes. Its requirements.txt pins the running version, which the pipelines install.
    """
    if existing:
        return _existing(folder or Path())
    if folder is None:
        raise click.UsageError("Missing argument 'DIR': name a new folder, or use --existing in a repository.")
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


def _existing(folder: Path) -> int:
    found, root, is_new = init_existing(str(folder), options.environment())
    for entry in found.entries:
        build = f" (build: {entry.tool})" if entry.tool else ""
        clusters = f" on {', '.join(entry.clusters)}" if entry.clusters else ""
        emit(f"found     {entry.path}{build}{clusters}: {entry.reason}")
    for name, reason in found.left_out:
        emit(f"left out  {name}: {reason}")
    clusters = ", ".join(f"{name} (backend {backend})" for name, backend in found.clusters.items())
    emit(f"\n{plural(len(found.entries), 'source')}, {plural(len(found.clusters), 'cluster')}: {clusters}")
    emit(f"{'wrote' if is_new else 'unchanged:'} {root / 'reconciler.yaml'}")
    emit("\nNext step, in a branch or before a commit:")
    emit("  reconciler plan")
    return 0
