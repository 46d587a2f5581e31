"""`reconciler verify`."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit, emit_report
from reconciler.outputs import output_names
from reconciler.plan import opening
from reconciler.plan.outputs.display import format_plan
from reconciler.plan.use_cases import rendered_by, require_verified, uncommitted_changes, verify


@click.command(
    "verify",
    epilog="""\b
Examples:
  reconciler verify                        HEAD
  reconciler verify --revision v1.4 -o json
""",
)
@options.repo
@options.revision
@options.judging_base
@options.cluster
@options.output(output_names("verify"))
@options.width
@options.date
@options.run_options
def command(*, repo: str, **flags: Any) -> int:
    """Check that rendered/ matches its sources, at HEAD or at --revision.

    Intended for CI: exits with 5 and shows the difference if rendered/ was edited by hand, or if `reconciler commit`
    was not run.
    """
    flags = {"revision": "HEAD", **options.setting_flags(flags)}
    run = opening.open_run(repo, flags, options.environment())
    plan = verify(run.workspace, base=run.settings.base, date=run.settings.date)
    is_shown = bool(plan.has_changes or plan.errors or plan.denials) or run.settings.output == "json"
    if is_shown:
        emit_report(format_plan(plan, run.settings), run.settings)
    require_verified(plan, rendered_by="" if plan.is_empty else rendered_by(run.workspace))
    objects = f"{plan.unchanged} object{'' if plan.unchanged == 1 else 's'}"
    sentence = f"verified: {objects} at {run.settings.revision} match{'es' if plan.unchanged == 1 else ''} the sources"
    if not run.workspace.config.is_rendered:
        sentence = f"nothing to verify: spec.rendered is none; {objects} at {run.settings.revision} can be built"
    emit(sentence, err=is_shown or run.settings.output == "name")
    if run.settings.revision == "HEAD":
        for sentence in uncommitted_changes(run.workspace):
            emit(f"warning: {sentence}", err=True)
    return 0
