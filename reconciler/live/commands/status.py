"""`reconciler status`."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit_report
from reconciler.console.terminal import terminal
from reconciler.errors import OutsideError
from reconciler.live.observe.capacity import VIEWS, live, recorded
from reconciler.live.observe.status import ClusterStatus, choose, statuses, watch_statuses
from reconciler.live.pages.capacity import capacity_json, render_capacity
from reconciler.live.pages.status import render_status, status_json, to_json
from reconciler.plan import opening
from reconciler.plan.live.clusters import access_flags, cluster_opener
from reconciler.settings import Settings


@click.command(
    "status",
    epilog="""\b
Examples:
  reconciler status                     all jobs of all clusters
  reconciler status team-a/train        one job, and why it waits
  reconciler status --watch
  reconciler status -o json
  reconciler status queues              GPUs of queues: quota, admitted, pending
  reconciler status amd --evidence      nodes with AMD GPUs, as the evidence has them
""",
)
@click.argument("job", required=False, default="", metavar="[JOB|queues|amd|nvidia]")
@click.option("--evidence", is_flag=True, help="Queues and nodes as the repository has them; asks no cluster.")
@options.repo
@options.cluster
@options.access
@options.server_patience
@options.output(("text", "json"))
@options.watch
@options.width
@options.run_options
def command(*, job: str, evidence: bool, repo: str, watch: bool, interval: float, **flags: Any) -> int:
    """Show phase, workers, restarts and times of jobs, and why a job waits.

    JOB is NAME, NAMESPACE/NAME or KIND/NAMESPACE/NAME. Shows the jobs that the repository renders, those of the
    cluster that it rendered before, and finished jobs that are gone.

    queues shows the GPUs of each queue; amd and nvidia show the nodes with GPUs of this vendor, and what is used.
    """
    environ = options.environment()
    if job in VIEWS:
        if watch:
            raise click.UsageError("--watch is for jobs")
        return _capacity(job, repo, flags, evidence=evidence)
    if evidence:
        raise click.UsageError(f"--evidence is for {', '.join(VIEWS)}")
    run = opening.open_run(repo, options.setting_flags(flags), environ)
    opener = cluster_opener(access_flags(flags), environ, run.workspace.config, run.settings)
    show = _printer(run.settings)
    if not watch:
        found = choose(list(statuses(run.workspace, opener)), job)
        show(found)
        return OutsideError.exit_code if any(one.failures for one in found) else 0

    for found in watch_statuses(run.workspace, opener, lambda: time.sleep(interval)):
        show(choose(found, job))
    return 0


def _capacity(view: str, repo: str, flags: dict[str, Any], *, evidence: bool) -> int:
    """Show queues or nodes."""
    environ = options.environment()
    run = opening.open_run(repo, options.setting_flags(flags), environ)
    if evidence:
        found = recorded(run.workspace, view)
    else:
        opener = cluster_opener(access_flags(flags), environ, run.workspace.config, run.settings)
        found = list(live(run.workspace, opener, view))
    if run.settings.output == "json":
        text = capacity_json(found)
    else:
        text = "\n".join(render_capacity(one, **terminal(run.settings)) for one in found)
    emit_report(text, run.settings)
    return OutsideError.exit_code if any(one.failures for one in found) else 0


def _printer(settings: Settings) -> Callable[[Sequence[ClusterStatus]], None]:
    def show(found: Sequence[ClusterStatus]) -> None:
        if settings.output == "json":
            text = to_json([status_json(one.cluster, one.jobs, one.failures) for one in found])
        else:
            pages = [render_status(one.cluster, one.jobs, one.failures, **terminal(settings)) for one in found]
            text = "\n".join(pages)
        emit_report(text, settings)

    return show
