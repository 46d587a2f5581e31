"""Commit what the sources of a revision render to."""

from reconciler.app.workspace import Workspace
from reconciler.core.plan import Plan
from reconciler.errors import ConfigError, StalePlan
from reconciler.outputs.commit import ACKNOWLEDGED, ENGINE, EVIDENCE_DIGEST, PLAN_DIGEST, SOURCE_COMMIT, Committed
from reconciler.outputs.commit import commit as commit_files
from reconciler.outputs.summary import commit_message
from reconciler.outputs.terminal.logs import Log
from reconciler.planning.gate import refuse
from reconciler.planning.plan import Planned
from reconciler.revision.files import read_paths

_log = Log(__name__)


def commit(
    workspace: Workspace, planned: Planned, *, acknowledge: str = "", branch: str | None = None, message: str = ""
) -> Committed | None:
    """Write the changes of a plan (made with `against_head`) as one commit, on the checked-out branch or on `branch`.

    Returns None if there is nothing to commit. Raises what forbids the plan (`InvalidInput`, `PolicyDenied`,
    `UnsafePlan`), and `ConfigError` for a plan of the working tree.
    """
    plan, source = planned.plan, workspace.tree.commit
    refuse(plan)
    if source is None:
        raise ConfigError("a plan of the working tree cannot be committed", hint="plan a revision, such as HEAD")
    trailers = {
        PLAN_DIGEST: plan.digest,
        SOURCE_COMMIT: source.oid,
        EVIDENCE_DIGEST: plan.evidence,
        ENGINE: plan.engine,
    }
    if plan.breaches and plan.acknowledged:
        trailers[ACKNOWLEDGED] = acknowledge
    committed = commit_files(
        workspace.runtime.repository,
        files=planned.contents(),
        message=message or commit_message(plan),
        trailers=trailers,
        branch=branch,
        expected_head=source.oid,
    )
    _log.info("commit %s of plan %s", committed.oid if committed else "none", plan.digest)
    return committed


def require_same(saved: Plan, current: Plan) -> None:
    """Raise `StalePlan` unless a saved plan is still the plan of the revision."""
    if saved.digest != current.digest:
        raise StalePlan(
            f"the plan of HEAD is {current.digest}, but the saved plan is {saved.digest}",
            hint="review the new plan: reconciler plan --revision HEAD --out plan.json, with the same --cluster and "
            "--date as here",
        )


def uncommitted_sources(workspace: Workspace) -> tuple[str, ...]:
    """Return the paths of files with uncommitted changes that a plan reads, without `rendered/`."""
    commit = workspace.tree.commit
    roots = tuple(root for root in read_paths(workspace.config) if root != workspace.config.rendered)
    changed = workspace.runtime.repository.changed_since(commit.oid if commit else None)
    return tuple(sorted(path for path in changed if path.startswith(roots)))
