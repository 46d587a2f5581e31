"""`reconciler import`."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit
from reconciler.errors import ConfigError, OutsideError
from reconciler.live.importing import Imported, ImportScope, cluster_folders, import_objects, misplaced
from reconciler.live.pages.imported import imported_json, render_imported
from reconciler.plan import opening
from reconciler.plan.live.clusters import open_clusters
from reconciler.plan.opening import Run


@click.command(
    "import",
    epilog="""\b
Examples:
  reconciler import                                   every object that a person wrote, as one YAML stream
  reconciler import -o jobs/imported                  one file per object, in a source folder
  reconciler import -o jobs/gpu-a --cluster gpu-a     one of several clusters: the context of that name
  reconciler import Job ConfigMap --namespace team-a
  reconciler plan --live --adopt all                  then adopt what is equal
""",
)
@click.argument("kinds", metavar="[KIND]...", nargs=-1)
@click.option("--namespace", "namespaces", metavar="NAME", multiple=True, help="Namespace to read. May be repeated.")
@click.option(
    "-o",
    "--to",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for one file per object, and per cluster if there are several. [default: standard output]",
)
@click.option("--overwrite", is_flag=True, help="Replace files that exist with another content.")
@click.option(
    "--output", type=click.Choice(("text", "json")), metavar="FORMAT", help="Format of the summary. [default: text]"
)
@options.repo
@options.cluster
@options.access
@options.server_patience
@options.run_options
def command(
    *,
    kinds: tuple[str, ...],
    namespaces: tuple[str, ...],
    folder: Path | None,
    overwrite: bool,
    repo: str,
    **flags: Any,
) -> int:
    """Write sources from the objects of live clusters, as a person would have written them.

    KIND is a kind or its plural, such as Job, deployments or Job.batch; without any, all kinds are read except
    definitions of kinds. Sources have no status, no defaults, and no fields of the server or of other controllers.
    Objects that another object owns, that are part of every cluster, or that have ended are left out, and so are
    Secrets. The server verifies each source by a dry run. Nothing is written to a cluster.
    """
    if folder is None and (overwrite or flags["output"] == "json"):
        flag = "--overwrite" if overwrite else "--output json"
        raise click.UsageError(f"{flag} needs -o DIR: without it, standard output has the sources")
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    chosen = [one for one in run.workspace.config.clusters if run.settings.cluster in ("", one.name)]
    folders = cluster_folders(chosen, inside := _inside(run, folder))
    if inside:
        _require_places(run, folders)
    with open_clusters(access_flags(flags), options.environment(), run) as clusters:
        scope = ImportScope(kinds=kinds, namespaces=namespaces)
        found = import_objects(run.workspace.compile(), clusters, scope, folders)
    roots = cluster_folders(chosen, str(folder or ""))
    if folder is None:
        _print_sources(found)
    else:
        files = {Path(roots[one.cluster], row.path): row.content for one in found for row in one.objects}
        changed = opening.write_sources(files, overwrite=overwrite)
        emit(f"wrote {changed} of {len(files)} files to {folder}; the others are the same", err=True)
    _report(found, roots, run.settings.output, has_files=folder is not None)
    return 0 if all(one.is_complete for one in found) else OutsideError.exit_code


def _inside(run: Run, folder: Path | None) -> str:
    """Return the path of a folder below the root of the repository; empty if it is elsewhere."""
    if folder is None:
        return ""
    path = os.path.relpath(folder.absolute().resolve(), run.workspace.repository.root.resolve())
    return "" if path.startswith("..") else Path(path).as_posix()


def _require_places(run: Run, folders: dict[str, str]) -> None:
    """Refuse folders that a plan would not read, or that it would read for other clusters."""
    problems = list(misplaced(run.workspace.config, folders))
    if problems:
        raise ConfigError(f"--to: {'; '.join(problems)}", hint="nothing was written")


def _print_sources(found: Sequence[Imported]) -> None:
    for one in found:
        for row in one.objects:
            emit(f"---\n# {one.cluster}/{row.path}\n{row.content.decode()}", form="yaml", nl=False)


def _report(found: Sequence[Imported], roots: dict[str, str], form: str, *, has_files: bool) -> None:
    """Print what was imported and left out: the text to standard error, where it is apart from the sources."""
    if form == "json" and has_files:
        rows = [
            imported_json(
                one.cluster,
                {f"{roots[one.cluster]}/{row.path}": (row.key, row.warning) for row in one.objects},
                one.left_out,
                one.failures,
            )
            for one in found
        ]
        emit(json.dumps(rows, indent=2, ensure_ascii=False), form="json")
        return
    for one in found:
        warnings = {row.key: row.warning for row in one.objects if row.warning}
        lines = render_imported(one.cluster, warnings, one.left_out, one.failures, count=len(one.objects))
        emit("".join(lines), err=True, nl=False)
    if has_files:
        emit("Next: commit the files, then run: reconciler plan --live --adopt all", err=True)
