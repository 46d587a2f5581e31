"""A plan as a commit: `rendered/` on the checked-out branch, or on a branch of our own, with what it was made from."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.errors import UnsafePlan
from reconciler.ports import Commit, Draft, Repository

PLAN_DIGEST = "Reconciler-Plan-Digest"
SOURCE_COMMIT = "Reconciler-Source-Commit"
EVIDENCE_DIGEST = "Reconciler-Evidence-Digest"
ACKNOWLEDGED = "Reconciler-Acknowledged"
"""The token under which a plan exceeds its budgets: who allowed it is the commit's author."""


class Committed(Struct, frozen=True, kw_only=True):
    """A commit that was made, and the branch it is on (None: a detached HEAD)."""

    oid: str
    branch: str | None


def commit(
    repository: Repository,
    *,
    files: Mapping[str, bytes | None],
    message: str,
    trailers: Mapping[str, str],
    branch: str | None = None,
    expected_head: str,
) -> Committed | None:
    """Commit files (None deletes) on top of `expected_head`; None where they are all there already.

    In place, HEAD must still be `expected_head`, and the working tree and index follow for these files only. Files of
    the working tree (sources with uncommitted changes) are committed along by giving their contents.
    On another branch: it is made, or moved if all it holds is ours or already part of `expected_head`.
    Raises `StalePlan` where a branch has moved, `UnsafePlan` where somebody's work would be lost, `ConfigError` where
    git has no author, `RepositoryError` where git fails.
    """
    here = repository.head_branch()
    elsewhere = branch if branch != here else None
    draft = Draft(
        parent=expected_head,
        files=files,
        message=compose(message, trailers),
        branch=elsewhere,
        replaces=None if elsewhere is None else _replaced(repository, elsewhere, expected_head),
    )
    oid = repository.commit(draft)
    return None if oid is None else Committed(oid=oid, branch=elsewhere or here)


def compose(message: str, trailers: Mapping[str, str]) -> str:
    """Write a message as git keeps it: no space at line ends, one line a trailer, in the order given."""
    text = "\n".join(line.rstrip() for line in message.replace("\0", "").strip().splitlines())
    lines = "".join(f"{key}: {' '.join(value.split())}\n" for key, value in trailers.items())
    return f"{text}\n\n{lines}" if lines else f"{text}\n"


def trailers_of(message: str) -> dict[str, str]:
    """Read the trailers of a commit: the last paragraph, if all of its lines are `Key: value`."""
    last = message.strip().rpartition("\n\n")[2].splitlines()
    pairs = [line.partition(": ") for line in last]
    if not all(sign and key.replace("-", "").isalnum() for key, sign, _ in pairs):
        return {}
    return {key: value for key, _, value in pairs}


def _replaced(repository: Repository, branch: str, head: str) -> str | None:
    tip = repository.branch(branch)
    if tip is None:
        return None
    if not _is_part_of(repository, tip.oid, head) and not _is_ours(repository, tip, head):
        hint = "name another branch, or delete this one if nobody needs it"
        raise UnsafePlan(f"branch {branch} holds commits that reconciler did not make", hint=hint)
    return tip.oid


def _is_ours(repository: Repository, tip: Commit, head: str) -> bool:
    """One commit with our trailer, on something that is part of the history it would be put on now."""
    one_parent = len(tip.parents) == 1 and _is_part_of(repository, tip.parents[0], head)
    return one_parent and PLAN_DIGEST in trailers_of(tip.message)


def _is_part_of(repository: Repository, commit: str, head: str) -> bool:
    return repository.merge_base(commit, head) == commit
