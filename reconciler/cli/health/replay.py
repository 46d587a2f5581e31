"""`reconciler health replay`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.console import emit
from reconciler.core.values import plural
from reconciler.errors import ConfigError, PolicyDenied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.core.health.fleet.replay import Replay, ReplayComparison

_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")


@click.command(
    "replay",
    epilog="""\b
Examples:
  reconciler observe --reports                 on several days, for evidence/main/reports
  reconciler health replay queues/health.yaml --reports evidence/main/reports
  reconciler health replay new.yaml --reports reports --current queues/health.yaml --allow gpu-17
""",
)
@click.argument("policy", metavar="POLICY")
@click.option("--reports", metavar="DIR", required=True, help="Folder with stored NodeHealthReports, JSON or YAML.")
@click.option("--current", metavar="POLICY", help="The current policy, to compare with.")
@click.option(
    "--allow", "allowed", metavar="NODE", multiple=True, help="A node that may be taken out of use. May be repeated."
)
def replay(policy: str, reports: str, current: str | None, allowed: tuple[str, ...]) -> int:
    """Show what a HealthPolicy would have done with stored reports, and whether it may be merged.

    Exits with 4 if it takes more than 1 % of the nodes out of use in a week, trips the breaker, or takes nodes out
    of use that the current policy leaves alone and --allow does not name.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.health.replay import read_policies, read_reports, run_replay  # noqa: PLC0415
    from reconciler.core.health.fleet.replay import compare_replays, gate  # noqa: PLC0415

    stored = read_reports({str(path): path.read_bytes() for path in report_paths(Path(reports))})
    catalogue = wiring.catalogue()
    made = run_replay(read_policies(_one(policy), catalogue), stored)
    comparison = None
    if current is not None:
        comparison = compare_replays(run_replay(read_policies(_one(current), catalogue), stored), made)
    refused = gate(made, comparison, allowed)
    for line in (*_lines(made), *_changes(comparison), *(f"must not be merged: {reason}" for reason in refused)):
        emit(line)
    return PolicyDenied.exit_code if refused else 0


def report_paths(folder: Path) -> "Iterator[Path]":
    """Yield the files of a folder that may hold reports, at any depth. Raises `ConfigError` if it is none."""
    if not folder.is_dir():
        raise ConfigError(f"--reports: {folder} is not a folder")
    return (path for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES and path.is_file())


def _one(path: str) -> dict[str, bytes]:
    try:
        return {path: Path(path).read_bytes()}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None


def _lines(made: "Replay") -> "Iterator[str]":
    yield f"{plural(made.reports, 'report')} of {plural(made.nodes, 'node')}: {made.a_week:.1f} quarantines a week"
    for event in made.events:
        what = f"refused: {event.refused}" if event.refused else f"{event.lane} lane"
        yield f"  {event.node}: {event.check}, {what}"
    yield from (f"  breaker: {trip}" for trip in made.trips)


def _changes(comparison: "ReplayComparison | None") -> "Iterator[str]":
    if comparison is None:
        return
    yield f"the verdict changes for {plural(len(comparison.changed), 'node')}"
    yield from (f"  {name}: {before} → {after}" for name, (before, after) in comparison.changed.items())
