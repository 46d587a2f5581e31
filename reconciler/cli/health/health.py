"""`reconciler health`."""

from typing import TYPE_CHECKING, Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit, emit_report
from reconciler.cli.health.learn import learn
from reconciler.cli.health.replay import replay
from reconciler.cli.health.replay_jobs import replay_jobs
from reconciler.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.app.health.seen import SeenFleet
    from reconciler.settings import Settings
    from reconciler.wiring import Run


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
    import json  # noqa: PLC0415 - --help stays fast
    import time  # noqa: PLC0415

    from reconciler.app.health.seen import find_node  # noqa: PLC0415
    from reconciler.cli.display import terminal  # noqa: PLC0415
    from reconciler.outputs.health.explained import (  # noqa: PLC0415
        NodeExplanation,
        explanation_json,
        render_explanation,
    )

    run = _open(group)
    seen = find_node(_fleets(run, group), node)
    one = NodeExplanation(
        cluster=seen.fleet.cluster,
        decision=seen.decision,
        state=seen.state,
        policy=seen.fleet.rules.policies.of_labels(seen.labels),
        report=seen.report,
        case=seen.case.id if seen.case is not None else "",
        jobs=len(seen.fleet.proven.get(node, ())),
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
    from reconciler.app.health.releasing import declare_repaired, release  # noqa: PLC0415 - --help stays fast
    from reconciler.app.health.seen import health_sources  # noqa: PLC0415

    run = _open({**group, "revision": "HEAD"})
    act = release if verb == "release" else declare_repaired
    made = act(run.workspace, health_sources(run.workspace), node)
    emit(
        f"nothing to commit: {node} is already waiting for validation" if made is None else f"committed {made.oid[:12]}"
    )
    return 0


def _open(flags: dict[str, Any]) -> "Run":
    from reconciler import wiring  # noqa: PLC0415 - --help stays fast

    return wiring.open_run(flags["repo"], options.setting_flags(flags), options.environment())


def _fleets(run: "Run", flags: dict[str, Any]) -> "list[SeenFleet]":
    import time  # noqa: PLC0415 - --help stays fast

    from reconciler.adapters.clock import SystemClock  # noqa: PLC0415
    from reconciler.app.health.seen import live_fleets, recorded_fleets  # noqa: PLC0415
    from reconciler.wiring.cluster import access_flags, cluster_opener  # noqa: PLC0415

    if flags["offline"]:
        return list(recorded_fleets(run.workspace, now=time.time()))
    opener = cluster_opener(access_flags(flags), options.environment(), run.workspace.config, run.settings)
    namespace = run.settings.inventory_namespace
    return list(live_fleets(run.workspace, opener, clock=SystemClock(), namespace=namespace))


def _show(flags: dict[str, Any], node: str) -> int:
    import time  # noqa: PLC0415 - --help stays fast

    from reconciler.app.health.seen import find_node  # noqa: PLC0415

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


def _text(fleets: "Sequence[SeenFleet]", settings: "Settings", node: str) -> str:
    import time  # noqa: PLC0415 - --help stays fast

    from reconciler.cli.display import terminal  # noqa: PLC0415
    from reconciler.outputs.health.fleet import health_json, render_health, to_json  # noqa: PLC0415

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
