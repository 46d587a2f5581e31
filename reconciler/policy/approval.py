"""The values of `PlanApproval` files: permission for one plan to exceed its budgets until a date."""

from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.secrets import mask_text
from reconciler.kube.times import is_date
from reconciler.kube.yaml import Document


class Approval(Struct, frozen=True, kw_only=True, rename="camel"):
    """A PlanApproval file: it lets the plan with this approval digest exceed budgets through the day `expires`."""

    place: SourceRef
    plan: str
    reason: str
    expires: str  # YYYY-MM-DD
    budgets: tuple[str, ...] = ()  # empty: all
    ignored: str = ""  # why it does not apply to this plan
    is_merged: bool = False  # the base has it already, so the next commit removes it
    is_for_git: bool = False  # of a plan against live clusters: it covers only what the plan against rendered/ has, too


BUDGETS = (
    "deletes.count",
    "deletes.share",
    "disruption.gpus",
    "disruption.share",
    "disruption.unknown",
    "gpu-quota.count",
    "gpu-quota.share",
    "gpu-quota.unknown",
    "gpu-quota.unlimited",
    "kept",
    "namespaces",
    "settings",
    "exceptions",
    "sources.empty",
)
"""The name of every budget, which approvals use."""

KIND, GROUP = "PlanApproval", "gpureconciler.io"
_RULE = "approval.invalid"


def read_approvals(documents: Sequence[Document]) -> tuple[tuple[Approval, ...], tuple[Problem, ...]]:
    """Read documents that their schema has accepted. One with a problem approves nothing."""
    approvals: list[Approval] = []
    problems: list[Problem] = []
    for document in documents:
        if (document.group, document.kind) == (GROUP, KIND):
            wrong = _problems(document)
            problems += wrong
            if not wrong:
                approvals.append(_approval(document))
        else:
            kind = document.kind or "a document without a kind"
            hint = f"this folder holds {KIND}s; move the file to the folder of its role"
            problems.append(document.problem("layout.kind", ("kind",), f"{kind} is not a {KIND}", hint))
    return tuple(sorted(approvals, key=lambda approval: approval.place)), tuple(problems)


def _approval(document: Document) -> Approval:
    spec = document.data["spec"]
    return Approval(
        place=document.source,
        plan=spec["plan"],
        reason=mask_text(spec["reason"].strip()),
        expires=spec["expires"],
        budgets=tuple(spec.get("budgets", ())),
    )


def _problems(document: Document) -> list[Problem]:
    problems: list[Problem] = []
    spec = document.data["spec"]
    if not is_date(spec["expires"]):
        message = f"{spec['expires'][:40]!r} is not a date"
        problems.append(document.problem(_RULE, ("spec", "expires"), message, "write YYYY-MM-DD"))
    for index, name in enumerate(spec.get("budgets", ())):
        if not is_budget(name):
            message = f"unknown budget {name[:80]!r}"
            problems.append(document.problem(_RULE, ("spec", "budgets", index), message, budget_hint(name)))
    return problems


def is_budget(name: str) -> bool:
    """Return whether a name is that of a budget, `deletes.count`, or of several, `deletes`."""
    return any(covers(name, budget) for budget in BUDGETS)


def budget_hint(name: str) -> str:
    """Return a hint for the name of a budget that does not exist."""
    similar = get_close_matches(name, BUDGETS, n=1)
    return f"did you mean {similar[0]}?" if similar else f"budgets: {', '.join(BUDGETS)}"


def covers(name: str, budget: str) -> bool:
    """Return whether a name is that of a budget, or of its group."""
    return budget == name or budget.startswith(f"{name}.")
