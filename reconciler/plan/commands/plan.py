"""`reconciler plan`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit, emit_report, report_error
from reconciler.errors import ConfigError, ReconcilerError
from reconciler.kube.values import plural
from reconciler.outputs import output_names
from reconciler.plan import Plan, opening, use_cases
from reconciler.plan.gate import refuse
from reconciler.plan.live.choices import is_pattern
from reconciler.plan.live.clusters import live_choices, open_clusters
from reconciler.plan.outputs.display import format_plan
from reconciler.plan.outputs.page_options import page
from reconciler.settings import Settings


@click.command(
    "plan",
    epilog="""\b
Examples:
  reconciler plan                               uncommitted changes, against the upstream's main
  reconciler plan --revision HEAD --base main   a pull request
  reconciler plan -o markdown > comment.md      a comment for a pull request
  reconciler plan --out plan.json --exit-code   save the plan; exit with 1 if there are changes
  reconciler plan --base main --sources apps/prod   a repository without reconciler.yaml
  reconciler plan --summary                     only GPUs, risks and counts
  reconciler plan --merge-result --base main    what main has after the merge
  reconciler plan --filter queue=h100 --filter severity=error
  reconciler plan --watch                       plan again after every change, until Ctrl-C
  reconciler plan --live --adopt all            adopt what runs, where no field changes
  reconciler plan --live --context gpu-a        what an apply changes on a live cluster, and what drifted there
""",
)
@options.repo
@options.sources
@options.base
@options.revision
@options.cluster
@options.output(output_names("plan"))
@page
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="File to save the plan to."
)
@click.option(
    "--merge-result",
    is_flag=True,
    help="Plan the result of merging the revision (--revision, else HEAD) into the tip of the base.",
)
@click.option("--watch", is_flag=True, help="Plan again after every change of a file or branch, until Ctrl-C.")
@click.option(
    "--live",
    is_flag=True,
    help="Compare with live clusters instead of rendered/ of the base, and check every change there with a dry run.",
)
@click.option(
    "--adopt",
    metavar="KIND/NAMESPACE/NAME",
    multiple=True,
    help="Adopt a live object that is not ours, with --live; KIND/NAME if it is in no namespace. A pattern such as "
    "'Deployment/team-a/*', or all, adopts only objects of which no field changes. May be repeated.",
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
    sources: tuple[str, ...],
    full: bool,
    summary: bool,
    filters: dict[str, tuple[str, ...]],
    out: Path | None,
    merge_result: bool,
    watch: bool,
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

    With --watch, the plan is printed again whenever a change of a file or branch changes it.
    """
    options.check_access(flags | {"adopt": adopt}, live=live)
    make = partial(_plan, repo, flags, adopt, merge=merge_result, live=live, sources=sources)
    show = partial(_show, full=full, summary=summary, filters=filters)
    if watch:
        _check_watched({"--out": out, "--live": live, "--exit-code": exit_code})
        _watch(repo, make, show)
    plan, settings = make()
    if out is not None:
        opening.save_plan(plan, out)
    show(plan, settings)
    return 1 if exit_code and plan.has_changes else 0


def _plan(
    repo: str,
    flags: dict[str, Any],
    adopt: tuple[str, ...],
    *,
    merge: bool,
    live: bool,
    sources: tuple[str, ...] = (),
    imports: bool = True,
) -> tuple[Plan, Settings]:
    """Make a plan. imports: modules are still to be imported, which takes the time that git needs to compare files."""
    named = ({"revision": "HEAD"} if merge else {}) | options.setting_flags(flags)
    run = opening.open_run(repo, named, options.environment(), merge=merge, compiles=imports, sources=sources)
    settings = run.settings
    if not live:
        return use_cases.plan(run.workspace, base=settings.base, date=settings.date).plan, settings
    choices = live_choices(settings, adopt=frozenset(adopt))
    with open_clusters(access_flags(flags), options.environment(), run) as clusters:
        planned = use_cases.plan(
            run.workspace, base=settings.base, date=settings.date, clusters=clusters, choices=choices
        )
    _check_adopted(planned.plan, adopt)
    return planned.plan, settings


def _check_adopted(plan: Plan, adopt: tuple[str, ...]) -> None:
    """Refuse names that adopt nothing: they are misspelled, or the object is ours already. A pattern may match none."""
    known = {str(change.key) for change in plan.changes if change.adopts}
    missing = [name for name in adopt if not is_pattern(name) and name not in known]
    if missing:
        hint = "it is ours already, does not exist, or no source defines it; write KIND/NAMESPACE/NAME or KIND/NAME"
        raise ConfigError(f"--adopt: there is no object {' or '.join(missing)} to adopt", hint=hint)


def _show(plan: Plan, settings: Settings, **shown: Any) -> None:
    """Print a plan. Raises what forbids it."""
    emit_report(format_plan(plan, settings, **shown), settings)
    refuse(plan)


def _check_watched(flags: dict[str, object]) -> None:
    for flag, value in flags.items():
        if value:
            raise click.UsageError(f"{flag} does not apply to --watch")


def _watch(repo: str, make: Callable[..., tuple[Plan, Settings]], show: Callable[[Plan, Settings], None]) -> NoReturn:
    """Plan now and after every change. In one process, what is imported and compiled once is not again."""
    shown, changed = "", tuple[str, ...]()
    again = partial(make, imports=False)
    with opening.watching(repo, options.environment()) as wait:
        while True:
            shown = _plan_again(make, show, shown, changed)
            make, changed = again, wait()


def _plan_again(
    make: Callable[[], tuple[Plan, Settings]],
    show: Callable[[Plan, Settings], None],
    shown: str,
    changed: Sequence[str],
) -> str:
    """Make a plan, show it or its error unless that was shown last, and return what identifies it."""
    found = ""
    try:
        plan, settings = make()
        found = plan.digest
        if found != shown:
            _announce(changed)
            show(plan, settings)
    except ReconcilerError as error:
        if not found:  # else the plan was shown, and is refused
            found = "\n".join(map(str, (*getattr(error, "problems", ()), error)))
            if found == shown:
                return shown
            _announce(changed)
        report_error(error)
    return found


def _announce(changed: Sequence[str]) -> None:
    if changed:
        others = f" and {plural(len(changed) - 1, 'more file')}" if len(changed) > 1 else ""
        emit(f"\n{changed[0]}{others} changed", err=True)
