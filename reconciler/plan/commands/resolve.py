"""`reconciler resolve`."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.plan import opening
from reconciler.plan.use_cases import resolve


@click.command(
    "resolve",
    epilog="""\b
Examples:
  git merge main                                  stops at conflicts in rendered/
  reconciler resolve && git commit --no-edit
  git rebase main                                 the same in a rebase
  reconciler resolve && git rebase --continue
""",
)
@options.repo
@options.run_options
def command(*, repo: str, **flags: Any) -> int:
    """Resolve the conflicts of a merge or a rebase in rendered/.

    Renders the merged sources of the working tree again, and stages the result. Conflicts in other files have to be
    resolved first: they are listed, and nothing is changed.
    """
    environ = options.environment()
    run = opening.open_run(repo, {**options.setting_flags(flags), "revision": "", "cluster": ""}, environ)
    checkout = opening.conflicts(repo, environ)
    command = checkout.next_command()
    if not command and not checkout.conflicts():
        emit("nothing to resolve: no merge or rebase is in progress")
        return 0
    resolved = resolve(run.workspace, checkout)
    for path in resolved.rendered:
        emit(f"rendered {path}")
    conflicts = len(resolved.conflicts)
    emit(f"resolved {conflicts} conflict{'' if conflicts == 1 else 's'} in {run.workspace.config.rendered}/")
    if command:
        emit(f"Next: {command}")
    return 0
