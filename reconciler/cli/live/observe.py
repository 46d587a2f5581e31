"""`reconciler observe`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit
from reconciler.errors import OutsideError, UnsafePlan

if TYPE_CHECKING:
    from reconciler.app.observe.evidence import Observed


@click.command(
    "observe",
    epilog="""\b
Examples:
  reconciler observe                        all clusters; of several, each has a context of its name
  reconciler observe --cluster main --context admin@main
  reconciler observe --allow-shrink         nodes were taken away on purpose
""",
)
@options.repo
@options.cluster
@options.access
@options.server_patience
@click.option("--allow-shrink", is_flag=True, help="Accept a fleet that shrinks by more than spec.evidence.maxShrink.")
@options.run_options
def command(*, repo: str, allow_shrink: bool, **flags: Any) -> int:
    """Record nodes, queues in use and finished jobs of live clusters as evidence.

    Writes nodes.yaml, queues.yaml, runs.yaml and health.yaml to evidence/<cluster>/ of the working tree, if they
    changed. Commit them like any other change. What cannot be read stays as it is.
    """
    import datetime as dt  # noqa: PLC0415 - imported late so that --help stays fast

    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.observe.evidence import observe  # noqa: PLC0415
    from reconciler.wiring.cluster import access_flags, cluster_opener  # noqa: PLC0415

    environ = options.environment()
    run = wiring.open_run(repo, options.setting_flags(flags), environ)
    opener = cluster_opener(access_flags(flags), environ, run.workspace.config, run.settings)
    is_refused = is_failed = False
    for seen in observe(run.workspace, opener, now=dt.datetime.now(dt.UTC), allow_shrink=allow_shrink):
        wiring.write_edits(seen.files, run)
        for line in _lines(seen):
            emit(line)
        is_refused |= bool(seen.refused)
        is_failed |= bool(seen.kept) and not seen.refused
    return UnsafePlan.exit_code if is_refused else OutsideError.exit_code if is_failed else 0


def _lines(seen: "Observed") -> Iterator[str]:
    """Yield what is new about a cluster, what stays, and what is odd."""
    yield f"{seen.cluster}: {seen.summary}" if seen.summary else f"{seen.cluster}: could not be read"
    yield from (f"  wrote {path}" for path in sorted(seen.files))
    yield from (f"  warning: {path} {why}" for path, why in seen.kept)
    if seen.refused:
        yield "  check the cluster; if nodes were taken away on purpose, run again with --allow-shrink"
    yield from (f"  note: {note}" for note in seen.notes)
    if seen.summary and not seen.files and not seen.kept:
        yield "  no changes"
