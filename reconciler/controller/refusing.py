"""Refusals of plans with their details, for conditions."""

from reconciler.errors import InvalidInput, OutsideError, PolicyDenied, UnsafePlan
from reconciler.plan import Plan
from reconciler.plan.gate import refuse, whole_errors
from reconciler.plan.replacements import REFUSED, UNKNOWN


def refuse_in_full(plan: Plan, *, in_part: bool = False) -> None:
    """Refuse a plan as every verb does. Nothing was shown before, so that errors carry their details.

    in_part: what concerns single objects of a live plan does not forbid the rest of it.
    """
    try:
        refuse(plan, in_part=in_part)
    except InvalidInput as error:
        raise InvalidInput(whole_errors(plan) if in_part else plan.errors) from error
    except PolicyDenied as error:
        first, more = plan.denials[0], len(plan.denials) - 1
        text = f"{first.place}: {first.message} [{first.rule}]" + (f" and {more} more" if more else "")
        raise PolicyDenied(text, hint=error.hint) from error
    except UnsafePlan as error:
        raise UnsafePlan(_in_full(plan, error.message, REFUSED), hint=error.hint) from error
    except OutsideError as error:
        raise OutsideError(_in_full(plan, error.message, UNKNOWN), hint=error.hint) from error


def _in_full(plan: Plan, message: str, rule: str) -> str:
    """Return a message with the first problem of a rule, which another verb has shown before."""
    told = message.replace(", shown above", "")
    problems = [problem for problem in plan.errors if problem.rule == rule]
    return f"{told}: {problems[0].message}" if told != message and problems else told
