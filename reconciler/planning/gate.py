"""A plan in; silence, or the documented refusal: every verb that shows a plan passes it through here afterwards."""

from reconciler.core.plan import Plan
from reconciler.core.plan.digest import acknowledgement
from reconciler.errors import InvalidInput, PolicyDenied, StalePlan, UnsafePlan


def refuse(plan: Plan, *, budgets: bool = True) -> None:
    """Raise what forbids the plan: invalid input first, then policy, then budgets that nobody acknowledged."""
    if plan.errors:
        raise InvalidInput(plan.errors, already_shown=True)
    if plan.denials:
        raise PolicyDenied(
            f"{_counted(len(plan.denials), 'denial')} by policy, shown above",
            hint="change what is denied, or add a PolicyException with an expiry date",
        )
    if budgets and plan.breaches and not plan.acknowledged:
        raise UnsafePlan(
            "over budget: " + "; ".join(breach.message for breach in plan.breaches),
            hint=f"if exactly this plan is meant: --acknowledge {acknowledgement(plan.digest)}",
        )


def refuse_stale(plan: Plan) -> None:
    """Raise `StalePlan` where the rendered folder is not what the sources mean."""
    if not plan.is_empty:
        raise StalePlan(
            f"rendered/ is not what the sources mean in {_counted(len(plan.changes), 'file')}",
            hint="run `reconciler commit` on this branch; never edit rendered/ by hand",
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
