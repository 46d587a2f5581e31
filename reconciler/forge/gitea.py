"""Gitea and Forgejo: pull requests, comments and commit statuses."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.forge import Annotation, ChangeRequest, Comment, CommitStatus, Forge, Review
from reconciler.forge.client import ForgeClient, escape
from reconciler.forge.github import approvals_of, comment_of, gone, may, pull_request, text_of, whoami

_PULLS, _READ = "write:repository", "read:repository"
_ISSUES, _TEAMS = "write:issue", "read:organization"
_LIMIT = 65_536  # its limit is a setting of the server; this is that of GitHub
_PAGE = 50  # the default of a server's most items of a page


class Gitea(Forge):
    """One repository, `OWNER/NAME`. `account`: whose token it is, if it may not ask."""

    kind = "gitea"
    body_limit = _LIMIT

    def __init__(self, client: ForgeClient, repository: str, *, account: str = "") -> None:
        self._client, self._account, self._me = client, account, ""
        owner, _, name = repository.partition("/")
        self._path = f"/repos/{escape(owner)}/{escape(name)}"

    def me(self) -> str:
        """Return the account of the token; that of a workflow may not ask."""
        if not self._me:
            self._me = whoami(lambda: self._client.get("/user", "read:user", text_of("login")), self._account)
        return self._me

    def default_branch(self) -> str:
        """Return the repository's default branch."""
        return self._client.get(self._path, _READ, text_of("default_branch"))

    def of_branch(self, branch: str) -> Sequence[ChangeRequest]:
        """Return the pull requests from a branch, the newest first: of all, because Gitea filters none by branch."""
        query = {"state": "all", "sort": "recentupdate", "limit": _PAGE}
        found = self._client.pages(f"{self._path}/pulls", _READ, _request, **query)
        ours = (one for one in found if one.branch == branch and not one.is_fork)
        return sorted(ours, key=lambda one: -one.number)

    def open_requests(self) -> Iterator[ChangeRequest]:
        """Yield all open pull requests, the oldest first."""
        query = {"state": "open", "sort": "oldest", "limit": _PAGE}
        yield from self._client.pages(f"{self._path}/pulls", _READ, _request, **query)

    def request(self, number: int) -> ChangeRequest:
        """Return one pull request."""
        return self._client.get(f"{self._path}/pulls/{number}", _READ, _request)

    def head_ref(self, number: int) -> str:
        """Return the reference of its commits."""
        return f"refs/pull/{number}/head"

    def open(self, *, title: str, body: str, branch: str, target: str) -> ChangeRequest:
        """Open a pull request; 409 says that there is one."""
        values = {"title": title, "body": body, "head": branch, "base": target}
        return self._client.send("POST", f"{self._path}/pulls", _PULLS, values, _request)

    def edit(self, number: int, *, body: str, close: bool = False) -> None:
        """Replace the body, and close it."""
        values = {"body": body} | ({"state": "closed"} if close else {})
        self._client.act("PATCH", f"{self._path}/pulls/{number}", _PULLS, values)

    def comments(self, number: int) -> Sequence[Comment]:
        """Return all comments."""
        found = self._client.pages(f"{self._path}/issues/{number}/comments", "read:issue", comment_of)
        return sorted(found, key=lambda one: one.id)

    def comment(self, number: int, body: str) -> None:
        """Add a comment."""
        self._client.act("POST", f"{self._path}/issues/{number}/comments", _ISSUES, {"body": body})

    def edit_comment(self, number: int, comment: int, body: str) -> None:  # noqa: ARG002 - ids are of the repository
        """Replace the text of a comment."""
        self._client.act("PATCH", f"{self._path}/issues/comments/{comment}", _ISSUES, {"body": body})

    def delete_comment(self, number: int, comment: int) -> None:  # noqa: ARG002 - ids are of the repository
        """Delete a comment."""
        gone(lambda: self._client.act("DELETE", f"{self._path}/issues/comments/{comment}", _ISSUES))

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set a commit status."""
        values = {"state": str(status.state), "context": status.context, "description": status.summary}
        values |= {"target_url": status.url} if status.url else {}
        self._client.act("POST", f"{self._path}/statuses/{escape(commit)}", _PULLS, values)

    def annotate(self, commit: str, name: str, summary: str, annotations: Sequence[Annotation]) -> bool:  # noqa: ARG002 - the port
        """Gitea has no annotations."""
        return False

    def may_write(self, user: str) -> bool:
        """Return whether a user has the permission to push."""
        path = f"{self._path}/collaborators/{escape(user)}/permission"
        return may(lambda: self._client.get(path, _READ, text_of("permission")) in ("owner", "admin", "write"))

    def reviews(self, number: int) -> Sequence[Review]:
        """Return the approvals that were neither dismissed nor followed by another review of the same person."""
        found = self._client.pages(f"{self._path}/pulls/{number}/reviews", _READ, dict, limit=_PAGE)
        return approvals_of([one | ({"state": "DISMISSED"} if one.get("dismissed") else {}) for one in found])

    def owns(self, owner: str, user: str) -> bool:
        """Return whether a user is in a team with access to the repository, if the token may see who is in it."""
        name = owner.rpartition("/")[2].lower()
        teams = self._client.pages(f"{self._path}/teams", _READ, _team) if "/" in owner else ()
        paths = (f"/teams/{number}/members/{escape(user)}" for number, team in teams if team == name)
        return any(may(lambda at=path: self._client.get(at, _TEAMS, bool)) for path in paths)  # type: ignore[misc]


def _team(found: Mapping[str, Any]) -> tuple[int, str]:
    return int(found["id"]), str(found["name"]).lower()


def _request(found: Mapping[str, Any]) -> ChangeRequest:
    return pull_request(found, "label")  # `ref` is another one where the branch is gone
