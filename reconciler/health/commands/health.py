"""`reconciler health` and its commands: show, explain, release, set-healthy, learn, replay and replay-jobs."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from reconciler.clock import SystemClock
from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit, emit_report
from reconciler.console.terminal import terminal
from reconciler.errors import ConfigError, OutsideError, PolicyDenied
from reconciler.health import quarantine_files
from reconciler.health.fleets import FleetView, find_node, health_sources, live_fleets, recorded_fleets
from reconciler.health.jobs.running import read_series
from reconciler.health.learning import FleetRecords, learn_policy
from reconciler.health.node import peak_table
from reconciler.health.pages.explained import NodeExplanation, explanation_json, render_explanation
from reconciler.health.pages.fleet import health_json, render_health, to_json
from reconciler.health.replay import described_nodes, read_policies, run_replay
from reconciler.kube.values import plural
from reconciler.nodehealth.fleet.replay import Replay, ReplayComparison, compare_replays, gate
from reconciler.nodehealth.inflight.detect import JobLimits, JobSeries
from reconciler.nodehealth.inflight.watch import replay_series
from reconciler.nodehealth.stored import read_reports
from reconciler.plan import opening
from reconciler.plan.live.clusters import cluster_opener
from reconciler.plan.opening import Run
from reconciler.plan.outputs.drift import render_diff
from reconciler.settings import Settings

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
    stored = read_reports({str(path): path.read_bytes() for path in report_paths(Path(reports))})
    catalogue = opening.catalogue()
    made = run_replay(read_policies(_one(policy), catalogue), stored)
    comparison = None
    if current is not None:
        comparison = compare_replays(run_replay(read_policies(_one(current), catalogue), stored), made)
    refused = gate(made, comparison, allowed)
    for line in (*_lines(made), *_changes(comparison), *(f"must not be merged: {reason}" for reason in refused)):
        emit(line)
    return PolicyDenied.exit_code if refused else 0


def report_paths(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that may hold reports, at any depth. Raises `ConfigError` if it is none."""
    if not folder.is_dir():
        raise ConfigError(f"--reports: {folder} is not a folder")
    return (path for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES and path.is_file())


def _one(path: str) -> dict[str, bytes]:
    try:
        return {path: Path(path).read_bytes()}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None


def _lines(made: Replay) -> Iterator[str]:
    yield f"{plural(made.reports, 'report')} of {plural(made.nodes, 'node')}: {made.a_week:.1f} quarantines a week"
    for event in made.events:
        what = f"refused: {event.refused}" if event.refused else f"{event.lane} lane"
        yield f"  {event.node}: {event.check}, {what}"
    yield from (f"  breaker: {trip}" for trip in made.trips)


def _changes(comparison: ReplayComparison | None) -> Iterator[str]:
    if comparison is None:
        return
    yield f"the verdict changes for {plural(len(comparison.changed), 'node')}"
    yield from (f"  {name}: {before} → {after}" for name, (before, after) in comparison.changed.items())


@click.command(
    "replay-jobs",
    epilog="""\b
Examples:
  reconciler health replay-jobs /var/lib/reconciler/sources/*/jobs-main.json    in the pod of the controller
  reconciler health replay-jobs recorded.json
""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def replay_jobs(files: tuple[str, ...]) -> int:
    """Show what the detectors of hanging and slow jobs find in recorded series, and when.

    FILE is what the controller records of the jobs that it watches, or a JSON list of such series.
    """
    for path in files:
        for series in _read(path):
            for line in _series_lines(series):
                emit(line)
    return 0


def _read(path: str) -> tuple[JobSeries, ...]:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    return read_series(path, content)


def _series_lines(series: JobSeries) -> Iterator[str]:
    found, samples = replay_series(series, JobLimits()), series.samples
    minutes = round((samples[-1].at - samples[0].at) / 60) if samples else 0
    head = f"{series.namespace}/{series.name}: {plural(len(samples), 'sample')} of {minutes} min"
    yield f"{head}, {plural(len(found), 'problem')}"
    for one in found:
        begun, at = (round((moment - samples[0].at) / 60) for moment in (one.problem.since, one.at))
        end = "" if one.ended_at is None else f", over after {round((one.ended_at - samples[0].at) / 60)} min"
        yield f"  {one.problem.kind} since minute {begun}, found in minute {at}{end}: {one.problem.message}"


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
    run = _open(group)
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
        opening.write_edits({made.path: made.after}, run)
        emit(f"wrote {made.path}")
    else:
        emit("".join(render_diff(made.path, made.before, made.after)), nl=False)
    return 0


def _fleet(run: Run, group: dict[str, Any], *, is_stored: bool) -> FleetView:
    fleets = _fleets(run, {**group, "offline": is_stored})
    if len(fleets) != 1:
        names = ", ".join(one.cluster for one in fleets)
        raise ConfigError("limits are learned from one cluster at a time", hint=f"choose with --cluster: {names}")
    if fleets[0].failure and not is_stored:
        raise OutsideError(f"{fleets[0].cluster}: {fleets[0].failure}")
    return fleets[0]


def _records(run: Run, fleet: FleetView, folder: str | None, *, is_stored: bool) -> FleetRecords:
    """Return the reports to learn from, and the nodes: those of the cluster, or as records describe them."""
    if not is_stored:
        return FleetRecords(reports=[*fleet.reports.values()], facts=fleet.facts)
    root = run.workspace.repository.root
    path = Path(folder) if folder is not None else root / run.workspace.config.evidence / fleet.cluster / "reports"
    found = read_reports({str(one): one.read_bytes() for one in report_paths(path)})
    return FleetRecords(reports=found, facts={**described_nodes(found), **fleet.facts})


class NodeOrCommand(click.Group):
    """A group whose first argument may be a node."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Read a word that is not a command as the name of a node."""
        if args and args[0] not in self.commands:
            return "show", self.commands["show"], args
        return super().resolve_command(ctx, args)


@click.group(
    "health",
    cls=NodeOrCommand,
    invoke_without_command=True,
    subcommand_metavar="[NODE | COMMAND]",
    epilog="""\b
Examples:
  reconciler health                         all clusters: pools, bad nodes with reasons, the breaker
  reconciler health node-17 -o json
  reconciler health --watch
  reconciler health --offline               what evidence and quarantine files say, without a cluster
  reconciler health explain node-17         from readings and findings to policy and consequences
  reconciler health release node-17         commit that its quarantine is over
  reconciler health set-healthy node-17     commit that it was repaired, so that a deep test may release it
""",
)
@options.repo
@options.cluster
@options.access
@options.server_patience
@options.output(("text", "json"))
@click.option("--offline", is_flag=True, help="Query no cluster: show what the repository records.")
@options.watch
@options.width
@options.run_options
@click.pass_context
def command(context: click.Context, /, **flags: Any) -> int:
    """Show the health of GPU nodes: pools by phase, bad slots with their reasons, the breaker, the age of reports.

    Reads the clusters as the controller does, and writes nothing.
    """
    context.obj = flags
    return 0 if context.invoked_subcommand is not None else _show(flags, "")


@command.command("show", hidden=True)
@click.argument("node", metavar="NODE")
@options.output(("text", "json"))
@click.pass_obj
def show(group: dict[str, Any], /, node: str, **flags: Any) -> int:
    """Show one node."""
    return _show({**group, **{name: value for name, value in flags.items() if value is not None}}, node)


@command.command("explain")
@click.argument("node", metavar="NODE")
@click.pass_obj
def explain(group: dict[str, Any], node: str) -> int:
    """Show how the state of a node came about: readings, findings, policy, consequences."""
    run = _open(group)
    found = find_node(_fleets(run, group), node)
    one = NodeExplanation(
        cluster=found.fleet.cluster,
        decision=found.decision,
        state=found.state,
        policy=found.fleet.rules.policies.of_labels(found.labels),
        report=found.report,
        case=found.case.id if found.case is not None else "",
        jobs=len(found.fleet.proven.get(node, ())),
        recorded=found.row if group["offline"] else None,
    )
    if run.settings.output == "json":
        text = json.dumps(explanation_json(one, time.time()), indent=2, ensure_ascii=False) + "\n"
    else:
        text = render_explanation(one, time.time(), **terminal(run.settings))
    emit_report(text, run.settings)
    return 0


@command.command("release")
@click.argument("node", metavar="NODE")
@click.pass_obj
def release(group: dict[str, Any], node: str) -> int:
    """End the quarantine of a node: delete its file in a commit. Push it like any other change."""
    return _decide(group, node, "release")


@command.command("set-healthy")
@click.argument("node", metavar="NODE")
@click.pass_obj
def set_healthy(group: dict[str, Any], node: str) -> int:
    """Record in a commit that a node was repaired. A deep test that passes then proposes its release."""
    return _decide(group, node, "set-healthy")


def _decide(group: dict[str, Any], node: str, verb: str) -> int:
    run = _open({**group, "revision": "HEAD"})
    act = quarantine_files.release if verb == "release" else quarantine_files.declare_repaired
    made = act(run.workspace, health_sources(run.workspace), node)
    emit(
        f"nothing to commit: {node} is already waiting for validation" if made is None else f"committed {made.oid[:12]}"
    )
    return 0


def _open(flags: dict[str, Any]) -> Run:
    return opening.open_run(flags["repo"], options.setting_flags(flags), options.environment())


def _fleets(run: Run, flags: dict[str, Any]) -> list[FleetView]:
    if flags["offline"]:
        return list(recorded_fleets(run.workspace, now=time.time()))
    opener = cluster_opener(access_flags(flags), options.environment(), run.workspace.config, run.settings)
    namespace = run.settings.inventory_namespace
    return list(live_fleets(run.workspace, opener, clock=SystemClock(), namespace=namespace))


def _show(flags: dict[str, Any], node: str) -> int:
    run = _open(flags)
    before = ""
    while True:
        fleets = _fleets(run, flags)
        if node:
            find_node(fleets, node)
        said = repr(
            [
                (
                    one.failure,
                    one.view and [(row.node, row.phase, row.reason) for row in one.view.nodes],
                    one.view and [(note.uid, note.kind) for note in one.view.jobs],
                )
                for one in fleets
            ]
        )
        if said != before:
            emit_report(_text(fleets, run.settings, node), run.settings)
        if not flags["watch"]:
            return OutsideError.exit_code if any(one.failure for one in fleets) else 0
        before = said
        time.sleep(flags["interval"])


def _text(fleets: Sequence[FleetView], settings: Settings, node: str) -> str:
    chosen = [one for one in fleets if not node or (one.evaluation and node in one.evaluation.decisions)]
    if settings.output == "json":
        return to_json([health_json(one.cluster, one.view, one.failure, node) for one in chosen])
    now = time.time()
    return "\n".join(
        render_health(one.cluster, one.view, one.failure, now, node=node, **terminal(settings)) for one in chosen
    )


command.add_command(learn)
command.add_command(replay)
command.add_command(replay_jobs)
