"""`reconciler plan`."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit_report
from reconciler.outputs.registry import output_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.core.live.choices import LiveChoices
    from reconciler.core.plan import Plan
    from reconciler.ports.cluster import LiveCluster
    from reconciler.wiring import Run


@click.command(
    "plan",
    epilog="""\b
Examples:
  reconciler plan                               uncommitted changes, against the upstream's main
  reconciler plan --revision HEAD --base main   a pull request
  reconciler plan -o markdown > comment.md      a comment for a pull request
  reconciler plan --out plan.json --exit-code   save the plan; exit with 1 if there are changes
  reconciler plan --summary                     only GPUs, risks and counts
  reconciler plan --merge-result --base main    what main has after the merge
  reconciler plan --filter queue=h100 --filter severity=error
  reconciler plan --live --context gpu-a        what an apply changes on a live cluster, and what drifted there
""",
)
@options.repo
@options.base
@options.revision
@options.cluster
@options.output(output_names("plan"))
@options.page
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="File to save the plan to."
)
@click.option(
    "--merge-result",
    is_flag=True,
    help="Plan the result of merging the revision (--revision, else HEAD) into the tip of the base.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Compare with live clusters instead of rendered/ of the base, and check every change there with a dry run.",
)
@click.option(
    "--adopt",
    metavar="KIND/NAMESPACE/NAME",
    multiple=True,
    help="Adopt a live object that is not ours, with --live; KIND/NAME if it is in no namespace. May be repeated.",
)
@options.access
@options.server_patience
@options.inventory_namespace
@options.width
@options.date
@options.exit_code
@options.run_options
def command(
    *,
    repo: str,
    full: bool,
    summary: bool,
    filters: dict[str, tuple[str, ...]],
    out: Path | None,
    merge_result: bool,
    live: bool,
    adopt: tuple[str, ...],
    exit_code: bool,
    **flags: Any,
) -> int:
    """Show the changes that a revision makes to rendered/, with reasons.

    Renders the sources of the working tree (or of --revision) and compares the result with rendered/ at the base. The
    plan depends on the repository alone: no clock and no network. Nothing is written.

    With --live, what exists are the objects of live clusters. A single cluster is the one of --context, else of the
    current context; of several clusters, each is the context of its name. Nothing is stored there.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast

    options.check_access(flags | {"adopt": adopt}, live=live)
    named = ({"revision": "HEAD"} if merge_result else {}) | options.setting_flags(flags)
    run = wiring.open_run(repo, named, options.environment(), merge=merge_result, compiles=True)
    from reconciler.app.plan import plan  # noqa: PLC0415 - after git has begun to look for changes
    from reconciler.cli.display import format_plan  # noqa: PLC0415
    from reconciler.core.live.choices import NO_CHOICES  # noqa: PLC0415
    from reconciler.planning.gate import refuse  # noqa: PLC0415

    settings = run.settings
    with _clusters(run, flags) if live else nullcontext() as clusters:
        choices = _choices(run, adopt) if live else NO_CHOICES
        planned = plan(run.workspace, base=settings.base, date=settings.date, clusters=clusters, choices=choices)
    _check_adopted(planned.plan, adopt)
    if out is not None:
        wiring.save_plan(planned.plan, out)
    emit_report(format_plan(planned.plan, settings, full=full, summary=summary, filters=filters), settings)
    refuse(planned.plan)
    return 1 if exit_code and planned.plan.has_changes else 0


def _check_adopted(plan: "Plan", adopt: tuple[str, ...]) -> None:
    """Refuse names that adopt nothing: they are misspelled, or the object is ours already."""
    from reconciler.errors import ConfigError  # noqa: PLC0415 - as above

    known = {str(change.key) for change in plan.changes if change.adopts}
    for name in adopt:
        if name not in known:
            hint = "it is ours already, does not exist, or no source defines it; write KIND/NAMESPACE/NAME or KIND/NAME"
            raise ConfigError(f"--adopt: there is no object {name} to adopt", hint=hint)


def _choices(run: "Run", adopt: tuple[str, ...]) -> "LiveChoices":
    from reconciler.wiring.cluster import live_choices  # noqa: PLC0415 - few plans look at live clusters

    return live_choices(run.settings, adopt=frozenset(adopt))


def _clusters(run: "Run", flags: dict[str, Any]) -> AbstractContextManager["Mapping[str, LiveCluster]"]:
    from reconciler.wiring.cluster import access_flags, open_clusters  # noqa: PLC0415 - few plans look at live clusters

    return open_clusters(access_flags(flags), options.environment(), run)
