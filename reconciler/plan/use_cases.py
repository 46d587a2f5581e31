"""The use cases about plans: each takes an open repository, returns values and prints nothing."""

from collections.abc import Mapping, Sequence
from datetime import date as Date  # noqa: N812 - `date` is the name of a parameter
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.console.logs import Log
from reconciler.errors import ConfigError, InvalidInput, StalePlan, UnsafePlan, printable
from reconciler.index.build import CompiledRevision
from reconciler.index.renderer import Renderer
from reconciler.kinds.aspects import Holds
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.schemas import Catalogue
from reconciler.kube.secrets import SECRET_VALUES, masked_secret
from reconciler.kube.yaml import write
from reconciler.plan import Approval, Plan
from reconciler.plan import explain as explaining
from reconciler.plan.approvals import approve, approves, join_approvals, new_approval, spent_files
from reconciler.plan.explanation import Explanation
from reconciler.plan.findings import PlanFindings, fold_consequences
from reconciler.plan.gate import refuse, refuse_stale, refuse_unverified
from reconciler.plan.live.choices import NO_CHOICES, LiveChoices
from reconciler.plan.outputs.commit import (
    APPROVAL,
    ENGINE,
    EVIDENCE_DIGEST,
    PLAN_DIGEST,
    SOURCE_COMMIT,
    Committed,
    engine_of,
)
from reconciler.plan.outputs.commit import commit as commit_files
from reconciler.plan.outputs.summary import commit_message
from reconciler.plan.places import lead_back
from reconciler.plan.planning import Planned, lint_tree, plan_tree
from reconciler.plan.workspace import Workspace
from reconciler.policy.approval import budget_hint, is_budget
from reconciler.repo.config import Config
from reconciler.repo.files import read_paths
from reconciler.repo.port import Conflicts

if TYPE_CHECKING:
    from reconciler.kube.client.port import LiveCluster


# Changes of the working tree that a plan of HEAD does not include.


def is_source(config: Config, path: str) -> bool:
    """Return whether a plan reads a file as input: sources, policies, evidence and settings, without `rendered/`."""
    roots = [root for root in read_paths(config) if root != config.rendered]
    if not roots:
        return not path.startswith(f"{config.rendered}/")
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def uncommitted_changes(workspace: Workspace) -> tuple[str, ...]:
    """Return a sentence for each file whose content differs from the commit that the workspace is open at."""
    commit = workspace.tree.commit
    changed = workspace.repository.changed_since(commit.oid if commit else None)
    paths = sorted(path for path in changed if is_source(workspace.config, path))
    return tuple(_sentence(path, is_deleted=changed[path] is None) for path in paths)


def _sentence(path: str, *, is_deleted: bool) -> str:
    if is_deleted:
        return f"the deletion of {printable(path)} is not committed, so it is not included"
    return f"{printable(path)} has changes that are not committed, so they are not included"


# Check a revision without comparing it.


def lint(workspace: Workspace, *, date: str = "") -> Plan:
    """Check all files of a revision; the result is a plan without changes, with all problems and verdicts."""
    return lint_tree(workspace.runtime, workspace.tree, workspace.config, date=date)


# Plan a revision against its base.


_log = Log(__name__)


def plan(
    workspace: Workspace,
    *,
    base: str = "",
    date: str = "",
    against_head: bool = False,
    clusters: "Mapping[str, LiveCluster] | None" = None,
    choices: LiveChoices = NO_CHOICES,
    saved: "Plan | None" = None,
) -> Planned:
    """Compare what the sources of a revision render to with `rendered/` of the base, or with live clusters.

    base: revision to compare with, at its merge base (empty: the upstream's default branch, else HEAD).
    date: current date, for exceptions that expire (empty: date of the head commit).
    against_head: compare the revision with its own `rendered/` instead, as `commit` and `verify` do. The base, or else
        the merge base with the upstream's default branch, then only decides how the revision is judged.
    clusters: live clusters to compare with instead, by name. Nothing is stored there.
    choices: decisions about live objects: which to adopt, which fields are contested.
    saved: the plan that this one repeats, whose creations have details, and were accepted by the servers in a dry run.
    """
    if saved is not None:
        from reconciler.plan.live.creations import reviewed_creations  # noqa: PLC0415 - only to apply

        choices = replace(choices, reviewed=reviewed_creations(saved, workspace.config.rendered))
    planned = plan_tree(
        workspace.runtime,
        workspace.tree,
        workspace.config,
        base=base,
        date=date,
        against_head=against_head,
        clusters=clusters,
        choices=choices,
        saved=saved,
    )
    changes, errors = len(planned.plan.changes), len(planned.plan.errors)
    _log.info("plan %s: %d changes, %d errors", planned.plan.digest, changes, errors)
    return planned


# Render a revision without Git.


def render(workspace: Workspace) -> dict[str, bytes]:
    """Return all manifests by path in the repository. Raises `InvalidInput` if a source file has errors."""
    return _render(workspace)[0]


def render_masked(workspace: Workspace) -> tuple[dict[str, bytes], int]:
    """Do the same with masks in place of the values of Secrets, and count those Secrets."""
    contents, renderer, index = _render(workspace)
    masked = {}
    for path, summary in index.summaries(sorted(index.desired)).items():
        if workspace.runtime.engine.kinds.find(summary.group, summary.kind).holds is Holds.SECRETS:
            body = renderer.object(path).manifest.body
            if any(body.get(field) for field in SECRET_VALUES):
                masked[f"{workspace.config.rendered}/{path}"] = write(masked_secret(body))
    return contents | masked, len(masked)


def _render(workspace: Workspace) -> tuple[dict[str, bytes], Renderer, CompiledRevision]:
    index = workspace.compile(keep_contents=True)
    found = PlanFindings(problems=index.problems(), verdicts=(), exceptions=())
    problems = fold_consequences(workspace.repository, index, found).problems
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)
    renderer = workspace.renderer(index)
    contents = renderer.contents(sorted(index.desired))
    return {f"{workspace.config.rendered}/{path}": content for path, content in contents.items()}, renderer, index


# Commit what the sources of a revision render to.


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
        workspace.repository,
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


# Check that `rendered/` is up to date.


def verify(workspace: Workspace, *, base: str = "", date: str = "") -> Plan:
    """Compare `rendered/` of a revision with what its own sources render to, judged by the rules of `base` as well.

    The revision passes if `require_verified` accepts the plan.
    """
    return plan_commit(workspace, base=base, date=date).plan


def require_verified(plan: Plan, *, rendered_by: str = "") -> None:
    """Raise `InvalidInput`, `PolicyDenied` or `StalePlan` unless the revision passes.

    Of budgets only those of kept objects and of settings matter.
    """
    refuse(plan, budgets=False)
    refuse_stale(plan, rendered_by=rendered_by)
    refuse_unverified(plan)


def rendered_by(workspace: Workspace) -> str:
    """Return the version of the engine that made the last commit of `rendered/`; empty if that commit names none."""
    repository, tip = workspace.repository, workspace.tree.tip
    last = repository.last_change(tip.oid, workspace.config.rendered) if tip else None
    return engine_of(repository.resolve(last).message) if last else ""


# Explain why an object, or one of its fields, has its value.


def explain(workspace: Workspace, name: str, field: str = "", *, base: str = "") -> Explanation:
    """Explain an object (`Kind/namespace/name`, `Kind/name` or a rendered path), or one of its fields.

    base: revision that objects and fields which the sources no longer define are looked up in.
    Raises `ConfigError` if the object or the field does not exist.
    """
    index = workspace.compile()
    explained = explaining.explain(
        workspace.repository,
        index,
        workspace.renderer(index),
        name,
        field,
        lint=lambda: lint(workspace),
        plan=lambda: plan(workspace, base=base).plan,
    )
    return lead_back(explained, workspace.repository, index.revision, index.revision)


# Approve a plan that exceeds its budgets.


def approve_plan(
    workspace: Workspace,
    *,
    reason: str,
    expires: str,
    base: str = "",
    date: str = "",
    budgets: Sequence[str] = (),
    clusters: "Mapping[str, LiveCluster] | None" = None,
    choices: LiveChoices = NO_CHOICES,
) -> tuple[Plan, Approval]:
    """Plan the working tree against its base or live clusters, and return the plan with an approval of it.

    Raises what an approval does not allow (`InvalidInput`, `PolicyDenied`), and `ConfigError` if there is nothing to
    approve.
    """
    for name in budgets:
        if not is_budget(name):
            raise ConfigError(f"--budget: unknown budget {name!r}", hint=budget_hint(name))
    made = plan(workspace, base=base, date=date, clusters=clusters, choices=choices).plan
    refuse(made, budgets=False)
    if any(change.setting == "approvals" for change in made.settings):
        hint = "the base does not read the new folder; first approve a change of spec.budgets.settings to allow"
        raise ConfigError("a change of spec.approvals cannot be approved", hint=hint)
    approval = new_approval(made, workspace.config.approvals, reason=reason, expires=expires, budgets=budgets)
    if not any(approves(approval, breach) for breach in made.unapproved):
        raise ConfigError("nothing to approve", hint=_nothing(made, budgets))
    return made, approval


def _nothing(made: Plan, budgets: Sequence[str]) -> str:
    if made.unapproved:
        return f"the plan does not exceed {', '.join(budgets)}, but {', '.join(one.budget for one in made.unapproved)}"
    if made.breaches:
        files = {approval.place.path for approval in made.approvals if not approval.ignored}
        return f"the plan is approved by {', '.join(sorted(files))}"
    return "the plan is within its budgets"


def last_day(expires: str, days: int, today: str) -> str:
    """Return the last day of an approval: `expires`, or `days` after `today`."""
    if not expires:
        return (Date.fromisoformat(today) + timedelta(days=days)).isoformat()
    try:
        day = Date.fromisoformat(expires).isoformat()
    except ValueError as error:
        raise ConfigError(f"--expires: {expires!r} is not a date", hint="write it as 2026-01-31") from error
    if day < today:
        raise ConfigError(f"--expires: {day} is in the past", hint=f"today is {today}")
    return day


# Resolve the conflicts of a merge in `rendered/`: its files follow from the sources, so they are rendered again.


_MAX_NAMES = 10


class Resolved(Struct, frozen=True, kw_only=True):
    """The staged files: those that had conflicts, and all that were rendered or removed."""

    conflicts: tuple[str, ...]
    rendered: tuple[str, ...]


def _reject_unmerged_sources(checkout: Conflicts, config: Config) -> None:
    """Raise `UnsafePlan` if sources have conflicts, which only people can resolve, or changes that are not staged.

    Git merges what is staged, so `rendered/` has to follow from that.
    """
    conflicts = [path for path in checkout.conflicts() if not path.startswith(f"{config.rendered}/")]
    if conflicts:
        hint = "resolve them first and `git add` them, then run `reconciler resolve` again"
        raise UnsafePlan(f"conflicts outside {config.rendered}/: {_names(conflicts)}", hint=hint)
    unstaged = [path for path in checkout.unstaged() if is_source(config, path)]
    if unstaged:
        hint = "`git add` them if they belong to the merge, else `git stash` them"
        raise UnsafePlan(f"changes that are not staged: {_names(unstaged)}", hint=hint)


def _names(paths: Sequence[str]) -> str:
    names = ", ".join(printable(path) for path in paths[:_MAX_NAMES])
    return f"{names} and {len(paths) - _MAX_NAMES} more" if len(paths) > _MAX_NAMES else names


def resolve(workspace: Workspace, checkout: Conflicts) -> Resolved:
    """Render the merged sources of the working tree, and stage what differs in `rendered/`.

    Raises `UnsafePlan` if sources have conflicts or changes that are not staged, `InvalidInput` if they have errors;
    nothing is changed then.
    """
    _reject_unmerged_sources(checkout, workspace.config)
    _reject(workspace.compile().problems())
    conflicts = checkout.conflicts()
    checkout.stage_versions({path: versions.ours or versions.theirs for path, versions in conflicts.items()})
    planned = plan_tree(workspace.runtime, workspace.tree, workspace.config, against_head=True)
    _reject(planned.plan.errors)
    contents = planned.contents()
    checkout.stage(contents)
    return Resolved(conflicts=tuple(conflicts), rendered=tuple(sorted(contents)))


def _reject(problems: tuple[Problem, ...]) -> None:
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)


def list_kinds(catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return the known kinds, each with its `apiVersion`."""
    return [(name.kind, f"{name.group}/{name.version}".lstrip("/")) for name in catalogue.kinds()]


def schema_of(catalogue: Catalogue, kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind; `ConfigError` for an unknown kind."""
    schema = catalogue.json_schema(kind)
    if schema is None:
        near = get_close_matches(kind, [name for name, _ in list_kinds(catalogue)], n=1)
        hint = f"did you mean {near[0]}?" if near else "run `reconciler schema` for a list of kinds"
        raise ConfigError(f"unknown kind {kind!r}", hint=hint)
    return schema
