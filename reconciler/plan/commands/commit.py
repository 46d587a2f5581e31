"""`reconciler commit`."""

from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit, emit_report
from reconciler.outputs import output_names
from reconciler.plan import opening
from reconciler.plan.outputs.display import format_plan
from reconciler.plan.use_cases import commit, plan_commit, require_same, uncommitted_changes


@click.command(
    "commit",
    epilog="""\b
Examples:
  git commit -am "vit: 16 -> 32 GPUs" && reconciler commit
  reconciler commit --branch rendered/vit       commit to another branch
  reconciler commit --plan plan.json            carry out a saved plan, or fail if it changed
""",
)
@options.repo
@options.judging_base
@options.cluster
@click.option("--branch", metavar="NAME", help="Branch to commit to, created from HEAD. [default: the current branch]")
@click.option("--message", "-m", metavar="TEXT", help="Commit message. [default: a summary of the plan]")
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Saved plan to carry out. Exits with 5 if the plan of HEAD differs from it.",
)
@options.output(output_names("commit"))
@options.width
@options.date
@options.run_options
def command(*, repo: str, branch: str | None, message: str | None, plan_file: Path | None, **flags: Any) -> int:
    """Render the sources of HEAD and commit the result.

    Only committed sources are rendered: commit your changes first. Updates rendered/ in one commit, with the digest of
    the plan in its trailers. The rest of the working tree and of the index is not touched.
    """
    saved = opening.load_plan(plan_file) if plan_file else None
    run = opening.open_run(repo, options.setting_flags(flags) | {"revision": "HEAD"}, options.environment())
    settings = run.settings
    planned = plan_commit(run.workspace, base=settings.base, date=settings.date)
    if saved is not None:
        require_same(saved, planned.plan)
    emit_report(format_plan(planned.plan, settings), settings)
    uncommitted = uncommitted_changes(run.workspace)
    committed = commit(run.workspace, planned, branch=branch, message=message or "")
    if committed is None and not run.workspace.config.is_rendered:
        emit("nothing to commit: spec.rendered is none, so that Argo CD or Flux builds the sources itself", err=True)
    elif committed is None:
        emit("nothing to commit: rendered/ is up to date with the sources of HEAD", err=True)
    else:
        emit(f"committed {committed.oid[:12]}{f' to {branch}' if branch else ''}", err=True)
    for sentence in uncommitted:
        emit(f"warning: {sentence}", err=True)
    if uncommitted and run.workspace.config.is_rendered:
        emit("Commit them first (git commit), then run `reconciler commit` again.", err=True)
    return 0
