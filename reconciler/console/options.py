"""Options that several commands share."""

import os
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, TypeVar

import click

from reconciler.settings import CHOICES, NAMES

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def stack(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Combine options into one decorator; help lists them in this order."""

    def decorate(function: Decorated) -> Decorated:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class FiniteRange(click.FloatRange):
    """A number in a range. Click itself accepts `nan`, which is in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail if it is none, or not in the range."""
        number = click.FLOAT.convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return super().convert(value, param, ctx)


repo = click.option(
    "--repo",
    metavar="DIR",
    envvar="RECONCILER_REPO",
    default=".",
    show_default=True,
    help="Config repository, or any folder inside it.",
)

color = click.option("--color", type=click.Choice(CHOICES["color"]), help="When to color the output. [default: auto]")

watch = stack(
    click.option("--watch", is_flag=True, help="Print again when something changes, until Ctrl-C."),
    click.option(
        "--interval",
        metavar="SECONDS",
        type=FiniteRange(0.1, 86400),
        default=5.0,
        show_default=True,
        help="Time between two updates of --watch.",
    ),
)

width = click.option("--width", metavar="N", help="Width of text output, in columns. [default: the terminal's]")

run_options = stack(
    color,
    click.option("--cache", type=click.Choice(CHOICES["cache"]), help="Whether to use the cache. [default: on]"),
    click.option("--cache-dir", metavar="DIR", help="Cache folder. [default: the user's cache folder]"),
    click.option("--processes", metavar="N", help="Maximum number of worker processes. [default: one per CPU]"),
    click.option(
        "--log-level", type=click.Choice(CHOICES["log_level"]), help="Lowest level to log. [default: warning]"
    ),
    click.option("--log-format", type=click.Choice(CHOICES["log_format"]), help="Log format. [default: text]"),
)

revision = click.option(
    "--revision", metavar="REV", help="Revision to read, instead of the working tree with its uncommitted changes."
)

cluster = click.option("--cluster", metavar="NAME", help="Name of the only cluster to process. [default: all clusters]")

date = click.option(
    "--date",
    metavar="YYYY-MM-DD",
    help="Current date, or today, for exceptions and approvals that expire. [default: date of the head commit]",
)

base = click.option(
    "--base",
    metavar="REV",
    help="Revision to compare with, at the merge base. [default: the upstream's default branch, else HEAD]",
)

sources = click.option(
    "--sources",
    metavar="DIR",
    multiple=True,
    help="Source folder of a repository without reconciler.yaml, by path below its root. Overlays and charts in it are "
    "built. May be repeated.",
)

judging_base = click.option(
    "--base",
    metavar="REV",
    help="Revision whose settings and rules count as well, at the merge base. [default: the upstream's default branch, "
    "else none]",
)

inventory_namespace = click.option(
    "--inventory-namespace",
    metavar="NAME",
    help="Namespace on each cluster that keeps the inventory. [default: gpu-reconciler]",
)

decision_log = click.option(
    "--decision-log",
    metavar="FILE",
    help="File to append a line of JSON to. [default: gpu-reconciler/decisions.jsonl in the user's state folder]",
)

exit_code = click.option("--exit-code", is_flag=True, help="Exit with 1 if there are changes.")

_ACCESS = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "as_user": "--as",
    "as_groups": "--as-group",
    "server_patience": "--server-patience",
}

_LIVE = {**_ACCESS, "adopt": "--adopt", "inventory_namespace": "--inventory-namespace"}

access = stack(
    click.option(
        "--kubeconfig",
        metavar="FILE",
        default="",
        help="Kubeconfig. [default: the files of KUBECONFIG, else ~/.kube/config, else the account of the pod]",
    ),
    click.option("--context", metavar="NAME", default="", help="Context of the kubeconfig. [default: the current one]"),
    click.option("--as", "as_user", metavar="USER", default="", help="User to impersonate on the cluster."),
    click.option(
        "--as-group", "as_groups", metavar="GROUP", multiple=True, help="Group to impersonate. May be repeated."
    ),
)

server_patience = click.option(
    "--server-patience",
    metavar="SECONDS",
    help="How long to retry a busy or restarting API server; an unreachable one is tried once. [default: 30]",
)

change_request = click.option(
    "--change-request", is_flag=True, help="Propose the edits of HEAD on the forge, and update what is proposed there."
)

full = click.option("--full", is_flag=True, help="Show every field of created and deleted objects.")


def output(formats: Sequence[str], default: str = "text") -> Callable[[Decorated], Decorated]:
    """Return the option `-o FORMAT` for the formats of a command."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        metavar="FORMAT",
        help=f"Output format: {', '.join(formats)}. [default: {default}]",
    )


def setting_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command that are settings, without those that were not given."""
    return {name: value for name, value in flags.items() if name in NAMES and value is not None}


def head_flags(flags: dict[str, Any], **exclusive: object) -> dict[str, Any]:
    """Return the settings of a command whose edits go to the working tree, or else are based on HEAD.

    Raises for more than one of the `exclusive` flags; those besides `write` are based on HEAD.
    """
    given = [name for name, value in exclusive.items() if value]
    if len(given) > 1:
        names = [f"--{name.replace('_', '-')}" for name in exclusive]
        raise click.UsageError(f"{', '.join(names[:-1])} and {names[-1]} exclude each other")
    return setting_flags(flags) | ({"revision": "HEAD"} if given and given != ["write"] else {})


def check_access(flags: dict[str, Any], *, live: bool) -> None:
    """Refuse flags about live clusters in a command that looks at none."""
    for name, flag in _LIVE.items():
        if flags.get(name) and not live:
            raise click.UsageError(f"{flag} has no effect without --live")


def environment() -> dict[str, str]:
    """Return a copy of the environment."""
    return dict(os.environ)
