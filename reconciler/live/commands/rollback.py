"""`reconciler rollback`."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.live.apply.rollback import roll_back
from reconciler.plan import opening


@click.command(
    "rollback",
    epilog="""\b
Examples:
  reconciler rollback HEAD~1
  reconciler rollback HEAD~1 jobs/vision  only the files of one team
  reconciler history                      find the commit that was applied before
  reconciler rollback 3f2c1d0e && reconciler commit
""",
)
@click.argument("restored_revision", metavar="REVISION")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@options.repo
@click.option("--message", "-m", metavar="TEXT", help="Commit message. [default: names the revision]")
@options.run_options
def command(*, restored_revision: str, paths: tuple[str, ...], repo: str, message: str | None, **flags: Any) -> int:
    """Restore the source files of an earlier revision, as one commit on top of HEAD: all, or those in PATH.

    Settings, policies, evidence and approvals stay as they are. History is not rewritten. Render the result with
    `reconciler commit`; plan and apply it like any other change.
    """
    run = opening.open_run(repo, options.setting_flags(flags) | {"revision": "HEAD"}, options.environment())
    made = roll_back(run.workspace, restored_revision, paths, message=message or "")
    if not made.oid:
        what = f"the sources in {', '.join(paths)}" if paths else "the sources"
        emit(f"nothing to roll back: {what} are those of {made.restored[:12]}", err=True)
        return 0
    for path in made.files:
        emit(path)
    emit(f"committed {made.oid[:12]}, with the sources of {made.restored[:12]}", err=True)
    emit("Render it: reconciler commit", err=True)
    return 0
