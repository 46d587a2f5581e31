"""Suspensions of policies with `mode: enforce`: committed to the branch that is read, or proposed on another."""

import datetime as dt
from collections.abc import Iterable

from reconciler.controller.outcome import PassFailure
from reconciler.controller.sources.source import ConfigSource
from reconciler.errors import StalePlan, one_line
from reconciler.forge.branches import contents
from reconciler.forge.identity import EditedFile, ProposedChange
from reconciler.health.proposals import ChangeRequests
from reconciler.kube.values import plural
from reconciler.live.preemption.evaluate import EvaluatedCluster, evaluate
from reconciler.plan import opening
from reconciler.plan.outputs.commit import ENGINE, SOURCE_COMMIT, compose
from reconciler.repo.git.remote import GitRemote
from reconciler.repo.port import Draft, Repository
from reconciler.version import __version__

BRANCH = "preempt/enforce"
"""The branch of what exceeds a budget. While it exists, nobody has decided about it, and no other is pushed."""
_EVIDENCE = "/utilisation.yaml"


def commit_suspensions(
    source: ConfigSource, run: opening.Run, remote: GitRemote, requests: ChangeRequests
) -> tuple[str, PassFailure | None]:
    """Commit in the mirror what policies enforce; with nothing to enforce, push a branch with what is left to people.

    Returns the id of the commit, empty if there is none, and why nothing was decided.
    """
    repository, head = run.workspace.repository, run.workspace.tree.commit_id
    folder = run.workspace.config.evidence
    if not head or not any(path.endswith(_EVIDENCE) for path in repository.tree(head, (folder,))):
        return "", None
    found = list(evaluate(run.workspace, dt.datetime.now(dt.UTC)))
    if wrong := "; ".join(str(problem) for one in found for problem in one.problems):
        return "", PassFailure(reason="PreemptionNotDecided", message=one_line(wrong, 1000), stalled=True)
    found = [one for one in found if _is_current(repository, head, one)]
    enforced = _merged(one.enforced.items() for one in found)
    reviewed = _merged(one.reviewed.items() for one in found)
    if f"refs/heads/{source.target}" != source.ref:  # what is pushed to another branch waits for people
        enforced, reviewed = {}, enforced | reviewed
    if enforced:
        return repository.commit(_draft(head, enforced, source.target, head)) or "", None
    if reviewed:
        _propose(source, repository, head, reviewed, remote=remote, requests=requests)
    return "", None


def _propose(
    source: ConfigSource,
    repository: Repository,
    head: str,
    files: dict[str, bytes | None],
    *,
    remote: GitRemote,
    requests: ChangeRequests,
) -> None:
    """Push a branch unless there is one, and open its change request while it says what would be done now."""
    reference = f"refs/heads/{BRANCH}"
    tip = remote.fetch([source.ref, reference]).get(reference)
    if tip is None:
        left = repository.branch(BRANCH)  # in the mirror, of one that was merged or closed
        tip = repository.commit(_draft(head, files, BRANCH, None if left is None else left.oid))
        try:
            if tip:
                remote.push(BRANCH, tip, expected=None)
        except StalePlan:  # somebody pushed it meanwhile
            return
    if tip and contents(repository, tip, files) == files:
        before = contents(repository, head, files)
        edits = (EditedFile(path=path, before=before[path], after=after) for path, after in sorted(files.items()))
        title = f"Suspend idle workloads in {plural(len(files), 'file')}"
        reason = (
            "They hold GPUs that others wait for, by the evidence of the cluster, and a budget leaves it to people."
        )
        change = ProposedChange(
            kind="preempt", name=BRANCH, title=title, reason=reason, edits=tuple(edits), own_branch=BRANCH
        )
        requests.request(change, tip)


def _is_current(repository: Repository, head: str, found: EvaluatedCluster) -> bool:
    """Return whether the evidence was committed after the last change of each source that it is about to change.

    A source that was edited since is not what was measured: somebody resumed it, or it is suspended already.
    """
    edits = found.enforced.keys() | found.reviewed.keys()
    recorded = repository.last_change(head, found.evidence) if edits else None
    if recorded is None:
        return False
    changes = (repository.last_change(head, path) for path in sorted(edits))
    return all(one is not None and repository.merge_base(one, recorded) == one for one in changes)


def _merged(edits: Iterable[Iterable[tuple[str, bytes]]]) -> dict[str, bytes | None]:
    return {path: content for rows in edits for path, content in rows}


def _draft(head: str, files: dict[str, bytes | None], branch: str, replaces: str | None) -> Draft:
    message = f"Suspend idle workloads in {plural(len(files), 'file')}"
    trailers = {SOURCE_COMMIT: head, ENGINE: __version__}
    return Draft(parent=head, files=files, message=compose(message, trailers), branch=branch, replaces=replaces)
