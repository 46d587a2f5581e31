"""Forges: change requests that do not nag, one comment with the plan, statuses; GitHub, GitLab, Gitea and Forgejo.

In: changes of files that somebody proposes, and plans. Out: requests to the API of a forge. Everything that a forge
answers is data: nothing of it is run, and none of it is shown to people or written back without being cleaned.

To read: `identity` (what is done with a proposal; pure), `proposing` and `reviewing` (the use cases), `client` and the
three adapters, `opening` (which forge, and whose token), `orders` (comments that are commands).
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from reconciler.errors import OutsideError


class ForgeError(OutsideError):
    """A forge refused a request, or its answer cannot be used. `status` is that of HTTP; 0 without an answer."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class LostAnswer(ForgeError):
    """It is not known whether a request took effect: look before it is sent again."""

    retryable = True


class ForgeConflict(ForgeError):
    """The forge has something else than we thought, such as the change request that was to be opened: look again."""

    retryable = True


class RequestState(StrEnum):
    """The state of a change request."""

    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


class ChangeRequest(Struct, frozen=True, kw_only=True):
    """A pull request or merge request. `merged`: the commit that merged it; `updated`: when anything of it changed."""

    number: int
    url: str
    title: str
    body: str
    branch: str
    target: str
    head: str
    state: RequestState
    author: str = ""
    is_fork: bool = False
    labels: tuple[str, ...] = ()
    merged: str = ""
    updated: str = ""


class Comment(Struct, frozen=True, kw_only=True):
    """A comment on a change request. `created`, `updated`: times of Unix; 0 where the forge does not say it."""

    id: int
    author: str
    body: str
    created: float = 0.0
    updated: float = 0.0


class Review(Struct, frozen=True, kw_only=True):
    """An approval of a change request that still stands, and the commit that it was given for; empty: not known."""

    author: str
    commit: str


class StatusState(StrEnum):
    """The state of a commit, as forges show it."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"


class CommitStatus(Struct, frozen=True, kw_only=True):
    """The status of a commit in one respect, such as `reconciler/plan`; `summary` is one line."""

    context: str
    state: StatusState
    summary: str
    url: str = ""


class Annotation(Struct, frozen=True, kw_only=True):
    """A finding at a line of a file. `level`: notice, warning or failure."""

    path: str
    line: int
    level: str
    title: str
    message: str


class Forge(Protocol):
    """One repository on a forge. Every method may raise `ForgeError`, those that write also its subclasses."""

    kind: str
    body_limit: int
    """Most characters of a body."""

    def me(self) -> str:
        """Return the name of the account that the token belongs to."""
        ...

    def default_branch(self) -> str:
        """Return the branch that change requests are for unless others say so."""
        ...

    def of_branch(self, branch: str) -> Sequence[ChangeRequest]:
        """Return the change requests from a branch of this repository, the newest first; never those of forks."""
        ...

    def open_requests(self) -> Iterator[ChangeRequest]:
        """Yield all open change requests, those of forks too, the oldest first."""
        ...

    def request(self, number: int) -> ChangeRequest:
        """Return one change request."""
        ...

    def head_ref(self, number: int) -> str:
        """Return the Git reference of a change request's commits, which forks have as well."""
        ...

    def open(self, *, title: str, body: str, branch: str, target: str) -> ChangeRequest:
        """Open a change request. Raises `ForgeConflict` if the branch has an open one."""
        ...

    def edit(self, number: int, *, body: str, close: bool = False) -> None:
        """Replace the body of a change request, and close it in the same step if that is wanted."""
        ...

    def comments(self, number: int) -> Sequence[Comment]:
        """Return all comments on a change request, the oldest first."""
        ...

    def comment(self, number: int, body: str) -> None:
        """Add a comment."""
        ...

    def edit_comment(self, number: int, comment: int, body: str) -> None:
        """Replace the text of a comment."""
        ...

    def delete_comment(self, number: int, comment: int) -> None:
        """Delete a comment. One that is gone already is no error."""
        ...

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Say what a commit is."""
        ...

    def annotate(self, commit: str, name: str, summary: str, annotations: Sequence[Annotation]) -> bool:
        """Show findings at their lines; return False if this forge, or the token, cannot."""
        ...

    def may_write(self, user: str) -> bool:
        """Return whether a user may push to the repository."""
        ...

    def reviews(self, number: int) -> Sequence[Review]:
        """Return the approvals of a change request, one of each person; what they took back is none."""
        ...

    def owns(self, owner: str, user: str) -> bool:
        """Return whether a user is in the group, team or role that an owner in `CODEOWNERS` names."""
        ...


PLAN_STATUS, VERIFY_STATUS = "reconciler/plan", "reconciler/verify"
"""The contexts of statuses."""
