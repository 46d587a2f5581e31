"""Refusals of plans with their details, for conditions."""

from reconciler.core.plan import Plan
from reconciler.errors import InvalidInput, PolicyDenied, UnsafePlan
from reconciler.planning.gate import refuse


def refuse_in_full(plan: Plan) -> None:
    """Refuse a plan as every verb does. Nothing was shown before, so that errors carry their details."""
    try:
        refuse(plan)
    except InvalidInput as error:
        raise InvalidInput(plan.errors) from error
    except PolicyDenied as error:
        first, more = plan.denials[0], len(plan.denials) - 1
        text = f"{first.place}: {first.message} [{first.rule}]" + (f" and {more} more" if more else "")
        raise PolicyDenied(text, hint=error.hint) from error
    except UnsafePlan as error:
        raise UnsafePlan(error.message.replace(", shown above", ""), hint=error.hint) from error
