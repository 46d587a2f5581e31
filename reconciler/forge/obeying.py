"""Commands in comments, and approvals of code owners: what they do to the branch of a change request."""

import datetime as dt
from collections.abc import Callable, Collection

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError, ReconcilerError
from reconciler.forge import ChangeRequest, Forge
from reconciler.forge.branches import Remote
from reconciler.forge.orders import Order, answer, open_orders
from reconciler.forge.owners import lacking, read_owners
from reconciler.forge.reviewing import review, shown_at
from reconciler.kube.secrets import mask_text
from reconciler.plan import opening, use_cases
from reconciler.plan.approvals import write_approval
from reconciler.plan.outputs.commit import ENGINE, commit
from reconciler.plan.outputs.explain import render_explain
from reconciler.plan.outputs.markdown import code, fence, prose
from reconciler.repo.config import Config
from reconciler.repo.config.forge import ForgeSettings
from reconciler.version import __version__

_DAYS = 7
_APPROVED_BY = "Reconciler-Approved-By"
_MAX_LINES = 200
_MAX_FILES = 5  # in one message


class Obeyed(Struct, frozen=True, kw_only=True, eq=False):
    """A change request, the commit that judges it with its settings, and where its branch is.

    open_at: opens the repository at a commit, to be compared with `base`. branch: the one to commit to in a mirror;
    None is the one that is checked out.
    """

    open_at: Callable[[str], opening.Run]
    forge: Forge
    request: ChangeRequest
    base: str
    rules: Config
    remote: Remote
    scope: str = "default"
    branch: str | None = None

    def answer(self) -> list[str]:
        """Carry out the commands that nobody answered, and record approving reviews; return what was done, in lines."""
        forge, settings = self.forge, self.rules.forge or ForgeSettings()
        orders = list(open_orders(forge, self.request, settings.commands)) if settings.commands else []
        done = answer(forge, self.request, orders, self.carry_out)
        told = [f"carried out /{order.name} of {order.author}" for order in done]
        reviewed = self.approve_reviewed() if settings.owners_approve and not done else ""
        return [*told, *filter(None, [reviewed])]

    def carry_out(self, order: Order) -> str:
        """Do what a command says, and return the answer."""
        try:
            match order.name:
                case "plan":
                    return f"Planned again: {self.plan()}"
                case "approve":
                    return self._approve(order)
            return self._explain(order.rest)
        except ReconcilerError as error:
            return f"{code(f'/{order.name}')} failed: {prose(mask_text(str(error)))}"

    def approve_reviewed(self) -> str:
        """Approve a plan over budget that code owners approved by their reviews; return what was done, if anything."""
        people = self._reviewers()
        if not people or self._lacking(people):
            return ""
        run = self.open_at(self.request.head)
        plan = use_cases.plan(run.workspace, base=self.base, date=run.settings.date).plan
        if not plan.unapproved or plan.errors or plan.denials:
            return ""
        return self._record("approved by review", ", ".join(sorted(people)))

    def plan(self) -> str:
        """Plan the newest commit, and return what its status says, in Markdown."""
        run = self.open_at(self.request.head)
        planned = use_cases.plan(run.workspace, base=self.base, date=run.settings.date)
        done = review(self.forge, self.request, planned.plan, scope=self.scope)
        return "the branch has newer commits." if done.status is None else f"{prose(done.status.summary)}."

    def _approve(self, order: Order) -> str:
        if not order.rest:
            return "Say why: `/approve REASON`."
        if order.written <= shown_at(self.forge, self.request):
            return (
                f"{code('/approve')} was not carried out: the comment was edited, or is not newer than the comment "
                f"with the plan of {code(self.request.head[:12])}: {self.plan()} Read it, and write a new comment."
            )
        if missing := self._lacking({order.author, *self._reviewers()}):
            shown = ", ".join(map(code, missing[:_MAX_FILES])) + (" …" if len(missing) > _MAX_FILES else "")
            return (
                f"{code('/approve')} was not carried out: neither {prose(order.author)} nor who else approved the "
                f"newest commit owns {shown}, by CODEOWNERS of the base."
            )
        return self._record(order.rest, order.author)

    def _record(self, reason: str, people: str) -> str:
        """Commit the approval of exactly this plan to the branch, as `reconciler approve` writes it, and plan again."""
        run = self.open_at(self.request.head)
        repository, settings = run.workspace.repository, run.settings
        until = use_cases.last_day("", _DAYS, settings.date or dt.datetime.now(dt.UTC).date().isoformat())
        _, approval = use_cases.approve_plan(
            run.workspace,
            reason=f"{reason} ({people}, #{self.request.number})",
            expires=until,
            base=self.base,
            date=settings.date,
        )
        made = commit(
            repository,
            files={approval.place.path: write_approval(approval)},
            message=f"Approve the plan of #{self.request.number}\n\n{reason}",
            trailers={_APPROVED_BY: people, ENGINE: __version__},
            branch=self.branch,
            expected_head=self.request.head,
        )
        if made is None:
            return "The plan has this approval already."
        self.remote.push(self.request.branch, made.oid, expected=self.request.head)
        after = replace(self, request=replace(self.request, head=made.oid))
        told = f"Approved through {approval.expires}: {code(approval.place.path)} in {code(made.oid[:12])}"
        return f"{told}. Planned again: {after.plan()}"

    def _reviewers(self) -> set[str]:
        """Return who may push, and approved the newest commit of somebody else."""
        approved = {one.author for one in self.forge.reviews(self.request.number) if one.commit == self.request.head}
        return {person for person in approved - {self.request.author} if self.forge.may_write(person)}

    def _lacking(self, people: Collection[str]) -> tuple[str, ...]:
        """Return the changed files whose owners are not among people; what is rendered follows from the others.

        Files are those that the plan is about, and those that the merge changes in the base: with several merge bases,
        or where the base moved folders, these are others. Raises `StalePlan` if the merge has conflicts.
        """
        run = self.open_at(self.request.head)
        whole, prefix = run.workspace.repository.whole(), run.workspace.repository.prefix
        start = whole.merge_base(self.base, self.request.head)
        if start is None:
            raise ConfigError("the change request has no commit in common with its base", hint="rebase it")
        approvals, rendered = (f"{prefix}{folder}/" for folder in (self.rules.approvals, self.rules.rendered))
        merged = whole.merge(self.base, self.request.head)
        changed = {**whole.changed(start, self.request.head), **whole.changed(self.base, merged)}
        paths = [path for path in sorted(changed) if not path.startswith((approvals, rendered))]
        default = f"{approvals}approval.yaml"
        owners = read_owners(whole, self.base, self.forge.kind)
        return lacking(owners, paths or [default], default=default, people=people, owns=self.forge.owns)

    def _explain(self, rest: str) -> str:
        name, _, field = rest.partition(" ")
        workspace = self.open_at(self.request.head).workspace
        explanation = use_cases.explain(workspace, name, field.strip(), base=self.base)
        text = render_explain(explanation, width=120, unicode=False)
        return fence(text.splitlines()[:_MAX_LINES], language="text")
