"""`reconciler observe`."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit
from reconciler.errors import OutsideError, UnsafePlan
from reconciler.kube.values import plural
from reconciler.live.observe.evidence import Observed, observe
from reconciler.nodehealth.stored import last_stored, store_reports
from reconciler.plan import opening
from reconciler.plan.live.clusters import cluster_opener


@click.command(
    "observe",
    epilog="""\b
Examples:
  reconciler observe                        all clusters; of several, each has a context of its name
  reconciler observe --cluster main --context admin@main
  reconciler observe --reports              store health reports, too, for `reconciler health replay`
  reconciler observe --allow-shrink         nodes were taken away on purpose
""",
)
@options.repo
@options.cluster
@options.access
@options.server_patience
@click.option("--reports", "is_stored", is_flag=True, help="Store health reports, too, in evidence/<cluster>/reports/.")
@click.option("--reports-dir", metavar="DIR", help="Store health reports in DIR/<cluster>/ instead.")
@click.option(
    "--keep-reports",
    "days",
    metavar="DAYS",
    type=click.IntRange(1, 3650),
    default=14,
    show_default=True,
    help="Delete stored reports that are older.",
)
@click.option("--allow-shrink", is_flag=True, help="Accept a fleet that shrinks by more than spec.evidence.maxShrink.")
@options.run_options
def command(*, repo: str, allow_shrink: bool, is_stored: bool, reports_dir: str | None, days: int, **flags: Any) -> int:
    """Record nodes, queues in use, finished jobs and definitions of live clusters as evidence.

    Writes nodes.yaml, queues.yaml, runs.yaml, health.yaml and definitions.yaml to evidence/<cluster>/ of the
    working tree, if they changed, and utilisation.yaml where the cluster has a `prometheus`. Commit them like any
    other change. What cannot be read stays as it is.
    """
    environ = options.environment()
    run = opening.open_run(repo, options.setting_flags(flags), environ)
    opener = cluster_opener(access_flags(flags), environ, run.workspace.config, run.settings)
    is_refused = is_failed = False
    now = dt.datetime.now(dt.UTC)
    for seen in observe(run.workspace, opener, now=now, allow_shrink=allow_shrink, with_utilisation=True):
        opening.write_edits(seen.files, run)
        for line in _lines(seen):
            emit(line)
        if is_stored or reports_dir is not None:
            default = run.workspace.repository.root / run.workspace.config.evidence / seen.cluster / "reports"
            emit(f"  {_store(seen, default if reports_dir is None else Path(reports_dir, seen.cluster), now, days)}")
        is_refused |= bool(seen.refused)
        is_failed |= bool(seen.kept) and not seen.refused
    return UnsafePlan.exit_code if is_refused else OutsideError.exit_code if is_failed else 0


def _store(seen: Observed, folder: Path, now: "dt.datetime", days: int) -> str:
    """Store the reports of a cluster in a folder, delete those that are too old, and say so."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    last = last_stored(((name, (folder / name).read_bytes) for name in names), now.timestamp())
    made = store_reports(seen.reports, names, last, now=now.timestamp(), days=days)
    opening.write_edits({str(folder.absolute() / name): raw for name, raw in made.written.items()}, None)
    for name in made.removed:
        (folder / name).unlink(missing_ok=True)
    files = f"{len(made.written)} written, {len(made.removed)} deleted"
    return f"health reports of {plural(len(seen.reports), 'node')} in {folder}: {files}"


def _lines(seen: Observed) -> Iterator[str]:
    """Yield what is new about a cluster, what stays, and what is odd."""
    yield f"{seen.cluster}: {seen.summary}" if seen.summary else f"{seen.cluster}: could not be read"
    yield from (f"  wrote {path}" for path in sorted(seen.files))
    yield from (f"  warning: {path} {why}" for path, why in seen.kept)
    if seen.refused:
        yield "  check the cluster; if nodes were taken away on purpose, run again with --allow-shrink"
    yield from (f"  note: {note}" for note in seen.notes)
    if seen.summary and not seen.files and not seen.kept:
        yield "  no changes"
