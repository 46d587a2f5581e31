"""`reconciler history`."""

import json
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit, emit_report


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
    import msgspec  # noqa: PLC0415 - imported late so that --help stays fast

    from reconciler import wiring  # noqa: PLC0415
    from reconciler.app.apply.stored import read_records  # noqa: PLC0415
    from reconciler.outputs.live.applied import render_history  # noqa: PLC0415
    from reconciler.wiring.apply import places_of  # noqa: PLC0415
    from reconciler.wiring.cluster import access_flags, open_clusters  # noqa: PLC0415

    environ = options.environment()
    run = wiring.open_run(repo, options.setting_flags(flags), environ)
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
