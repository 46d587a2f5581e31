"""The branches of proposals in Git: made from the commit that is read, and never moved over a commit of a person."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from reconciler.errors import RepositoryError, UnsafePlan
from reconciler.forge.identity import EditedFile, Owner, ProposedChange, Tip, key_of
from reconciler.plan.outputs.commit import ENGINE, SOURCE_COMMIT, compose, trailers_of
from reconciler.repo.port import Draft, Repository
from reconciler.version import __version__

CHANGE = "Reconciler-Change"
"""The key of a proposal, and the digest of the edits of its commit: whoever amends it makes it theirs."""


class Remote(Protocol):
    """A Git server: `GitRemote` or `CheckoutRemote`."""

    def fetch(self, refs: Sequence[str]) -> Mapping[str, str]:
        """Fetch the commits of references, and return those that exist; the first must."""
        ...

    def push(self, branch: str, commit: str, *, expected: str | None) -> None:
        """Push a commit if the branch is at `expected`; else raise `StalePlan`."""
        ...

    def remove(self, branch: str, *, expected: str) -> None:
        """Remove a branch that is at `expected`; else raise `StalePlan`."""
        ...


class GitBranches:
    """Branches of one repository. `reference` is the one that is read, and `head` the commit of it that was."""

    def __init__(self, repository: Repository, remote: Remote, *, reference: str, head: str) -> None:
        self._repository, self._remote = repository, remote
        self._reference, self._head = reference, head

    def tip(self, change: ProposedChange) -> Tip | None:
        """Fetch the branch, and say whose it is."""
        found = self.tip_of(change.branch)
        if found is None or found.owner is Owner.NOBODY:
            return found
        paths = {edit.path: edit.after for edit in change.edits if edit.before != edit.after}
        is_current = contents(self._repository, found.oid, paths) == paths
        return Tip(oid=found.oid, owner=found.owner, is_current=is_current)

    def tip_of(self, branch: str) -> Tip | None:
        """Fetch a branch, and say whose it is."""
        reference = f"refs/heads/{branch}"
        oid = self._remote.fetch([self._reference, reference]).get(reference)
        return None if oid is None else Tip(oid=oid, owner=self._owner(oid))

    def is_read(self, commit: str) -> bool:
        """Return whether the history of the commit that is read has another one."""
        try:
            return self._repository.merge_base(commit, self._head) == commit
        except RepositoryError:  # it is not here, so it was not read
            return False

    def push(self, change: ProposedChange, key: str, tip: Tip | None) -> None:
        """Make one commit of the edits on top of what is read, and push it."""
        draft = Draft(
            parent=self._head,
            files={edit.path: edit.after for edit in change.edits if edit.before != edit.after},
            message=compose(_message(change), self._trailers(change, key)),
            branch=change.branch,
            replaces=self._replaced(change.branch, tip),
        )
        local = self._repository.commit(draft) or draft.replaces
        if local is not None and (tip is None or local != tip.oid):
            self._remote.push(change.branch, local, expected=None if tip is None else tip.oid)

    def remove(self, branch: str, tip: Tip) -> None:
        """Remove the branch from the server."""
        self._remote.remove(branch, expected=tip.oid)

    def _replaced(self, branch: str, tip: Tip | None) -> str | None:
        """Return the tip of the local branch, which a checkout keeps. `UnsafePlan` if a person committed there."""
        local = self._repository.branch(branch)
        if local is None:
            return None
        if (tip is None or local.oid != tip.oid) and self._owner(local.oid) is Owner.THEIRS:
            hint = f"push it, or delete it: git branch -D {branch}"
            raise UnsafePlan(f"the local branch {branch} has commits that reconciler did not make", hint=hint)
        return local.oid

    def _owner(self, oid: str) -> Owner:
        """Return who made a branch: ours is one commit on what is read, whose edits are those that it names."""
        if self.is_read(oid):
            return Owner.NOBODY
        commit = self._repository.resolve(oid)
        digest = trailers_of(commit.message).get(CHANGE, "").rpartition(" ")[2]
        if not digest or len(commit.parents) != 1 or not self.is_read(commit.parents[0]):
            return Owner.THEIRS
        return Owner.OURS if digest == _digest(self._made(commit.parents[0], oid)) else Owner.THEIRS

    def _made(self, before: str, after: str) -> Iterable[EditedFile]:
        paths = self._repository.changed(before, after)
        old, new = contents(self._repository, before, paths), contents(self._repository, after, paths)
        return [EditedFile(path=path, before=old[path], after=new[path]) for path in paths]

    def _trailers(self, change: ProposedChange, key: str) -> dict[str, str]:
        named = {"Co-authored-by": change.requester} if change.requester else {}
        made = {CHANGE: f"{key} {_digest(change.edits)}", SOURCE_COMMIT: self._head, ENGINE: __version__}
        return {**made, **named}


def contents(repository: Repository, commit: str, paths: Iterable[str]) -> dict[str, bytes | None]:
    """Return the contents of paths in a commit; None where there is no file."""
    wanted = sorted(paths)
    tree = repository.tree(commit, wanted) if wanted else {}
    known = [path for path in wanted if path in tree and tree[path].is_file]
    found = dict(zip(known, repository.read([tree[path].oid for path in known]), strict=True))
    return {path: found.get(path) for path in wanted}


def _digest(edits: Iterable[EditedFile]) -> str:
    return key_of("", "", "", edits)


def _message(change: ProposedChange) -> str:
    reasons = [f"- {edit.path}: {edit.reason}" for edit in change.edits if edit.reason and edit.before != edit.after]
    return "\n\n".join(filter(None, (change.title, change.reason, "\n".join(reasons))))
