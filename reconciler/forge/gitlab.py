"""GitLab: merge requests, notes and commit statuses."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.forge import (
    Annotation,
    ChangeRequest,
    Comment,
    CommitStatus,
    Forge,
    RequestState,
    Review,
    StatusState,
)
from reconciler.forge.client import ForgeClient, escape
from reconciler.forge.github import comment_of, gone, may, text_of, whoami
from reconciler.kube.times import unix_time

_RIGHT = "api, with the role Developer"
_LIMIT = 1_000_000
_DEVELOPER = 30  # access level of those who may push
_ROLES = {"developer": 30, "maintainer": 40, "owner": 50}
_SUMMARY = 255
_STATES = {"opened": RequestState.OPEN, "locked": RequestState.OPEN, "merged": RequestState.MERGED}
_STATUSES = {StatusState.FAILURE: "failed", StatusState.SUCCESS: "success", StatusState.PENDING: "pending"}


class GitLab(Forge):
    """One project, `GROUP/NAME`, in any number of groups. `account`: whose token it is, if it may not ask."""

    kind = "gitlab"
    body_limit = _LIMIT

    def __init__(self, client: ForgeClient, repository: str, *, account: str = "") -> None:
        self._client, self._account, self._me = client, account, ""
        self._path = f"/projects/{escape(repository)}"

    def me(self) -> str:
        """Return the account of the token."""
        if not self._me:
            self._me = whoami(lambda: self._client.get("/user", "read_user", text_of("username")), self._account)
        return self._me

    def default_branch(self) -> str:
        """Return the project's default branch."""
        return self._client.get(self._path, "read_api", text_of("default_branch"))

    def of_branch(self, branch: str) -> Sequence[ChangeRequest]:
        """Return the merge requests from a branch, the newest first."""
        query = {"state": "all", "source_branch": branch, "per_page": 100}
        found = self._client.pages(f"{self._path}/merge_requests", _RIGHT, _request, **query)
        ours = (one for one in found if one.branch == branch and not one.is_fork)
        return sorted(ours, key=lambda one: -one.number)

    def open_requests(self) -> Iterator[ChangeRequest]:
        """Yield all open merge requests, the oldest first."""
        query = {"state": "opened", "order_by": "created_at", "sort": "asc", "per_page": 100}
        yield from self._client.first_pages(f"{self._path}/merge_requests", _RIGHT, _request, **query)

    def request(self, number: int) -> ChangeRequest:
        """Return one merge request."""
        return self._client.get(f"{self._path}/merge_requests/{number}", _RIGHT, _request)

    def head_ref(self, number: int) -> str:
        """Return the reference of its commits."""
        return f"refs/merge-requests/{number}/head"

    def open(self, *, title: str, body: str, branch: str, target: str) -> ChangeRequest:
        """Open a merge request; 409 says that there is one."""
        values = {"title": title, "description": body, "source_branch": branch, "target_branch": target}
        return self._client.send("POST", f"{self._path}/merge_requests", _RIGHT, values, _request)

    def edit(self, number: int, *, body: str, close: bool = False) -> None:
        """Replace the description, and close it."""
        values = {"description": body} | ({"state_event": "close"} if close else {})
        self._client.act("PUT", f"{self._path}/merge_requests/{number}", _RIGHT, values)

    def comments(self, number: int) -> Sequence[Comment]:
        """Return all notes of people and bots; those that GitLab writes itself are left out."""
        found = self._client.pages(self._notes(number), _RIGHT, _note, sort="asc", per_page=100)
        return sorted((one for one in found if one is not None), key=lambda one: one.id)

    def comment(self, number: int, body: str) -> None:
        """Add a note."""
        self._client.act("POST", self._notes(number), _RIGHT, {"body": body})

    def edit_comment(self, number: int, comment: int, body: str) -> None:
        """Replace the text of a note."""
        self._client.act("PUT", f"{self._notes(number)}/{comment}", _RIGHT, {"body": body})

    def delete_comment(self, number: int, comment: int) -> None:
        """Delete a note."""
        gone(lambda: self._client.act("DELETE", f"{self._notes(number)}/{comment}", _RIGHT))

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set a commit status."""
        values = {
            "state": _STATUSES[status.state],
            "name": status.context,
            "description": status.summary[:_SUMMARY],
        }
        values |= {"target_url": status.url} if status.url else {}
        self._client.act("POST", f"{self._path}/statuses/{escape(commit)}", _RIGHT, values)

    def annotate(self, commit: str, name: str, summary: str, annotations: Sequence[Annotation]) -> bool:  # noqa: ARG002 - the port
        """GitLab takes findings from the artifacts of a pipeline alone."""
        return False

    def may_write(self, user: str) -> bool:
        """Return whether a user is a developer of the project or more, also by a group."""
        members = self._client.pages(f"{self._path}/members/all", "read_api", _member, query=user, per_page=100)
        return any(name == user and level >= _DEVELOPER for name, level in members)

    def reviews(self, number: int) -> Sequence[Review]:
        """Return the approvals. GitLab tells their time alone: the commit is that of the newest version before it."""
        path = f"{self._path}/merge_requests/{number}"
        approved = self._client.get(f"{path}/approvals", _RIGHT, lambda found: [*map(_approval, found["approved_by"])])
        versions = sorted(self._client.pages(f"{path}/versions", _RIGHT, _version, per_page=100)) if approved else []
        return [
            Review(author=author, commit=next((head for made, head in reversed(versions) if 0 < made <= at), ""))
            for author, at in approved
        ]

    def owns(self, owner: str, user: str) -> bool:
        """Return whether a user is a direct member of a group, or of the project with exactly this role."""
        if owner.startswith("@@"):
            role = _ROLES.get(owner.removeprefix("@@").rstrip("s"), -1)
            return (user, role) in self._client.pages(f"{self._path}/members", "read_api", _member, per_page=100)
        path = f"/groups/{escape(owner.removeprefix('@'))}/members"
        names = text_of("username")
        return may(lambda: user in self._client.pages(path, "read_api", names, query=user, per_page=100))

    def _notes(self, number: int) -> str:
        return f"{self._path}/merge_requests/{number}/notes"


def _request(found: Mapping[str, Any]) -> ChangeRequest:
    state = _STATES.get(str(found["state"]), RequestState.CLOSED)
    merged = found.get("merge_commit_sha") or found.get("squash_commit_sha") or found.get("sha") or ""
    return ChangeRequest(
        number=int(found["iid"]),
        url=str(found.get("web_url") or ""),
        title=str(found.get("title") or ""),
        body=str(found.get("description") or ""),
        branch=str(found["source_branch"]),
        target=str(found["target_branch"]),
        head=str(found.get("sha") or ""),
        state=state,
        author=str((found.get("author") or {}).get("username") or ""),
        is_fork=found.get("source_project_id") != found.get("target_project_id"),
        labels=tuple(map(str, found.get("labels") or ())),
        merged=str(merged) if state is RequestState.MERGED else "",
        updated=str(found.get("updated_at") or ""),
    )


def _note(found: Mapping[str, Any]) -> Comment | None:
    return None if found.get("system") else comment_of(found, "username")


def _approval(found: Mapping[str, Any]) -> tuple[str, float]:
    return str(found["user"]["username"]), unix_time(str(found.get("approved_at") or ""))


def _version(found: Mapping[str, Any]) -> tuple[float, str]:
    return unix_time(str(found["created_at"])), str(found["head_commit_sha"])


def _member(found: Mapping[str, Any]) -> tuple[str, int]:
    return str(found["username"]), int(found.get("access_level") or 0)
