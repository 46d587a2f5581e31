"""`reconciler release`."""

import json
from typing import Any

import click
import msgspec

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit, emit_report
from reconciler.live.apply.release import find_releases, release
from reconciler.live.opening import apply_runs
from reconciler.live.pages.applied import render_releases
from reconciler.plan import opening
from reconciler.plan.live.clusters import open_clusters

_FORMATS = ("text", "json")


@click.command(
    "release",
    epilog="""\b
Examples:
  reconciler release Deployment/team-a/app             show what is released, and what to remove from Git
  reconciler release --write Deployment/team-a/app     release it
  reconciler release --write --cluster gpu-a ClusterQueue/team-a Namespace/team-a
""",
)
@click.argument("names", metavar="KIND/NAMESPACE/NAME...", nargs=-1, required=True)
@options.repo
@options.cluster
@click.option("--write", is_flag=True, help="Release the objects; without it, nothing is written.")
@options.access
@options.server_patience
@options.inventory_namespace
@options.decision_log
@options.output(_FORMATS)
@options.run_options
def command(*, names: tuple[str, ...], repo: str, write: bool, **flags: Any) -> int:
    """Hand live objects over to somebody else: they stay as they are, and no plan changes or deletes them any more.

    Each object leaves the inventory, and loses the label and the field manager of gpu-reconciler. Then remove it from
    Git: until then, plans leave it alone and warn. An object without a namespace is KIND/NAME. To take an object back:
    `reconciler plan --live --adopt`.
    """
    environ = options.environment()
    run = opening.open_run(repo, options.setting_flags(flags), environ)
    index = run.workspace.compile()
    with open_clusters(access_flags(flags), environ, run) as clusters:
        runs = apply_runs(run, clusters, environ)
        found = find_releases(runs, index, names)
        for name in sorted({one.cluster for one in found}) if write else ():
            mine = [one for one in found if one.cluster == name]
            release(runs[name], mine, commit=run.workspace.tree.commit_id)
    if run.settings.output == "json":
        plain = [{**msgspec.to_builtins(one), "released": write} for one in found]
        emit(json.dumps(plain, indent=2, ensure_ascii=False), form="json")
    else:
        emit_report(render_releases(found, is_done=write), run.settings)
    if not write:
        emit("nothing was written; to release: add --write", err=True)
    return 0
