"""Gitea and Forgejo: the requests of GitHub, with other rights, listings and teams; there are no annotations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.forge import Annotation, ChangeRequest, ForgeError
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

    def may_write(self, user: str) -> bool:
        """Return whether a user may push, also by a team: the permission of a user leaves out what teams may do."""
        return super().may_write(user) or self._is_in(
            user, lambda team: team["units_map"].get("repo.code") in self.writers
        )

    def owns(self, owner: str, user: str) -> bool:
        """Return whether a user is in a team of the organization that has access to the repository.

        False if the token may not see who is in it, and for teams of other organizations.
        """
        organization, _, name = owner.removeprefix("@").lower().partition("/")
        return organization == self._owner.lower() and self._is_in(user, lambda team: str(team["name"]).lower() == name)

    def _is_in(self, user: str, is_meant: Callable[[Mapping[str, Any]], bool]) -> bool:
        """Return whether a user is in one of these teams; a repository of a user has none, which is an error there."""

        def is_member(team: int) -> bool:
            return may(lambda: self._client.get(f"/teams/{team}/members/{escape(user)}", "read:organization", bool))

        try:
            listed = self._client.pages(f"{self._path}/teams", self.rights["repository"], dict)
        except ForgeError as error:
            if error.status not in (403, 404, 405):
                raise
            return False
        return any(is_member(int(team["id"])) for team in listed if is_meant(team))

    def _list(self, **query: object) -> Sequence[ChangeRequest]:
        path = f"{self._path}/pulls"
        return self._client.first_pages(path, self.rights["repository"], self.parse, **query)
