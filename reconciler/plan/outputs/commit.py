"""Commits of rendered files, on the checked-out branch or on another one, with trailers that name their inputs."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.errors import UnsafePlan
from reconciler.kube.secrets import mask_tokens
from reconciler.repo.port import Commit, Draft, Repository

PLAN_DIGEST = "Reconciler-Plan-Digest"
SOURCE_COMMIT = "Reconciler-Source-Commit"
EVIDENCE_DIGEST = "Reconciler-Evidence-Digest"
ENGINE = "Reconciler-Engine"
"""The version of the engine that rendered the files."""
APPROVAL = "Reconciler-Approval"
"""The files that allow exceeded budgets. Git knows who wrote and who merged them."""


class Committed(Struct, frozen=True, kw_only=True):
    """The id of a new commit, and its branch (None: a detached HEAD)."""

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
    """Commit files (None deletes one) on top of `expected_head`. Return None if they have these contents already.

    On the checked-out branch, HEAD must still be `expected_head`; the working tree and the index are updated for these
    files only. Another branch is created, or moved if its commits are ours or already part of `expected_head`.
    Raises `StalePlan` if a branch has moved, `UnsafePlan` if work of others would be lost, `ConfigError` if git has no
    author, and `RepositoryError` if git fails.
    """
    current = repository.head_branch()
    other = branch if branch != current else None
    draft = Draft(
        parent=expected_head,
        files=files,
        message=compose(message, trailers),
        branch=other,
        replaces=None if other is None else _replaced_commit(repository, other, expected_head),
    )
    oid = repository.commit(draft)
    return None if oid is None else Committed(oid=oid, branch=other or current)


def compose(message: str, trailers: Mapping[str, str]) -> str:
    """Join a message and its trailers as git stores them: no trailing spaces, one line per trailer, in this order.

    Tokens and credentials in URLs are masked: a commit remains in every clone.
    """
    text = "\n".join(line.rstrip() for line in mask_tokens(message).replace("\0", "").strip().splitlines())
    lines = "".join(f"{key}: {' '.join(value.split())}\n" for key, value in trailers.items())
    return f"{text}\n\n{lines}" if lines else f"{text}\n"


def trailers_of(message: str) -> dict[str, str]:
    """Return the trailers of a commit message: its last paragraph, if every line of it is `Key: value`."""
    last = message.strip().rpartition("\n\n")[2].splitlines()
    pairs = [line.partition(": ") for line in last]
    if not all(sign and key.replace("-", "").isalnum() for key, sign, _ in pairs):
        return {}
    return {key: value for key, _, value in pairs}


def engine_of(message: str) -> str:
    """Return the version of the engine in a commit message, also in one that a forge squashed; empty if none is."""
    lines = [line.strip().partition(": ") for line in message.splitlines()]
    return next((value for key, _, value in reversed(lines) if key == ENGINE), "")


def _replaced_commit(repository: Repository, branch: str, head: str) -> str | None:
    tip = repository.branch(branch)
    if tip is None:
        return None
    if not _is_ancestor(repository, tip.oid, head) and not _is_ours(repository, tip, head):
        hint = "choose another branch, or delete this one if it is not needed"
        raise UnsafePlan(f"branch {branch} has commits that reconciler did not create", hint=hint)
    return tip.oid


def finished_proposal(repository: Repository, branch: str, head: str) -> str | None:
    """Return the tip of a branch that holds one commit of ours, which is merged into `head` or superseded by it."""
    tip = repository.branch(branch)
    if tip is None or PLAN_DIGEST not in trailers_of(tip.message):
        return None
    return tip.oid if _is_ancestor(repository, tip.oid, head) or _is_ours(repository, tip, head) else None


def _is_ours(repository: Repository, tip: Commit, head: str) -> bool:
    """Return whether a branch is one commit of ours on top of a part of `head`."""
    one_parent = len(tip.parents) == 1 and _is_ancestor(repository, tip.parents[0], head)
    return one_parent and PLAN_DIGEST in trailers_of(tip.message)


def _is_ancestor(repository: Repository, commit: str, head: str) -> bool:
    return repository.merge_base(commit, head) == commit
