"""Approve a plan that exceeds its budgets."""

from collections.abc import Mapping, Sequence
from datetime import date as Date  # noqa: N812 - `date` is the name of a parameter
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.app.plan import plan
from reconciler.app.workspace import Workspace
from reconciler.core.live.choices import NO_CHOICES, LiveChoices
from reconciler.core.plan import Approval, Plan
from reconciler.core.plan.approvals import approves, budget_hint, is_budget, new_approval
from reconciler.errors import ConfigError
from reconciler.planning.gate import refuse

if TYPE_CHECKING:
    from reconciler.ports.cluster import LiveCluster


def approve_plan(
    workspace: Workspace,
    *,
    reason: str,
    expires: str,
    base: str = "",
    date: str = "",
    budgets: Sequence[str] = (),
    clusters: "Mapping[str, LiveCluster] | None" = None,
    choices: LiveChoices = NO_CHOICES,
) -> tuple[Plan, Approval]:
    """Plan the working tree against its base or live clusters, and return the plan with an approval of it.

    Raises what an approval does not allow (`InvalidInput`, `PolicyDenied`), and `ConfigError` if there is nothing to
    approve.
    """
    for name in budgets:
        if not is_budget(name):
            raise ConfigError(f"--budget: unknown budget {name!r}", hint=budget_hint(name))
    made = plan(workspace, base=base, date=date, clusters=clusters, choices=choices).plan
    refuse(made, budgets=False)
    if any(change.setting == "approvals" for change in made.settings):
        hint = "the base does not read the new folder; first approve a change of spec.budgets.settings to allow"
        raise ConfigError("a change of spec.approvals cannot be approved", hint=hint)
    approval = new_approval(made, workspace.config.approvals, reason=reason, expires=expires, budgets=budgets)
    if not any(approves(approval, breach) for breach in made.unapproved):
        raise ConfigError("nothing to approve", hint=_nothing(made, budgets))
    return made, approval


def _nothing(made: Plan, budgets: Sequence[str]) -> str:
    if made.unapproved:
        return f"the plan does not exceed {', '.join(budgets)}, but {', '.join(one.budget for one in made.unapproved)}"
    if made.breaches:
        files = {approval.place.path for approval in made.approvals if not approval.ignored}
        return f"the plan is approved by {', '.join(sorted(files))}"
    return "the plan is within its budgets"


def last_day(expires: str, days: int, today: str) -> str:
    """Return the last day of an approval: `expires`, or `days` after `today`."""
    if not expires:
        return (Date.fromisoformat(today) + timedelta(days=days)).isoformat()
    try:
        day = Date.fromisoformat(expires).isoformat()
    except ValueError as error:
        raise ConfigError(f"--expires: {expires!r} is not a date", hint="write it as 2026-01-31") from error
    if day < today:
        raise ConfigError(f"--expires: {day} is in the past", hint=f"today is {today}")
    return day
