"""A change that a command proposes: its plan before anything is written, then one commit on a branch of its own.

The branch starts at the checked-out commit. The working tree and the index of the user are not touched.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.errors import UnsafePlan
from reconciler.forge.checkouts import edits_of, has_forge, request_pushed
from reconciler.forge.identity import ProposedChange
from reconciler.plan import opening, use_cases
from reconciler.plan.gate import refuse
from reconciler.plan.opening import Run
from reconciler.plan.outputs.commit import ENGINE, EVIDENCE_DIGEST, PLAN_DIGEST, SOURCE_COMMIT, commit
from reconciler.plan.planning import Planned
from reconciler.repo import checkout
from reconciler.repo.files import FOLDER_SUFFIX
from reconciler.repo.git.edited import EditedRepository
from reconciler.repo.port import Repository

Files = Mapping[str, bytes | None]
"""Contents by path below the root; None removes a file."""

_SUBMITTED_BY = "Reconciler-Submitted-By"


class SubmittedChange(Struct, frozen=True, kw_only=True, eq=False):
    """The files of a change, its branch and its subject; `user` is named in the commit."""

    branch: str
    subject: str
    user: str
    files: Files


def open_head(repo: str, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Run:
    """Open the config repository around a folder at its checked-out commit."""
    return opening.open_run(repo, {**flags, "revision": "HEAD"}, environ)


def with_files(head: Run, files: Files, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Run:
    """Open the repository as it would be with other files."""
    repository = EditedRepository(head.workspace.repository.root, files, environ)
    return opening.open_repository(repository, flags, environ)


def plan_change(run: Run) -> Planned:
    """Plan a change against the checked-out commit."""
    return use_cases.plan(run.workspace, base="HEAD", date=run.settings.date)


def is_proposed(head: Run, proposal: SubmittedChange) -> bool:
    """Return whether the checked-out commit or the branch of a change has its files already."""
    repository = head.workspace.repository
    tip = repository.branch(proposal.branch)
    commits = [repository.resolve("HEAD").oid, *([tip.oid] if tip is not None else [])]
    return any(_has(repository, oid, proposal.files) for oid in commits)


def _has(repository: Repository, commit: str, files: Files) -> bool:
    ends = (path.partition(f"{FOLDER_SUFFIX}/") for path in files)
    carried = sorted({f"{before}{FOLDER_SUFFIX}" for before, sign, _ in ends if sign})
    tree = repository.tree(commit, (*carried, *files))
    wanted = {path: repository.hold(content) for path, content in files.items() if content is not None}
    return {path: entry.oid for path, entry in tree.items()} == wanted


def propose(head: Run, planned: Planned, proposal: SubmittedChange) -> str:
    """Commit a change on its branch, and return the commit. Raises what forbids its plan.

    Budgets are for those who merge it. A branch that others committed to is left alone: `UnsafePlan`.
    """
    plan, repository = planned.plan, head.workspace.repository
    refuse(plan, budgets=False)
    if repository.head_branch() == proposal.branch:
        hint = "switch to the branch that it starts from"
        raise UnsafePlan(f"branch {proposal.branch} is checked out", hint=hint)
    source = repository.resolve("HEAD").oid
    made = commit(
        repository,
        files=proposal.files,
        message=f"{proposal.subject}\n\nSubmitted by {proposal.user}; the plan has the digest {plan.digest}.",
        trailers={
            _SUBMITTED_BY: proposal.user,
            PLAN_DIGEST: plan.digest,
            SOURCE_COMMIT: source,
            EVIDENCE_DIGEST: plan.evidence,
            ENGINE: plan.engine,
        },
        branch=proposal.branch,
        expected_head=source,
    )
    return made.oid if made is not None else ""


def request_review(head: Run, proposal: SubmittedChange, environ: Mapping[str, str], *, push: bool) -> str:
    """Push the branch if that is wanted, open its change request where there is a forge, and return what is next."""
    branch, repository = proposal.branch, head.workspace.repository
    if not push:
        return f"Push it and open a change request: git push origin {branch}"
    url = checkout.push(repository.root, branch)
    tip = repository.branch(branch)
    if tip is None or not has_forge(head, environ):
        return f"Pushed to {url}. Open a change request for {branch}."
    change = ProposedChange(
        kind="submit",
        name=branch,
        title=proposal.subject,
        reason=f"Submitted by {proposal.user}.",
        edits=edits_of(head, proposal.files),
        own_branch=branch,
    )
    done = request_pushed(head, environ, change, tip.oid)
    return f"Pushed to {url}." + (f"\n{done}" if done is not None else "")
