"""GitHub, and GitHub Enterprise Server: pull requests, comments, commit statuses, and check runs with annotations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.forge import Annotation, ChangeRequest, Comment, CommitStatus, Forge, ForgeError, RequestState, Review
from reconciler.forge.client import ForgeClient, escape
from reconciler.kube.times import unix_time

_CHECKS = "checks: write"
_FORBIDDEN, _MISSING = 403, 404
_ANNOTATIONS = 50  # of one request
_MOST_ANNOTATIONS = 500
_SUMMARY = 140  # characters of a status
_LIMIT = 65_536


class GitHub(Forge):
    """One repository, `OWNER/NAME`. `account`: whose token it is, if it may not ask.

    Gitea has the same requests, with some exceptions. rights: of the token, by what is asked for.
    """

    kind = "github"
    body_limit = _LIMIT
    rights: Mapping[str, str] = {
        "repository": "metadata: read",
        "pulls": "pull-requests: write",
        "comments": "pull-requests: write, or issues: write",
        "statuses": "commit statuses: write",
    }
    writers: Sequence[str] = ("admin", "write", "maintain")
    comment_page: Mapping[str, int] = {"per_page": 100}
    review_page: Mapping[str, int] = {"per_page": 100}

    def __init__(self, client: ForgeClient, repository: str, *, account: str = "") -> None:
        self._client, self._account, self._me = client, account, ""
        self._owner, _, name = repository.partition("/")
        self._path = f"/repos/{escape(self._owner)}/{escape(name)}"

    def me(self) -> str:
        """Return the account; the token of a workflow, and that of an App, may not ask who it is."""
        if not self._me:
            self._me = whoami(lambda: self._client.get("/user", "read:user", text_of("login")), self._account)
        return self._me

    def default_branch(self) -> str:
        """Return the repository's default branch."""
        return self._client.get(self._path, self.rights["repository"], text_of("default_branch"))

    def of_branch(self, branch: str) -> Sequence[ChangeRequest]:
        """Return the pull requests from a branch, the newest first."""
        query = {"state": "all", "head": f"{self._owner}:{branch}", "per_page": 100}
        found = self._client.pages(f"{self._path}/pulls", self.rights["pulls"], self.parse, **query)
        ours = (one for one in found if one.branch == branch and not one.is_fork)
        return sorted(ours, key=lambda one: -one.number)

    def open_requests(self) -> Iterator[ChangeRequest]:
        """Yield all open pull requests, the oldest first."""
        query = {"state": "open", "sort": "created", "direction": "asc", "per_page": 100}
        yield from self._client.first_pages(f"{self._path}/pulls", self.rights["pulls"], self.parse, **query)

    @staticmethod
    def parse(found: Mapping[str, Any]) -> ChangeRequest:
        """Return the pull request of an answer."""
        return pull_request(found)

    def request(self, number: int) -> ChangeRequest:
        """Return one pull request."""
        return self._client.get(f"{self._path}/pulls/{number}", self.rights["pulls"], self.parse)

    def head_ref(self, number: int) -> str:
        """Return the reference of its commits."""
        return f"refs/pull/{number}/head"

    def open(self, *, title: str, body: str, branch: str, target: str) -> ChangeRequest:
        """Open a pull request; 422, of Gitea 409, says that there is one."""
        values = {"title": title, "body": body, "head": branch, "base": target}
        return self._client.send("POST", f"{self._path}/pulls", self.rights["pulls"], values, self.parse)

    def edit(self, number: int, *, body: str, close: bool = False) -> None:
        """Replace the body, and close it."""
        values = {"body": body} | ({"state": "closed"} if close else {})
        self._client.act("PATCH", f"{self._path}/pulls/{number}", self.rights["pulls"], values)

    def comments(self, number: int) -> Sequence[Comment]:
        """Return all comments; those on lines of the diff are none of them."""
        path = f"{self._path}/issues/{number}/comments"
        found = self._client.pages(path, self.rights["comments"], comment_of, **self.comment_page)
        return sorted(found, key=lambda one: one.id)

    def comment(self, number: int, body: str) -> None:
        """Add a comment."""
        self._client.act("POST", f"{self._path}/issues/{number}/comments", self.rights["comments"], {"body": body})

    def edit_comment(self, number: int, comment: int, body: str) -> None:  # noqa: ARG002 - ids are of the repository
        """Replace the text of a comment."""
        self._client.act("PATCH", f"{self._path}/issues/comments/{comment}", self.rights["comments"], {"body": body})

    def delete_comment(self, number: int, comment: int) -> None:  # noqa: ARG002 - ids are of the repository
        """Delete a comment."""
        gone(lambda: self._client.act("DELETE", f"{self._path}/issues/comments/{comment}", self.rights["comments"]))

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set a commit status."""
        values = {"state": str(status.state), "context": status.context, "description": status.summary[:_SUMMARY]}
        values |= {"target_url": status.url} if status.url else {}
        self._client.act("POST", f"{self._path}/statuses/{escape(commit)}", self.rights["statuses"], values)

    def annotate(self, commit: str, name: str, summary: str, annotations: Sequence[Annotation]) -> bool:
        """Create a check run, and give it the annotations, 50 with each request; only Apps and workflows may."""
        left = list(annotations[:_MOST_ANNOTATIONS])
        failed = any(one.level == "failure" for one in left)
        values: dict[str, Any] = {"name": name, "head_sha": commit, "conclusion": "failure" if failed else "neutral"}
        path, method = f"{self._path}/check-runs", "POST"
        try:
            while left:
                output = {
                    "title": name,
                    "summary": summary,
                    "annotations": [_annotation(o) for o in left[:_ANNOTATIONS]],
                }
                made = self._client.send(
                    method, path, _CHECKS, {**values, "output": output}, lambda run: int(run["id"])
                )
                if method == "POST":
                    path, method, values = f"{path}/{made}", "PATCH", {}
                del left[:_ANNOTATIONS]
        except ForgeError as error:
            if error.status not in (_FORBIDDEN, _MISSING):
                raise
            return False
        return True

    def may_write(self, user: str) -> bool:
        """Return whether a user has the permission to push."""
        path = f"{self._path}/collaborators/{escape(user)}/permission"
        right = self.rights["repository"]
        return may(lambda: self._client.get(path, right, text_of("permission")) in self.writers)

    def reviews(self, number: int) -> Sequence[Review]:
        """Return the approvals that were neither dismissed nor followed by a request for changes."""
        path = f"{self._path}/pulls/{number}/reviews"
        return approvals_of(self._client.pages(path, self.rights["pulls"], dict, **self.review_page))

    def owns(self, owner: str, user: str) -> bool:
        """Return whether a user is in a team, if the token may see who is in it."""
        organization, _, team = owner.removeprefix("@").partition("/")
        path = f"/orgs/{escape(organization)}/teams/{escape(team)}/memberships/{escape(user)}"
        return bool(team) and may(lambda: self._client.get(path, "members: read", text_of("state")) == "active")


def text_of(key: str) -> Callable[[Any], str]:
    """Return the function that reads one text of an answer."""
    return lambda found: str(found[key])


def whoami(ask: Callable[[], str], account: str) -> str:
    """Return the account of the token, or the known one of a token that may not ask."""
    try:
        return ask()
    except ForgeError as error:
        if not account or error.status not in (_FORBIDDEN, _MISSING):
            raise
        return account


def gone(delete: Callable[[], None]) -> None:
    """Delete something that may be gone already."""
    try:
        delete()
    except ForgeError as error:
        if error.status != _MISSING:
            raise


def may(ask: Callable[[], bool]) -> bool:
    """Return an answer that the forge gives by 403 or 404 if it is no, or the token may not ask."""
    try:
        return ask()
    except ForgeError as error:
        if error.status not in (_FORBIDDEN, _MISSING):
            raise
        return False


def approvals_of(found: Sequence[Mapping[str, Any]]) -> Sequence[Review]:
    """Return the approvals among reviews of GitHub or Gitea, the oldest first: the last word of a person counts."""
    last: dict[str, Mapping[str, Any]] = {}
    for one in found:
        if one["state"] in ("APPROVED", "CHANGES_REQUESTED", "REQUEST_CHANGES", "DISMISSED"):
            last[str((one.get("user") or {}).get("login") or "")] = one
    stand = {author: one for author, one in last.items() if one["state"] == "APPROVED" and not one.get("dismissed")}
    approved = ((author, one) for author, one in stand.items() if author)
    return [Review(author=author, commit=str(one.get("commit_id") or "")) for author, one in approved]


def comment_of(found: Mapping[str, Any], author: str = "login") -> Comment:
    """Return the comment of an answer; `author` is the key of its account's name."""
    account = found.get("user") or found.get("author") or {}
    return Comment(
        id=int(found["id"]),
        author=str(account.get(author) or ""),
        body=str(found.get("body") or ""),
        created=unix_time(found.get("created_at")),
        updated=unix_time(found.get("updated_at")),
    )


def pull_request(found: Mapping[str, Any], branch: str = "ref") -> ChangeRequest:
    """Return the pull request of an answer of GitHub or Gitea; `branch` is the key of its branch's name."""
    head, base = found["head"], found["base"]
    source, target = head.get("repo") or {}, base.get("repo") or {}
    is_merged = bool(found.get("merged_at") or found.get("merged"))
    return ChangeRequest(
        number=int(found["number"]),
        url=str(found.get("html_url") or ""),
        title=str(found.get("title") or ""),
        body=str(found.get("body") or ""),
        branch=str(head[branch]),
        target=str(base["ref"]),
        head=str(head.get("sha") or ""),
        state=RequestState.MERGED if is_merged else RequestState(found["state"]),
        author=str((found.get("user") or {}).get("login") or ""),
        is_fork=source.get("id") != target.get("id"),
        labels=tuple(str(one.get("name") or "") for one in found.get("labels") or ()),
        merged=str(found.get("merge_commit_sha") or "") if is_merged else "",
        updated=str(found.get("updated_at") or ""),
    )


def _annotation(one: Annotation) -> dict[str, Any]:
    return {
        "path": one.path,
        "start_line": one.line,
        "end_line": one.line,
        "annotation_level": one.level,
        "title": one.title[:255],
        "message": one.message,
    }
