"""Check that `rendered/` is up to date."""

from reconciler.app.commit import plan_commit
from reconciler.app.workspace import Workspace
from reconciler.core.plan import Plan
from reconciler.outputs.commit import engine_of
from reconciler.planning.gate import refuse, refuse_stale, refuse_unverified


def verify(workspace: Workspace, *, base: str = "", date: str = "") -> Plan:
    """Compare `rendered/` of a revision with what its own sources render to, judged by the rules of `base` as well.

    The revision passes if `require_verified` accepts the plan.
    """
    return plan_commit(workspace, base=base, date=date).plan


def require_verified(plan: Plan, *, rendered_by: str = "") -> None:
    """Raise `InvalidInput`, `PolicyDenied` or `StalePlan` unless the revision passes.

    Of budgets only those of kept objects and of settings matter.
    """
    refuse(plan, budgets=False)
    refuse_stale(plan, rendered_by=rendered_by)
    refuse_unverified(plan)


def rendered_by(workspace: Workspace) -> str:
    """Return the version of the engine that made the last commit of `rendered/`; empty if that commit names none."""
    repository, tip = workspace.runtime.repository, workspace.tree.tip
    last = repository.last_change(tip.oid, workspace.config.rendered) if tip else None
    return engine_of(repository.resolve(last).message) if last else ""
