"""The `reconciler` command: runs a command and turns errors into exit codes. Imports only click."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from reconciler.version import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("submit.commands.init", "Create a config repository from the template."),
    "new": (
        "submit.commands.new",
        "Write a commented starter file: a job, workload, queue, health policy or quarantine.",
    ),
    "submit": ("submit.commands.submit", "Submit a job: a branch with its files, and the plan."),
    "serve": ("submit.commands.serve", "Submit a service: a branch with its files, and the plan."),
    "delete": ("submit.commands.delete", "Propose the deletion of a job or service: a branch without its files."),
    "complete": ("submit.commands.complete", "Propose the end of a job: it is removed or suspended."),
    "logs": ("submit.commands.logs", "Print the logs of a live workload."),
    "exec": ("submit.commands.execute", "Run a command in a container of a live workload."),
    "port-forward": ("submit.commands.port_forward", "Forward a port to a pod of a live workload."),
    "monitor": ("submit.commands.monitor", "Watch the GPUs of a live workload."),
    "manage": ("submit.commands.manage", "Choose a live workload on a screen, and what to do with it."),
    "lint": ("plan.commands.lint", "Check all files and report every problem."),
    "test": ("plan.commands.test", "Test policies with examples of objects that they allow or deny."),
    "plan": ("plan.commands.plan", "Show the changes that a revision makes, with reasons."),
    "render": ("plan.commands.render", "Render all manifests to a folder or to standard output."),
    "approve": ("plan.commands.approve", "Approve a plan that exceeds its budgets."),
    "commit": ("plan.commands.commit", "Render the sources of HEAD and commit the result."),
    "resolve": ("plan.commands.resolve", "Resolve conflicts in rendered/ by rendering again."),
    "verify": ("plan.commands.verify", "Check that rendered/ matches its sources."),
    "placement": ("plan.commands.placement", "Forecast where workloads run, compare strategies, and ask what if."),
    "explain": ("plan.commands.explain", "Explain why an object or a field has its value."),
    "show": ("plan.commands.show", "Show a saved plan in any format."),
    "web": ("web.command", "Show plan, queues, jobs and nodes as pages in a browser."),
    "forge": ("forge.commands.forge", "Comment plans and propose changes on a forge."),
    "apply": ("live.commands.apply", "Carry out a saved plan on live clusters."),
    "drift": ("live.commands.drift", "Show what others changed on live clusters, and adopt it."),
    "release": ("live.commands.release", "Hand live objects over to others, without deleting them."),
    "history": ("live.commands.history", "List the plans that were applied."),
    "rollback": ("live.commands.rollback", "Restore the sources of an earlier revision, as a commit."),
    "import": ("live.commands.importing", "Write sources from the objects of live clusters."),
    "observe": ("live.commands.observe", "Record nodes, queues in use and finished jobs as evidence."),
    "status": ("live.commands.status", "Show phase, workers and times of jobs, and why a job waits."),
    "report": ("reports.commands", "Report what GPUs did, what they cost, and who waits for them."),
    "propose": ("live.commands.propose", "Propose flavors and quotas that fit the observed nodes."),
    "preempt": ("live.commands.preempt", "Decide which idle workloads are suspended for those that wait."),
    "controller": ("controller.command", "Watch config repositories: plan, commit and apply."),
    "size": ("size.commands", "Choose the number of GPUs for a training job."),
    "health": ("health.commands.health", "Show the health of GPU nodes, and decide about them."),
    "probe": ("health.commands.probe", "Check the GPUs of this machine."),
    "agent": ("health.commands.agent", "Keep checking the GPUs of a node and publish its health."),
    "download": ("download.command", "Fetch data and models to a volume."),
    "schema": ("cli.about.schema", "Print the JSON Schema of a kind."),
    "version": ("cli.about.version", "Print the versions of the engine and its schemas."),
    "completion": ("cli.about.completion", "Print a shell completion script."),
}
"""Each command, with its module in this package and its summary: `--help` imports none of the modules."""

SECTIONS = {
    "init": "Repositories",
    "submit": "Workloads",
    "lint": "Review",
    "apply": "Clusters",
    "size": "Sizing and health",
    "download": "Tools",
}
"""The sections of `--help`, each by its first command."""

_EPILOG = """\b
Examples:
  reconciler init fleet                   create a config repository
  reconciler plan                         show what uncommitted changes do
  reconciler plan --base main -o markdown
  reconciler commit                       update rendered/ and commit it
  reconciler explain Job/team-a/vit spec.completions

\b
Exit codes: 0 done, 1 changes pending (only with --exit-code), 2 bad flag or setting,
3 invalid input, 4 policy denied, 5 unsafe or stale plan, 6 an outside system failed, 7 applied in part, 70 a bug.
"""


class Commands(click.Group):
    """A group that imports the module of a command only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the module of a command and return the command."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = import_module(f"reconciler.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for an unknown one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - only for an error

            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command {args[0]!r}{f'; did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the list of commands, by section, without importing them."""
        sections: dict[str, list[tuple[str, str]]] = {}
        title = ""
        for name, (_, summary) in COMMANDS.items():
            title = SECTIONS.get(name, title)
            sections.setdefault(title, []).append((name, summary))
        longest = max(map(len, COMMANDS))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), summary) for name, summary in rows])


@click.command(
    cls=Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.version_option(__version__, "-V", "--version", message="reconciler %(version)s")
@click.option("--debug", is_flag=True, help="Print a traceback with every error.")
def reconciler(*, debug: bool) -> None:
    """Manage GPU clusters from Git: queues, jobs and policies as YAML, reviewed as diffs, rendered as manifests."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line, print any error, and return the exit code."""
    try:
        result: Any = reconciler.main(args=list(arguments), prog_name="reconciler", standalone_mode=False)
        if sys.stdout is not None:  # closed by the parent process
            sys.stdout.flush()  # reports a failure to write while there is still an exit code to choose
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except BaseException as error:  # noqa: BLE001 - a bug must not look like "changes pending"
        from reconciler.cli.failures import report_failure  # noqa: PLC0415 - only for an error

        return report_failure(error, arguments)
    return result if isinstance(result, int) else 0
