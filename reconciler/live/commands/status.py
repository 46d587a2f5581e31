"""`reconciler status`."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from reconciler.clock import SystemClock
from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit_report
from reconciler.console.terminal import terminal
from reconciler.errors import OutsideError
from reconciler.index.build import CompiledRevision
from reconciler.live.observe.capacity import NODES, VIEWS, by_load, live, recorded, recorded_summaries, summary_of
from reconciler.live.observe.status import ClusterStatus, choose, recorded_statuses, statuses, watch_statuses
from reconciler.live.pages.capacity import ClusterCapacity, capacity_json, render_capacity
from reconciler.live.pages.status import render_status, status_json, summary_json, summary_page, to_json
from reconciler.plan import opening
from reconciler.plan.live.clusters import cluster_opener
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
  reconciler status nodes --sort util   nodes with GPUs, the busiest first
  reconciler status amd --evidence      nodes with AMD GPUs, as the evidence has them
  reconciler status --summary -o json   nodes, GPUs and workloads of all clusters in numbers
""",
)
@click.argument("job", required=False, default="", metavar="[JOB|queues|nodes|amd|nvidia]")
@click.option("--evidence", is_flag=True, help="Show what the repository has recorded; ask no cluster.")
@click.option("--summary", is_flag=True, help="Show sums: nodes, GPUs, utilisation and workloads.")
@click.option("--sort", type=click.Choice(("name", "util")), default="name", help="Order of nodes. [default: name]")
@click.option("--nodes", "with_nodes", is_flag=True, help="With --watch: show the nodes with GPUs below the jobs.")
@options.repo
@options.cluster
@options.access
@options.server_patience
@options.output(("text", "json"))
@options.watch
@options.width
@options.run_options
def command(*, job: str, repo: str, watch: bool, interval: float, **flags: Any) -> int:
    """Show phase, workers, restarts and times of jobs, and why a job waits.

    JOB is NAME, NAMESPACE/NAME or KIND/NAMESPACE/NAME. Shows the jobs that the repository renders, those of the
    cluster that it rendered before, and finished jobs that are gone.

    queues shows the GPUs of each queue; nodes, amd and nvidia show the nodes with GPUs, all or those of this vendor,
    and what is used.
    """
    _check(job, flags, watch=watch)
    view = _Shown(repo, flags)
    if flags["summary"]:
        return view.summary()
    if job in VIEWS:
        return view.capacity(job, sort=flags["sort"])
    show = _printer(view.run.settings)
    if flags["evidence"]:
        show(choose(list(recorded_statuses(view.run.workspace)), job))
        return 0
    if not watch:
        found = choose(list(statuses(view.run.workspace, view.opener)), job)
        show(found)
        return OutsideError.exit_code if any(one.failures for one in found) else 0

    for found in watch_statuses(view.run.workspace, view.opener, lambda: time.sleep(interval)):
        show(choose(found, job))
        if flags["with_nodes"]:
            view.capacity(NODES)
    return 0


def _check(job: str, flags: dict[str, Any], *, watch: bool) -> None:
    if watch and (job in VIEWS or flags["summary"] or flags["evidence"]):
        raise click.UsageError("--watch is for jobs")
    if flags["summary"] and job:
        raise click.UsageError("--summary is about whole clusters")
    if flags["sort"] != "name" and job not in VIEWS[1:]:
        raise click.UsageError(f"--sort is for {', '.join(VIEWS[1:])}")
    if flags["with_nodes"] and not watch:
        raise click.UsageError("--nodes is for --watch; or: reconciler status nodes")


class _Shown:
    """The view of a command: of the clusters, or of what is recorded."""

    def __init__(self, repo: str, flags: dict[str, Any]) -> None:
        environ = options.environment()
        self.run = opening.open_run(repo, options.setting_flags(flags), environ)
        self.opener = cluster_opener(access_flags(flags), environ, self.run.workspace.config, self.run.settings)
        self._is_recorded = bool(flags["evidence"])

    def capacity(self, view: str, *, sort: str = "name") -> int:
        """Show queues or nodes."""
        found = self._capacity(view)
        if sort == "util":
            found = [by_load(one) for one in found]
        if self.run.settings.output == "json":
            text = capacity_json(found)
        else:
            text = "\n".join(render_capacity(one, **terminal(self.run.settings)) for one in found)
        emit_report(text, self.run.settings)
        return OutsideError.exit_code if any(one.failures for one in found) else 0

    def summary(self) -> int:
        """Show the sums of each cluster."""
        workspace, failures = self.run.workspace, False
        if self._is_recorded:
            rows = recorded_summaries(self._index())
        else:
            nodes = self._capacity(NODES)
            moment = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
            jobs = list(statuses(workspace, self.opener))
            failures = any(one.failures for one in nodes) or any(one.failures for one in jobs)
            rows = [
                (
                    one.cluster,
                    "; ".join(dict.fromkeys((*one.failures, *job.failures))) or one.source,
                    summary_of(one, job, moment),
                )
                for one, job in zip(nodes, jobs, strict=True)
            ]
        if self.run.settings.output == "json":
            text = summary_json(rows)
        else:
            text = summary_page(rows, **terminal(self.run.settings))
        emit_report(text, self.run.settings)
        return OutsideError.exit_code if failures else 0

    def _capacity(self, view: str) -> list[ClusterCapacity]:
        if self._is_recorded:
            return recorded(self._index(), view)
        return list(live(self.run.workspace, self.opener, view))

    def _index(self) -> CompiledRevision:
        index = self.run.workspace.compile()
        index.reject_broken_evidence()
        return index


def _printer(settings: Settings) -> Callable[[Sequence[ClusterStatus]], None]:
    def show(found: Sequence[ClusterStatus]) -> None:
        if settings.output == "json":
            text = to_json([status_json(one.cluster, one.jobs, one.failures) for one in found])
        else:
            pages = [render_status(one.cluster, one.jobs, one.failures, **terminal(settings)) for one in found]
            text = "\n".join(pages)
        emit_report(text, settings)

    return show
