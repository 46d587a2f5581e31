"""Flags that several verbs share, and the session that they open."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from reconciler.settings import CHOICES

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _stack(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def decorate(function: Decorated) -> Decorated:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


repo = click.option(
    "--repo",
    metavar="DIR",
    envvar="RECONCILER_REPO",
    default=".",
    show_default=True,
    help="The config repository, or any folder in it.",
)

run_options = _stack(
    click.option("--color", type=click.Choice(CHOICES["color"]), help="When to colour. [default: auto]"),
    click.option("--cache", type=click.Choice(CHOICES["cache"]), help="Remember compiled files. [default: on]"),
    click.option("--cache-dir", metavar="DIR", help="Where to remember them. [default: the user's cache folder]"),
    click.option("--processes", metavar="N", help="Files compiled at once. [default: one a processor]"),
    click.option("--log-level", type=click.Choice(CHOICES["log_level"]), help="Of messages. [default: warning]"),
    click.option("--log-format", type=click.Choice(CHOICES["log_format"]), help="Of messages. [default: text]"),
)

revision = click.option(
    "--revision", metavar="REV", help="Read this commit instead of the working tree with its uncommitted edits."
)
cluster = click.option("--cluster", metavar="NAME", help="Only this cluster. [default: all]")
date = click.option("--date", metavar="YYYY-MM-DD", help="Today, for exceptions. [default: date of the head commit]")
base = click.option(
    "--base",
    metavar="REV",
    help="Compare with the merge base of this. [default: the upstream's default branch, else HEAD]",
)
acknowledge = click.option(
    "--acknowledge", metavar="TOKEN", help="Allow exactly the plan that printed this token to exceed its budgets."
)
exit_code = click.option("--exit-code", is_flag=True, help="Exit with 1 where changes are pending.")


def output(formats: Sequence[str], default: str = "text") -> Callable[[Decorated], Decorated]:
    """Offer `-o FORMAT` with the formats that a verb knows."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        metavar="FORMAT",
        help=f"{', '.join(formats)}. [default: {default}]",
    )


def setting_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Pick from a verb's arguments those that are settings; empty ones count as not given."""
    from reconciler.settings import NAMES  # noqa: PLC0415 - keeps this module's import small

    return {name: value for name, value in flags.items() if name in NAMES and value is not None}


def environment() -> dict[str, str]:
    """Return the environment, once, at the edge."""
    return dict(os.environ)
