"""`PlanApproval` files: permission for one plan to exceed its budgets until a date."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date as Date  # noqa: N812 - `date` is the name of a field

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.documents import Document
from reconciler.core.documents.writer import write
from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.plan.plan import BUDGETS, Approval, Breach, Plan
from reconciler.core.problems import Problem
from reconciler.core.secrets import mask_text

KIND, GROUP = "PlanApproval", "gpureconciler.io"
_NAME_LENGTH = 12
_HEADER = b"# Written by `reconciler approve`. The next `reconciler commit` after the merge removes it.\n"


class Approvals(Struct, frozen=True, kw_only=True):
    """What decides on the approvals of a plan, besides the plan.

    approvals: those of the head, each without a verdict. merged: paths of those that the base has already.
    folder: where the base keeps approvals, because a change does not choose who approves it. Empty: anywhere.
    """

    approvals: tuple[Approval, ...] = ()
    folder: str = ""
    merged: Collection[str] = ()
    date: str = ""


NO_APPROVALS = Approvals()


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
            problems.append(_invalid(document, ("kind",), f"{kind} is not a {KIND}", hint, rule="layout.kind"))
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
    if not _is_date(spec["expires"]):
        message = f"{spec['expires'][:40]!r} is not a date"
        problems.append(_invalid(document, ("spec", "expires"), message, "write YYYY-MM-DD"))
    for index, name in enumerate(spec.get("budgets", ())):
        if not is_budget(name):
            problems.append(
                _invalid(document, ("spec", "budgets", index), f"unknown budget {name[:80]!r}", budget_hint(name))
            )
    return problems


def _invalid(
    document: Document, path: FieldPath, message: str, hint: str, *, rule: str = "approval.invalid"
) -> Problem:
    return Problem(rule=rule, place=document.at(path), field=format_path(path), message=message, hint=hint)


def _is_date(text: str) -> bool:
    try:
        return Date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def is_budget(name: str) -> bool:
    """Return whether a name is that of a budget, `deletes.count`, or of several, `deletes`."""
    return any(covers(name, budget) for budget in BUDGETS)


def budget_hint(name: str) -> str:
    """Return a hint for the name of a budget that does not exist."""
    from difflib import get_close_matches  # noqa: PLC0415 - only used for problems

    similar = get_close_matches(name, BUDGETS, n=1)
    return f"did you mean {similar[0]}?" if similar else f"budgets: {', '.join(BUDGETS)}"


def covers(name: str, budget: str) -> bool:
    """Return whether a name is that of a budget, or of its group."""
    return budget == name or budget.startswith(f"{name}.")


def apply_approvals(plan: Plan, given: Approvals) -> Plan:
    """Return the plan with its approvals, each with the reason why it does not apply, and the breaches they allow."""
    approvals = tuple(
        replace(one, ignored=_why_ignored(one, plan, given), is_merged=one.place.path in given.merged)
        for one in given.approvals
    )
    return approve(plan, approvals)


def approve(plan: Plan, approvals: tuple[Approval, ...]) -> Plan:
    """Return the plan with these approvals: a breach is approved if one of those in force covers it."""
    in_force = [approval for approval in approvals if not approval.ignored]
    breaches = tuple(
        replace(breach, approved=any(approves(one, breach) for one in in_force)) for breach in plan.breaches
    )
    return replace(plan, approvals=approvals, breaches=breaches)


def approves(approval: Approval, breach: Breach) -> bool:
    """Return whether an approval that applies to a plan covers one of its breaches."""
    return not approval.budgets or any(covers(name, breach.budget) for name in approval.budgets)


def _why_ignored(approval: Approval, plan: Plan, given: Approvals) -> str:
    if given.folder and not approval.place.path.startswith(f"{given.folder}/"):
        return f"approvals of the base are in {given.folder}/"
    if approval.plan != plan.approval_digest:
        return (
            f"approves {short_digest(approval.plan)}, but the approval digest of this plan is "
            f"{short_digest(plan.approval_digest)}"
        )
    if given.date > approval.expires:
        return f"expired on {approval.expires} (the plan's date is {given.date})"
    return ""


def join_approvals(own: Iterable[Approval], whole: Iterable[Approval]) -> tuple[Approval, ...]:
    """Return the approvals of one head for two plans of it, each in force if it is for one of the two."""
    return tuple(other if one.ignored else one for one, other in zip(own, whole, strict=True))


def spent_files(plan: Plan) -> tuple[str, ...]:
    """Return the paths of the approvals to remove: the base has them, so this is the last plan that can use them."""
    return tuple(sorted({approval.place.path for approval in plan.approvals if approval.is_merged}))


def needs_united_approval(plan: Plan) -> str:
    """Return why merged approvals do not let the plan exceed its budgets; empty if there are none.

    Each is for one change; a plan of several changes, none of which was rendered yet, has another digest.
    """
    void = sorted({one.place.path for one in plan.approvals if one.is_merged and one.ignored})
    if not void or not plan.unapproved:
        return ""
    each = f"{void[0]} is for one change" if len(void) == 1 else f"{', '.join(void)} are for one change each"
    return f"{each}; changes that were merged without a `reconciler commit` between them need one approval for all"


def short_digest(digest: str) -> str:
    """Return a digest as messages show it: `sha256:3f9c21ab04d2`."""
    scheme, _, value = digest.partition(":")
    return f"{scheme}:{value[:_NAME_LENGTH]}"


def new_approval(plan: Plan, folder: str, *, reason: str, expires: str, budgets: Sequence[str] = ()) -> Approval:
    """Return an approval of a plan, with the path of its file."""
    name = plan.approval_digest.partition(":")[2][:_NAME_LENGTH]
    place = SourceRef(path=f"{folder}/{name}.yaml")
    return Approval(
        place=place, plan=plan.approval_digest, reason=mask_text(reason), expires=expires, budgets=tuple(budgets)
    )


def write_approval(approval: Approval) -> bytes:
    """Return the file of an approval."""
    name = approval.place.path.rpartition("/")[2].removesuffix(".yaml")
    spec = {"plan": approval.plan, "reason": approval.reason, "expires": approval.expires}
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND, "metadata": {"name": name}}
    return _HEADER + write({**body, "spec": spec | ({"budgets": list(approval.budgets)} if approval.budgets else {})})
