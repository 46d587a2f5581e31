"""`reconciler report`: efficiency, cost and queues."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit_report
from reconciler.console.terminal import terminal
from reconciler.errors import OutsideError
from reconciler.index.build import CompiledRevision
from reconciler.live.observe.prometheus import PrometheusClient, read_waits
from reconciler.plan import opening
from reconciler.repo.config import Cluster
from reconciler.reports.making import KnownUse, report_use
from reconciler.reports.measured import ReportWindow, read_use
from reconciler.reports.pages import FORMATS, Report, render
from reconciler.reports.recorded import directory_of, usage_note
from reconciler.reports.use import BY
from reconciler.reports.waiting import QueueUse, queue_rows

_SPAN = re.compile(r"(\d{1,5})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MOST_SECONDS = 400 * 86_400
_POINTS = 2016  # of each series: every five minutes of a week


class _WindowType(click.ParamType[int]):
    """A length of time such as `30m`, `12h`, `7d` or `4w`, in seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        matched = _SPAN.fullmatch(str(value))
        seconds = int(matched[1]) * _SECONDS[matched[2]] if matched else 0
        if not 0 < seconds <= _MOST_SECONDS:
            self.fail(f"{value!r} is not a length of time such as 12h or 7d, of at most 400 days", param, ctx)
        return seconds


def _by(default: str) -> Callable[..., Any]:
    return click.option("--by", type=click.Choice(BY), default=default, show_default=True, help="What a row is.")


_common = options.stack(
    click.option(
        "--window", type=_WindowType(), default="7d", show_default=True, metavar="SPAN", help="Time to look back."
    ),
    click.option("--evidence", is_flag=True, help="Figures of the repository; asks no Prometheus."),
    options.repo,
    options.cluster,
    options.output(FORMATS),
    options.width,
    options.run_options,
)


@click.group(
    "report",
    no_args_is_help=True,
    epilog="""\b
Examples:
  reconciler report efficiency              teams in the last week, and the jobs that are most idle
  reconciler report cost --by queue
  reconciler report queues                  who holds GPUs, who waits and for how long
""",
)
def command() -> None:
    """Report what GPUs did, what they cost, and who waits for them.

    Figures come from the Prometheus of each cluster (spec.clusters[].prometheus), else from its evidence.
    """


@command.command(
    "efficiency",
    epilog="""\b
Examples:
  reconciler report efficiency                          teams in the last week, and the jobs that are most idle
  reconciler report efficiency --by job --window 24h
  reconciler report efficiency --by queue -o csv > queues.csv
  reconciler report efficiency --evidence               from utilisation.yaml
""",
)
@_by("team")
@_common
def efficiency(*, by: str, window: int, evidence: bool, repo: str, **flags: Any) -> int:
    """Show GPU hours held, busy and idle, energy, wasted money and trends, and the edits that free idle GPUs."""
    return _use_report("efficiency", by, window, repo, flags, evidence=evidence)


@command.command(
    "cost",
    epilog="""\b
Examples:
  reconciler report cost                    teams in the last week
  reconciler report cost --by queue -o markdown
""",
)
@_by("team")
@_common
def cost(*, by: str, window: int, evidence: bool, repo: str, **flags: Any) -> int:
    """Show what GPUs cost, and what of it was idle. A product without a price is unknown."""
    return _use_report("cost", by, window, repo, flags, evidence=evidence)


@command.command(
    "queues",
    epilog="""\b
Examples:
  reconciler report queues                  GPUs held and wanted, and how long workloads wait
  reconciler report queues --by team -o json
""",
)
@_by("queue")
@_common
def queues(*, by: str, window: int, evidence: bool, repo: str, **flags: Any) -> int:
    """Show who holds GPUs and who waits, from usage.yaml, and how long workloads waited before."""
    form = flags.pop("output")
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    index, now = run.workspace.compile(), dt.datetime.now(dt.UTC)
    index.reject_broken_evidence()
    rows: list[QueueUse] = []
    notes, failures = [], []
    for cluster in index.clusters:
        usage = index.context.evidence.usage.get(cluster.name)
        waits = usage.waits if usage is not None else ()
        if cluster.prometheus is not None and not evidence:
            try:
                waits = read_waits(PrometheusClient(cluster.prometheus.url), now, _words(window))
            except OutsideError as error:
                failures.append(f"{cluster.name}: waiting times: {error}")
        notes.append(f"{cluster.name}: {usage_note(usage, now)}")
        rows += queue_rows(cluster.name, usage, waits, by)
    report = Report(
        kind="queues", by=by, window=_words(window), rows=tuple(rows), notes=(*notes,), failures=(*failures,)
    )
    return _print(report, form, run)


def _use_report(kind: str, by: str, window: int, repo: str, flags: dict[str, Any], *, evidence: bool) -> int:
    form = flags.pop("output")
    run = opening.open_run(repo, options.setting_flags(flags), options.environment())
    index = run.workspace.compile()
    index.reject_broken_evidence()
    use = KnownUse()
    for cluster in index.clusters:
        _add(use, index, cluster, window, evidence=evidence)
    return _print(report_use(index, use, kind, by, _words(window)), form, run)


def _add(use: KnownUse, index: CompiledRevision, cluster: Cluster, window: int, *, evidence: bool) -> None:
    """Add what is known of a cluster. A Prometheus that fails is a failure, and nothing stands in for it."""
    if cluster.prometheus is None or evidence:
        use.add_recorded(index, cluster.name)
        return
    step = max(cluster.prometheus.interval_seconds, -(-window // _POINTS))
    span = ReportWindow(end=dt.datetime.now(dt.UTC).replace(microsecond=0), seconds=window // step * step, step=step)
    try:
        found = read_use(PrometheusClient(cluster.prometheus.url), span, directory_of(index, cluster.name))
    except OutsideError as error:
        use.failures.append(f"{cluster.name}: {error}")
        return
    note = f"from Prometheus, a sample each {step} s"
    use.add(cluster.name, found, note, hours=window / 3600, window=_words(window))


def _print(report: Report, form: str | None, run: opening.Run) -> int:
    chosen = form or (run.settings.output if run.settings.output in FORMATS else "text")
    shape = terminal(run.settings) if chosen == "text" else {}
    emit_report(render(report, chosen, **shape), run.settings)
    return OutsideError.exit_code if report.failures else 0


def _words(seconds: int) -> str:
    """Return a length of time as Prometheus reads it: `7d`."""
    unit = next(unit for unit in ("d", "h", "m") if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"
