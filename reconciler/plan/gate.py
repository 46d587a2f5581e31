"""Refuse a plan that must not be carried out. Every verb calls this after it has shown the plan."""

from collections.abc import Sequence

from reconciler.errors import InvalidInput, OutsideError, PolicyDenied, StalePlan, UnsafePlan
from reconciler.kube.problems import Problem
from reconciler.kube.values import plural
from reconciler.plan import Breach, Plan
from reconciler.plan.approvals import needs_united_approval
from reconciler.plan.budgets import KEPT, SETTINGS
from reconciler.plan.replacements import ABOUT_CHANGES, REFUSED, UNKNOWN

_MAX_FILES = 5  # in one message


def refuse(plan: Plan, *, budgets: bool = True, in_part: bool = False) -> None:
    """Raise what forbids the plan: input, policy, refused changes, missing answers, edits of `rendered/`, budgets.

    in_part: what concerns single objects of a live plan does not forbid the rest of it.
    """
    errors = whole_errors(plan) if in_part else plan.errors
    refused = tuple(problem for problem in errors if problem.rule == REFUSED)
    unknown = tuple(problem for problem in errors if problem.rule == UNKNOWN)
    if len(errors) > len(refused) + len(unknown):
        denials = f"and {plural(len(plan.denials), 'policy denial')} " if plan.denials else ""
        raise InvalidInput(errors, already_shown=True, where=f"{denials}in the repository")
    if plan.denials:
        raise PolicyDenied(
            f"{plural(len(plan.denials), 'policy denial')}, shown above",
            hint="change what is denied, or add a PolicyException with an expiry date",
        )
    if refused:
        choice = "give the objects other names" if plan.review else "choose with onImmutableChange: replace or keep"
        raise UnsafePlan(
            f"{plural(len(refused), 'change')} of immutable fields, shown above, which the API server refuses",
            hint=f"undo them, or {choice}",
        )
    if unknown:
        raise OutsideError(
            f"{plural(len(unknown), 'answer')} of the cluster missing, shown above: the plan may be incomplete",
            hint="plan again when the cluster can answer",
        )
    if plan.edited:
        shown = ", ".join(plan.edited[:_MAX_FILES]) + (" …" if len(plan.edited) > _MAX_FILES else "")
        raise StalePlan(
            f"rendered/ differs from what the sources render in {plural(len(plan.edited), 'file')}: {shown}",
            hint="run `reconciler commit` on this branch; do not edit rendered/ by hand",
        )
    if budgets:
        _refuse_breaches(plan, plan.unapproved)


def whole_errors(plan: Plan) -> tuple[Problem, ...]:
    """Return the errors that forbid a whole plan: not those of single objects, if it is known which are ours."""
    if not plan.is_live or any(state.is_blind for state in plan.clusters):
        return plan.errors
    return tuple(problem for problem in plan.errors if problem.rule not in ABOUT_CHANGES)


def refuse_unverified(plan: Plan) -> None:
    """Raise `UnsafePlan` if kept objects are gone, or settings are weaker than in the base, without an approval.

    `rendered/` that matches its sources says nothing then: other settings may look at another folder or cluster.
    """
    _refuse_breaches(plan, [breach for breach in plan.unapproved if breach.budget in (KEPT, SETTINGS)])


def _refuse_breaches(plan: Plan, breaches: Sequence[Breach]) -> None:
    if not breaches:
        return
    hint = "make the change smaller, or approve exactly this plan with `reconciler approve` and commit the file"
    if united := needs_united_approval(plan):
        hint = f"{united}: run `reconciler approve` and commit the file"
    raise UnsafePlan("over budget: " + "; ".join(breach.message for breach in breaches), hint=hint)


def refuse_stale(plan: Plan, *, rendered_by: str = "") -> None:
    """Raise `StalePlan` if the rendered folder is not up to date with the sources.

    rendered_by: version of the engine that wrote the folder, if that is known. Another version may render differently.
    """
    if plan.is_empty:
        return
    message = f"rendered/ is out of date in {plural(len(plan.changes), 'file')}"
    if rendered_by and rendered_by != plan.engine:
        raise StalePlan(
            f"{message}; it was rendered by {rendered_by}, and this is {plan.engine}",
            hint="install the version that rendered it (pip install -r requirements.txt), or upgrade: pin this version "
            "in requirements.txt, run `reconciler commit`, and review the plan",
        )
    raise StalePlan(message, hint="run `reconciler commit` on this branch; do not edit rendered/ by hand")
