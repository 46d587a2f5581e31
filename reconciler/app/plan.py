"""Plan a revision against its base."""

from reconciler.app.workspace import Workspace
from reconciler.outputs.terminal.logs import Log
from reconciler.planning.plan import Planned, plan_tree

_log = Log(__name__)


def plan(workspace: Workspace, *, base: str = "", date: str = "", against_head: bool = False) -> Planned:
    """Compare what the sources of a revision render to with `rendered/` of the base.

    base: revision to compare with, at its merge base (empty: the upstream's default branch, else HEAD).
    date: current date, for exceptions that expire (empty: date of the head commit).
    against_head: compare the revision with its own `rendered/` instead, as `commit` and `verify` do. The base, or else
        the merge base with the upstream's default branch, then only decides how the revision is judged.
    """
    planned = plan_tree(
        workspace.runtime,
        workspace.tree,
        workspace.config,
        base=base,
        date=date,
        against_head=against_head,
    )
    changes, errors = len(planned.plan.changes), len(planned.plan.errors)
    _log.info("plan %s: %d changes, %d errors", planned.plan.digest, changes, errors)
    return planned
