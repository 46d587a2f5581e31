"""`reconciler health learn`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit
from reconciler.errors import ConfigError, OutsideError

if TYPE_CHECKING:
    from reconciler.app.health.learning import FleetRecords
    from reconciler.app.health.seen import SeenFleet
    from reconciler.wiring import Run


@click.command(
    "learn",
    epilog="""\b
Examples:
  reconciler health learn                           what the reports of the cluster suggest, as a diff
  reconciler health learn --write                   edit the file; then `reconciler plan` shows what it does
  reconciler health learn --reports evidence/main/reports --policy h100
""",
)
@click.option("--policy", metavar="NAME", default="", help="The HealthPolicy. [default: the only one for all nodes]")
@click.option("--reports", metavar="DIR", help="Learn from stored reports, and query no cluster.")
@click.option("--write", is_flag=True, help="Write the edit to the working tree.")
@click.pass_obj
def learn(group: dict[str, Any], policy: str, reports: str | None, *, write: bool) -> int:
    """Propose limits of a HealthPolicy that fit what healthy GPUs measure, as an edit of its file.

    Needs 200 runs on 5 nodes of each GPU product, moves a limit by two points a week at most, and never below what the
    vendor or the specification asks for. Shows what the edit would have changed for the reports.
    """
    import time  # noqa: PLC0415 - --help stays fast

    from reconciler import wiring  # noqa: PLC0415
    from reconciler.app.health.learning import learn_policy  # noqa: PLC0415
    from reconciler.outputs.live.drift import render_diff  # noqa: PLC0415
    from reconciler.wiring.node import peak_table  # noqa: PLC0415

    run = wiring.open_run(group["repo"], options.setting_flags(group), options.environment())
    fleet = _fleet(run, group, is_stored=reports is not None or group["offline"])
    records = _records(run, fleet, reports, is_stored=reports is not None or group["offline"])
    made = learn_policy(fleet.sources, records, peak_table(), name=policy, now=time.time())
    for lesson in made.lessons:
        emit(lesson.message, err=True)
    if not made.lessons:
        emit("no report holds a measurement: limits are learned from preflight and deep runs", err=True)
    for reason in made.refused:
        emit(f"the rule health.replay would refuse it: {reason}", err=True)
    if made.after == made.before:
        return 0
    if write:
        wiring.write_edits({made.path: made.after}, run)
        emit(f"wrote {made.path}")
    else:
        emit("".join(render_diff(made.path, made.before, made.after)), nl=False)
    return 0


def _fleet(run: "Run", group: dict[str, Any], *, is_stored: bool) -> "SeenFleet":
    import time  # noqa: PLC0415 - --help stays fast

    from reconciler.adapters.clock import SystemClock  # noqa: PLC0415
    from reconciler.app.health.seen import live_fleets, recorded_fleets  # noqa: PLC0415
    from reconciler.wiring.cluster import access_flags, cluster_opener  # noqa: PLC0415

    if is_stored:
        fleets = [*recorded_fleets(run.workspace, now=time.time())]
    else:
        opener = cluster_opener(access_flags(group), options.environment(), run.workspace.config, run.settings)
        namespace = run.settings.inventory_namespace
        fleets = [*live_fleets(run.workspace, opener, clock=SystemClock(), namespace=namespace)]
    if len(fleets) != 1:
        names = ", ".join(one.cluster for one in fleets)
        raise ConfigError("limits are learned from one cluster at a time", hint=f"choose with --cluster: {names}")
    if fleets[0].failure and not is_stored:
        raise OutsideError(f"{fleets[0].cluster}: {fleets[0].failure}")
    return fleets[0]


def _records(run: "Run", fleet: "SeenFleet", folder: str | None, *, is_stored: bool) -> "FleetRecords":
    """Return the reports to learn from, and the nodes: those of the cluster, or as records describe them."""
    from reconciler.app.health.learning import FleetRecords  # noqa: PLC0415 - --help stays fast

    if not is_stored:
        return FleetRecords(reports=[*fleet.reports.values()], facts=fleet.facts)
    from reconciler.app.health.replay import described_nodes, read_reports  # noqa: PLC0415
    from reconciler.cli.health.replay import report_paths  # noqa: PLC0415

    root = run.workspace.runtime.repository.root
    path = Path(folder) if folder is not None else root / run.workspace.config.evidence / fleet.cluster / "reports"
    found = read_reports({str(one): one.read_bytes() for one in report_paths(path)})
    return FleetRecords(reports=found, facts={**described_nodes(found), **fleet.facts})
