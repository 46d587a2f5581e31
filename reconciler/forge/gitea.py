"""Gitea and Forgejo: the requests of GitHub, with other rights, listings and teams; there are no annotations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.forge import Annotation, ChangeRequest
from reconciler.forge.client import escape
from reconciler.forge.github import GitHub, may, pull_request

_PAGE = 50  # the default of a server's most items of a page


class Gitea(GitHub):
    """One repository, `OWNER/NAME`. The limit of a body is a setting of the server; here it is that of GitHub."""

    kind = "gitea"
    rights: Mapping[str, str] = {
        "repository": "read:repository",
        "pulls": "write:repository",
        "comments": "write:issue",
        "statuses": "write:repository",
    }
    writers: Sequence[str] = ("owner", "admin", "write")
    comment_page: Mapping[str, int] = {}  # it lists all at once
    review_page: Mapping[str, int] = {"limit": _PAGE}

    @staticmethod
    def parse(found: Mapping[str, Any]) -> ChangeRequest:
        """Return the pull request of an answer: `ref` is another one where the branch is gone."""
        return pull_request(found, "label")

    def of_branch(self, branch: str) -> Sequence[ChangeRequest]:
        """Return the pull requests from a branch, the newest first: of all, because Gitea filters none by branch."""
        found = self._list(state="all", sort="recentupdate", limit=_PAGE)
        ours = (one for one in found if one.branch == branch and not one.is_fork)
        return sorted(ours, key=lambda one: -one.number)

    def open_requests(self) -> Iterator[ChangeRequest]:
        """Yield all open pull requests, the oldest first."""
        yield from self._list(state="open", sort="oldest", limit=_PAGE)

    def annotate(self, commit: str, name: str, summary: str, annotations: Sequence[Annotation]) -> bool:  # noqa: ARG002 - the port
        """Gitea has no annotations."""
        return False

    def owns(self, owner: str, user: str) -> bool:
        """Return whether a user is in a team with access to the repository, if the token may see who is in it."""
        name = owner.rpartition("/")[2].lower()
        teams = self._client.pages(f"{self._path}/teams", self.rights["repository"], _team) if "/" in owner else ()
        paths = (f"/teams/{number}/members/{escape(user)}" for number, team in teams if team == name)
        return any(may(lambda at=path: self._client.get(at, "read:organization", bool)) for path in paths)  # type: ignore[misc]

    def _list(self, **query: object) -> Sequence[ChangeRequest]:
        return self._client.pages(f"{self._path}/pulls", self.rights["repository"], self.parse, **query)


def _team(found: Mapping[str, Any]) -> tuple[int, str]:
    return int(found["id"]), str(found["name"]).lower()
