"""What commands in comments do in a checkout of a change request's branch."""

import datetime as dt
from collections.abc import Mapping

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.forge import ChangeRequest, Forge
from reconciler.forge.orders import Order
from reconciler.forge.reviewing import review
from reconciler.kube.secrets import mask_text
from reconciler.plan import opening, use_cases
from reconciler.plan.approvals import write_approval
from reconciler.plan.outputs.commit import ENGINE, commit
from reconciler.plan.outputs.explain import render_explain
from reconciler.plan.outputs.markdown import code, fence, prose
from reconciler.repo import checkout
from reconciler.version import __version__

_DAYS = 7
_APPROVED_BY = "Reconciler-Approved-By"
_MAX_LINES = 200


class Obeyed(Struct, frozen=True, kw_only=True, eq=False):
    """The checkout, the change request and the commit that judges it."""

    run: opening.Run
    environ: Mapping[str, str]
    forge: Forge
    request: ChangeRequest
    base: str

    def carry_out(self, order: Order) -> str:
        """Do what a command says, and return the answer."""
        try:
            match order.name:
                case "plan":
                    return self._plan()
                case "approve":
                    return self._approve(order)
            return self._explain(order.rest)
        except ReconcilerError as error:
            return f"{code(f'/{order.name}')} failed: {prose(mask_text(str(error)))}"

    def _plan(self) -> str:
        planned = use_cases.plan(self.run.workspace, base=self.base, date=self.run.settings.date)
        done = review(self.forge, self.request, planned.plan)
        return "Planned again." if done.status is None else f"Planned again: {prose(done.status.summary)}."

    def _approve(self, order: Order) -> str:
        """Commit the approval of exactly this plan to the branch, as `reconciler approve` writes it."""
        if not order.rest:
            return "Say why: `/approve REASON`."
        settings, workspace = self.run.settings, self.run.workspace
        until = use_cases.last_day("", _DAYS, settings.date or dt.datetime.now(dt.UTC).date().isoformat())
        reason = f"{order.rest} ({order.author}, #{self.request.number})"
        _, approval = use_cases.approve_plan(
            workspace, reason=reason, expires=until, base=self.base, date=settings.date
        )
        made = commit(
            workspace.repository,
            files={approval.place.path: write_approval(approval)},
            message=f"Approve the plan of #{self.request.number}\n\n{order.rest}",
            trailers={_APPROVED_BY: order.author, ENGINE: __version__},
            expected_head=self.request.head,
        )
        if made is None:
            return "The plan has this approval already."
        remote = checkout.CheckoutRemote(workspace.repository.root)
        remote.push(self.request.branch, made.oid, expected=self.request.head)
        return f"Approved through {approval.expires}: {code(approval.place.path)} in {code(made.oid[:12])}."

    def _explain(self, rest: str) -> str:
        name, _, field = rest.partition(" ")
        explanation = use_cases.explain(self.run.workspace, name, field.strip(), base=self.base)
        text = render_explain(explanation, width=120, unicode=False)
        return fence(text.splitlines()[:_MAX_LINES], language="text")
