"""Plan a revision against its base."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconciler.app.workspace import Workspace
from reconciler.core.live.choices import NO_CHOICES, LiveChoices
from reconciler.outputs.terminal.logs import Log
from reconciler.planning.plan import Planned, plan_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.core.plan import Plan
    from reconciler.ports.cluster import LiveCluster

_log = Log(__name__)


def plan(
    workspace: Workspace,
    *,
    base: str = "",
    date: str = "",
    against_head: bool = False,
    clusters: "Mapping[str, LiveCluster] | None" = None,
    choices: LiveChoices = NO_CHOICES,
    saved: "Plan | None" = None,
) -> Planned:
    """Compare what the sources of a revision render to with `rendered/` of the base, or with live clusters.

    base: revision to compare with, at its merge base (empty: the upstream's default branch, else HEAD).
    date: current date, for exceptions that expire (empty: date of the head commit).
    against_head: compare the revision with its own `rendered/` instead, as `commit` and `verify` do. The base, or else
        the merge base with the upstream's default branch, then only decides how the revision is judged.
    clusters: live clusters to compare with instead, by name. Nothing is stored there.
    choices: decisions about live objects: which to adopt, which fields are contested.
    saved: the plan that this one repeats, whose creations have details, and were accepted by the servers in a dry run.
    """
    if saved is not None:
        from reconciler.planning.live.creations import reviewed_creations  # noqa: PLC0415 - only to apply

        choices = replace(choices, reviewed=reviewed_creations(saved, workspace.config.rendered))
    planned = plan_tree(
        workspace.runtime,
        workspace.tree,
        workspace.config,
        base=base,
        date=date,
        against_head=against_head,
        clusters=clusters,
        choices=choices,
        saved=saved,
    )
    changes, errors = len(planned.plan.changes), len(planned.plan.errors)
    _log.info("plan %s: %d changes, %d errors", planned.plan.digest, changes, errors)
    return planned
