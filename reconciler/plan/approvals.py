"""`PlanApproval` files: permission for one plan to exceed its budgets until a date."""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.objects import SourceRef
from reconciler.kube.secrets import mask_text
from reconciler.kube.yaml.writer import write
from reconciler.plan.plan import Breach, Change, Plan
from reconciler.policy.approval import GROUP, KIND, Approval, covers

_NAME_LENGTH = 12

_HEADER = b"# Written by `reconciler approve`. The next `reconciler commit` after the merge removes it.\n"


class GitChanges(Struct, frozen=True, kw_only=True):
    """The plan against `rendered/` of a revision that is planned against live clusters: what its approval is about.

    changes: path, former path and desired content of every change.
    """

    digest: str
    changes: frozenset[tuple[str, str, str]]

    @staticmethod
    def of(plan: Plan) -> "GitChanges":
        """Return the changes of a plan against `rendered/`."""
        return GitChanges(digest=plan.approval_digest, changes=frozenset(map(_same, plan.changes)))

    def has(self, change: Change) -> bool:
        """Return whether a change of a live plan leads to the same object; what it was before may have drifted."""
        return _same(change) in self.changes


def _same(change: Change) -> tuple[str, str, str]:
    return change.path, change.moved_from, change.digest_after


class Approvals(Struct, frozen=True, kw_only=True):
    """The approvals that apply to a plan, and their rules.

    approvals: those of the head, each without a verdict. merged: paths of those that the base has already.
    git: of a plan against live clusters: the plan against `rendered/`, which approvals may be for as well.
    folder: where the base keeps approvals, because a change does not choose who approves it. Empty: anywhere.
    """

    approvals: tuple[Approval, ...] = ()
    folder: str = ""
    merged: Collection[str] = ()
    date: str = ""
    git: GitChanges | None = None


NO_APPROVALS = Approvals()


def apply_approvals(plan: Plan, given: Approvals, rest: Collection[str] = ()) -> Plan:
    """Return the plan with its approvals, each with the reason why it does not apply, and the breaches they allow.

    rest: budgets that the plan exceeds even without the changes that the plan against `rendered/` has, too.
    """
    approvals = tuple(
        replace(
            one,
            ignored=_why_ignored(one, plan, given),
            is_merged=one.place.path in given.merged,
            is_for_git=given.git is not None and one.plan == given.git.digest != plan.approval_digest,
        )
        for one in given.approvals
    )
    return approve(plan, approvals, rest)


def approve(plan: Plan, approvals: tuple[Approval, ...], rest: Collection[str] = ()) -> Plan:
    """Return the plan with these approvals: a breach is approved if one of those in force covers it."""
    in_force = [approval for approval in approvals if not approval.ignored]

    def is_approved(breach: Breach) -> bool:
        return any(approves(one, breach) and not (one.is_for_git and breach.budget in rest) for one in in_force)

    breaches = tuple(replace(breach, approved=is_approved(breach)) for breach in plan.breaches)
    return replace(plan, approvals=approvals, breaches=breaches)


def approved_changes(plan: Plan, given: Approvals) -> tuple[Change, ...]:
    """Return the changes that an approval in force covers: all, or those of the plan against `rendered/`."""
    in_force = [approval for approval in plan.approvals if not approval.ignored]
    if any(not approval.is_for_git for approval in in_force):
        return plan.changes
    git = given.git if in_force else None
    return tuple(change for change in plan.changes if git is not None and git.has(change))


def approves(approval: Approval, breach: Breach) -> bool:
    """Return whether an approval that applies to a plan covers one of its breaches."""
    return not approval.budgets or any(covers(name, breach.budget) for name in approval.budgets)


def _why_ignored(approval: Approval, plan: Plan, given: Approvals) -> str:
    if given.folder and not approval.place.path.startswith(f"{given.folder}/"):
        return f"approvals of the base are in {given.folder}/"
    if approval.plan != plan.approval_digest and (given.git is None or approval.plan != given.git.digest):
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
