"""`reconciler drift`."""

import json
from typing import Any

import click
import msgspec

from reconciler.console import options
from reconciler.console.access import access_flags
from reconciler.console.printing import emit, emit_report
from reconciler.errors import InvalidInput, OutsideError
from reconciler.forge.checkouts import bring, edits_of
from reconciler.forge.identity import ProposedChange
from reconciler.live.drift import Adoptions, adopt
from reconciler.plan import opening
from reconciler.plan.live.clusters import live_choices, open_clusters
from reconciler.plan.outputs.drift import render_diff, render_drift
from reconciler.plan.replacements import ABOUT_CHANGES, UNKNOWN
from reconciler.plan.use_cases import plan

_FORMATS = ("text", "json")


@click.command(
    "drift",
    epilog="""\b
Examples:
  reconciler drift                     fields that others changed, and the edits that adopt them as a diff
  reconciler drift --write             write these edits to the working tree; then `reconciler plan --live`
  reconciler drift --all --write       adopt every drifted field, whatever spec.drift says
""",
)
@options.repo
@options.cluster
@click.option("--all", "everything", is_flag=True, help="Adopt every drifted field, whatever spec.drift says.")
@click.option("--write", is_flag=True, help="Write the edits to the working tree.")
@options.change_request
@options.access
@options.server_patience
@options.inventory_namespace
@options.output(_FORMATS)
@options.date
@options.exit_code
@options.run_options
def command(*, repo: str, everything: bool, write: bool, change_request: bool, exit_code: bool, **flags: Any) -> int:
    """Show what others changed or deleted on live clusters, and propose edits of the sources that adopt the fields.

    spec.drift of reconciler.yaml decides what happens to each field: `revert` (an apply sets it back), `adopt` (it
    stays, and the edit is shown as a diff) or `ignore` (it stays until the rule expires). A field can be adopted if its
    value is copied from a source file, or somebody added it beside such values; computed values and secrets cannot.
    Nothing is written to a cluster.
    """
    environ = options.environment()
    run = opening.open_run(repo, options.head_flags(flags, write=write, change_request=change_request), environ)
    with open_clusters(access_flags(flags), environ, run) as clusters:
        choices = live_choices(run.settings)
        planned = plan(run.workspace, date=run.settings.date, clusters=clusters, choices=choices)
        found = adopt(run.workspace.repository, planned, everything=everything)
    drift = planned.plan.drift
    if run.settings.output == "json":
        emit(json.dumps(msgspec.to_builtins(drift), indent=2, ensure_ascii=False), form="json")
    else:
        emit_report(render_drift(drift), run.settings)
    _print_edits(run, found, write=write)
    errors = planned.plan.errors
    if hidden := [problem for problem in errors if problem.rule not in ABOUT_CHANGES]:
        emit("objects with errors were not compared with the cluster:", err=True)
        raise InvalidInput(hidden)
    unknown = [problem for problem in errors if problem.rule == UNKNOWN]
    if unknown:
        first = unknown[0]
        raise OutsideError(f"not every object could be compared: {first.place}: {first.message}", hint=first.hint)
    if change_request:
        _bring(run, environ, found)
    if not drift:
        emit("no drift: nobody else changed or deleted an object of this repository", err=True)
    return 1 if exit_code and drift else 0


def _print_edits(run: opening.Run, found: Adoptions, *, write: bool) -> None:
    for problem in found.problems:
        emit(str(problem), err=True)
    for edit in found.edits:
        if write:
            opening.write_edits({edit.path: edit.after}, run)
            emit(f"wrote {edit.path}", err=True)
        elif run.settings.output == "text":
            emit("".join(render_diff(edit.path, edit.before, edit.after)), nl=False)


def _bring(run: opening.Run, environ: dict[str, str], found: Adoptions) -> None:
    """Propose the edits on the forge; if nothing is left to adopt, close what is open."""
    change = ProposedChange(
        kind="drift",
        name="adopt",
        cluster=run.settings.cluster,
        title="Adopt what others changed on the cluster",
        reason="Live objects differ from the repository, and spec.drift adopts these fields.",
        edits=edits_of(run, {edit.path: edit.after for edit in found.edits}),
    )
    is_settled = not (change.edits or found.problems)
    for done in bring(run, environ, [change] if change.edits else [], settled=[change] if is_settled else []):
        emit(str(done), err=True)
