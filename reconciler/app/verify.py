"""Check that `rendered/` is up to date."""

from reconciler.app.plan import plan
from reconciler.app.workspace import Workspace
from reconciler.core.plan import Plan
from reconciler.planning.gate import refuse, refuse_stale


def verify(workspace: Workspace, *, date: str = "") -> Plan:
    """Compare `rendered/` of a revision with what its own sources render to.

    The revision passes if `require_verified` accepts the plan.
    """
    return plan(workspace, date=date, against_head=True).plan


def require_verified(plan: Plan) -> None:
    """Raise `InvalidInput`, `PolicyDenied` or `StalePlan` unless the revision passes. Budgets do not matter here."""
    refuse(plan, budgets=False)
    refuse_stale(plan)
