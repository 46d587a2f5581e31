"""The options of a page: what to list, and how much of it."""

import click

from reconciler.console.options import full, stack
from reconciler.plan.outputs.filters import parse_filters


def _parse_filters(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    if not words:
        return {}

    try:
        return parse_filters(words)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


page = stack(
    click.option("--summary", is_flag=True, help="Show only GPUs, errors, risks and counts."),
    click.option(
        "--filter",
        "filters",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_parse_filters,
        help="List only what matches; KEY is cluster, queue, team or severity. Repeat a key for alternatives.",
    ),
    full,
)
