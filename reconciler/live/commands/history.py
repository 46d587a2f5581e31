"""`reconciler history`."""

import json
from typing import Any

import click
import msgspec

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit, emit_report
from reconciler.live.apply.stored import read_records
from reconciler.live.opening import places_of
from reconciler.live.pages.applied import render_history
from reconciler.plan import opening
from reconciler.plan.live.clusters import open_clusters


@click.command(
    "history",
    epilog="""\b
Examples:
  reconciler history
  reconciler history --cluster gpu-a -o json
""",
)
@options.repo
@options.cluster
@options.access
@options.server_patience
@options.inventory_namespace
@options.output(("text", "json"))
@options.run_options
def command(*, repo: str, **flags: Any) -> int:
    """List the last 20 plans that were applied to each cluster, the newest first: when, who, which commit, the result.

    The records are kept on the cluster. A run without an end was killed: apply the same plan again.
    """
    environ = options.environment()
    run = opening.open_run(repo, options.setting_flags(flags), environ)
    with open_clusters(access_flags(flags), environ, run) as clusters:
        places = places_of(run, clusters)
        found = {name: read_records(live, places[name]) for name, live in clusters.items()}
    records = sorted((record for records in found.values() for record in records), key=lambda record: record.started)
    if run.settings.output == "json":
        plain = [{"result": record.result, **msgspec.to_builtins(record)} for record in reversed(records)]
        emit(json.dumps(plain, indent=2, ensure_ascii=False), form="json")
        return 0
    emit_report(render_history(records), run.settings)
    if not records:
        emit("no plan has been applied yet", err=True)
    return 0
