"""`reconciler apply`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit, emit_report
from reconciler.console.progress import progress
from reconciler.errors import OutsideError, PartialApply, UnsafePlan
from reconciler.kube.values import plural
from reconciler.live.apply import Applied, Work, apply
from reconciler.live.apply.results import UNSAFE, Ending
from reconciler.live.apply.work import adopted, plan_work
from reconciler.live.opening import apply_runs
from reconciler.live.pages.applied import applied_json, render_applied
from reconciler.plan import Plan, opening
from reconciler.plan.gate import whole_errors
from reconciler.plan.live.clusters import live_choices, open_clusters
from reconciler.plan.outputs.display import format_plan
from reconciler.plan.outputs.summary import blockers
from reconciler.settings import Settings

_FORMATS = ("text", "json")


@click.command(
    "apply",
    epilog="""\b
Examples:
  reconciler plan --live --revision HEAD --out plan.json && reconciler apply plan.json
  reconciler apply plan.json --context gpu-a --timeout 600
  reconciler apply plan.json --no-wait -o json
""",
)
@click.argument("plan_file", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.repo
@options.judging_base
@options.cluster
@options.access
@options.server_patience
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=options.FiniteRange(0),
    default=300.0,
    show_default=True,
    help="How long to wait for the applied objects to become ready.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait for the applied objects, or check whether they are ready.")
@options.inventory_namespace
@options.decision_log
@options.output(_FORMATS)
@options.date
@options.run_options
def command(*, plan_file: Path, repo: str, timeout: float, no_wait: bool, **flags: Any) -> int:
    """Carry out a saved plan on the live clusters that it was made for. PLAN is a file of `plan --live --out`.

    Plans HEAD again, and exits with 5 if the sources, the settings, the evidence or an object on the cluster that the
    plan changes is not as it was then. Every request names the version that it expects, so that an edit at the last
    moment is not overwritten. Namespaces and kinds come first, then classes, queues and workloads; deletions come last,
    and only objects of the inventory are deleted. An object that fails stops only those that need it.

    A run that was interrupted or killed can be repeated with the same plan.
    """
    saved, environ = opening.load_plan(plan_file), options.environment()
    run = opening.open_run(repo, options.setting_flags(flags) | {"revision": "HEAD"}, environ)
    choices = live_choices(run.settings, adopt=adopted(saved))
    with open_clusters(access_flags(flags), environ, run) as clusters:
        settings = run.settings
        work = plan_work(run.workspace, clusters, base=settings.base, date=settings.date, choices=choices, saved=saved)
        _tell(work.plan, run.settings)
        with progress("applying", total=len(work.steps)) as advance:
            runs = apply_runs(
                run,
                clusters,
                environ,
                wait_seconds=None if no_wait else timeout,
                advance=lambda _: advance(1),
                tell=lambda _: advance(0),
            )
            applied = apply(runs, saved, work)
    _report(applied, run.settings)
    return _end(applied, work)


def _tell(plan: Plan, settings: Settings) -> None:
    """Show a plan that is refused; of one that can be applied in part, what is left out."""
    errors = whole_errors(plan)
    if blockers(replace(plan, problems=errors)):
        emit_report(format_plan(plan, settings), settings)
        return
    for problem in plan.errors:
        emit(str(problem), err=True)


def _report(applied: Sequence[Applied], settings: Settings) -> None:
    if settings.output == "json":
        plain = [applied_json(one.record, one.results, one.not_ready, one.notes) for one in applied]
        emit(json.dumps(plain, indent=2, ensure_ascii=False), form="json")
    elif not applied:
        emit("nothing to apply: everything is as planned", err=True)
    for one in applied if settings.output == "text" else ():
        emit_report(render_applied(one.record, one.results, one.not_ready, one.notes), settings)


def _end(applied: Sequence[Applied], work: Work) -> int:
    """Return 0, or raise what went wrong: the interruption, what a new plan has to solve, then other failures."""
    for one in applied:
        if one.interruption is not None:
            emit("Run the same command again to continue.", err=True)
            raise one.interruption
    results = [result for one in applied for result in one.results]
    failed = [result for result in results if not result.ending.is_success]
    left = [result for result in failed if result.path in work.refused or result.ending is Ending.DENIED]
    if left and all(result in left or result.ending is Ending.SKIPPED for result in failed):
        skipped = len(failed) - len(left)
        more = f", and {plural(skipped, 'object')} that need them" if skipped else ""
        what = f"without {plural(len(left), 'object')} that the cluster does not accept{more}"
        raise PartialApply(f"applied in part: {what}, shown above", hint="fix the causes, then plan again")
    if any(result.ending in UNSAFE for result in failed):
        hint = "review a new plan: reconciler plan --live --revision HEAD --out plan.json"
        raise UnsafePlan(f"{plural(len(failed), 'object')} not applied, shown above", hint=hint)
    if failed:
        hint = "fix the causes, then run the same command again"
        raise OutsideError(f"{plural(len(failed), 'object')} not applied, shown above", hint=hint)
    if work.plan.errors:
        hint = "allow `list` on them, or wait for the server"
        raise PartialApply("applied in part: objects of some kinds are not known, as shown above", hint=hint)
    late = sum(len(one.not_ready) for one in applied)
    if late:
        raise OutsideError(f"applied, but {plural(late, 'object')} not ready in time, shown above")
    if any(one.notes for one in applied):
        raise OutsideError("applied, but the record is incomplete: see the warnings above")
    return 0
