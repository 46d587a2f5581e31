"""Commit what the sources of a revision render to."""

from msgspec.structs import replace

from reconciler.app.plan import plan
from reconciler.app.workspace import Workspace
from reconciler.core.plan import Plan
from reconciler.core.plan.approvals import approve, join_approvals, spent_files
from reconciler.errors import ConfigError, StalePlan
from reconciler.outputs.commit import APPROVAL, ENGINE, EVIDENCE_DIGEST, PLAN_DIGEST, SOURCE_COMMIT, Committed
from reconciler.outputs.commit import commit as commit_files
from reconciler.outputs.summary import commit_message
from reconciler.outputs.terminal.logs import Log
from reconciler.planning.gate import refuse
from reconciler.planning.plan import Planned

_log = Log(__name__)


def plan_commit(workspace: Workspace, *, base: str = "", date: str = "") -> Planned:
    """Plan what `rendered/` of a revision lacks. An approval counts if it is for this plan, or for that of the branch.

    The plan of the branch compares it with `base`. It differs if `rendered/` was committed before on this branch.
    """
    planned = plan(workspace, base=base, date=date, against_head=True)
    if all(approval.is_merged or not approval.ignored for approval in planned.plan.approvals):
        return planned
    whole = plan(workspace, base=base, date=date).plan
    approvals = join_approvals(planned.plan.approvals, whole.approvals)
    return replace(planned, plan=approve(planned.plan, approvals))


def commit(workspace: Workspace, planned: Planned, *, branch: str | None = None, message: str = "") -> Committed | None:
    """Write the changes of a plan (of `plan_commit`) as one commit, on the checked-out branch or on `branch`.

    Approvals that the base has are removed with them. Returns None if there is nothing to commit. Raises what forbids
    the plan (`InvalidInput`, `PolicyDenied`, `UnsafePlan`), and `ConfigError` for a plan of the working tree.
    """
    made, source = planned.plan, workspace.tree.commit
    refuse(made)
    if source is None:
        raise ConfigError("a plan of the working tree cannot be committed", hint="plan a revision, such as HEAD")
    trailers = {
        PLAN_DIGEST: made.digest,
        SOURCE_COMMIT: source.oid,
        EVIDENCE_DIGEST: made.evidence,
        ENGINE: made.engine,
    }
    if made.breaches:
        used = {approval.place.path for approval in made.approvals if not approval.ignored}
        trailers[APPROVAL] = ", ".join(sorted(used))
    files = planned.contents()
    if files:
        files |= dict.fromkeys(spent_files(made))
    committed = commit_files(
        workspace.runtime.repository,
        files=files,
        message=message or commit_message(made),
        trailers=trailers,
        branch=branch,
        expected_head=source.oid,
    )
    _log.info("commit %s of plan %s", committed.oid if committed else "none", made.digest)
    return committed


def require_same(saved: Plan, current: Plan) -> None:
    """Raise `StalePlan` unless a saved plan is still the plan of the revision."""
    if saved.digest != current.digest:
        raise StalePlan(
            f"the plan of HEAD is {current.digest}, but the saved plan is {saved.digest}",
            hint="review the new plan: reconciler plan --revision HEAD --out plan.json, with the same --cluster and "
            "--date as here",
        )
