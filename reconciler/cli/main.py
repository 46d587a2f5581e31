"""The `reconciler` command: finds the verb, runs it, and turns every error into its exit code. Imports only click."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from reconciler.errors import INTERRUPTED, TERMINATED, OutsideError, ReconcilerError, Terminated
from reconciler.version import __version__

# Verb -> (module, one line). The lines stand here so that `--help` imports none of the modules.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("init", "Make a new config repository from the template."),
    "lint": ("lint", "Check every file and say everything that is wrong."),
    "plan": ("plan", "Show what the sources mean, as a diff with reasons."),
    "render": ("render", "Write the rendered manifests to a folder or standard output."),
    "commit": ("commit", "Write rendered/ and make one commit of it."),
    "verify": ("verify", "Fail unless rendered/ is exactly what the sources mean."),
    "explain": ("explain", "Say why an object or one of its fields is what it is."),
    "size": ("size", "Say how many GPUs a training job needs, and why."),
    "show": ("show", "Show a saved plan again, in any format."),
    "autoconf": ("autoconf", "Compile the model of an installed ado-autoconf into a small table."),
    "schema": ("schema", "Print the JSON Schema of a kind."),
    "version": ("version", "Print the version of the engine and of what it knows."),
    "completion": ("completion", "Print the shell completion script."),
}

_EPILOG = """\b
Examples:
  reconciler init fleet              make a config repository
  reconciler plan                    what do my uncommitted edits mean?
  reconciler plan --base main -o markdown
  reconciler commit                  write rendered/ and commit it
  reconciler explain Job/team-a/vit spec.completions

\b
Exit codes: 0 done, 1 changes pending (only with --exit-code), 2 bad flag or setting,
3 invalid input, 4 policy denied, 5 unsafe or stale plan, 6 the outside failed, 70 a bug.
"""


class Verbs(click.Group):
    """A group that imports a verb's module only when that verb is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the verbs in the order a newcomer needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the verb's module and return its command."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"reconciler.cli.{VERBS[cmd_name][0]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the verb that was probably meant."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - only on the way to an error

            near = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " Run `reconciler --help` for the list."
            ctx.fail(f"There is no verb {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the list of verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])


@click.command(cls=Verbs, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="reconciler %(version)s")
@click.option("--debug", is_flag=True, help="Show a trace with every error.")
def reconciler(*, debug: bool) -> None:
    """GPU clusters run from Git: queues, jobs and policies as YAML in, reviewed diffs and rendered manifests out."""


def run(arguments: Sequence[str]) -> int:  # noqa: PLR0911 - one for each way to end
    """Run the command line and return its exit code: the only place that prints errors."""
    try:
        result: Any = reconciler.main(args=list(arguments), prog_name="reconciler", standalone_mode=False)
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()  # here, where it can still be told that the output is not whole
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except Terminated:
        click.echo("terminated", err=True)
        return TERMINATED
    except (BrokenPipeError, SystemExit):
        # The reader (`| head`) has seen enough, of which click makes an exit with 1: that would mean pending changes.
        _give_up_output()
        return _PIPE_CLOSED
    except OSError as error:
        _give_up_output()
        return _report(OutsideError(str(error), hint="free some disk space" if error.errno == errno.ENOSPC else ""))
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug must not look like "changes pending"
        if "--debug" in arguments or os.environ.get("RECONCILER_DEBUG"):
            _trace()
        return _report(error)
    return result if isinstance(result, int) else 0


def _give_up_output() -> None:
    """Drop what could not be written: Python would complain again while it closes standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


_PIPE_CLOSED = 128 + 13  # by SIGPIPE, which is no success: what a plan was refused for may not have been said


def _report(error: Exception) -> int:
    if isinstance(error, ReconcilerError):
        for problem in getattr(error, "problems", ()):
            click.echo(str(problem), err=True)
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    click.echo(f"bug: {type(error).__name__}: {error}", err=True)
    click.echo("This is a bug in gpu-reconciler; run again with RECONCILER_DEBUG=1 and report the trace.", err=True)
    return ReconcilerError.exit_code


def _trace() -> None:
    import traceback  # noqa: PLC0415 - only on the way to an error

    traceback.print_exc()
