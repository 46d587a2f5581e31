"""A config repository on the real Gitea, for tests that act as its users and as its pipeline."""

import base64
import json
import secrets
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fleet import IDENTITY, Fleet, Ran, run_verb
from tests.cluster.bed.gitea import USER, Gitea
from tests.cluster.server import wait_until


@dataclass(kw_only=True)
class Hosted:
    """A fleet whose `origin` is on Gitea."""

    fleet: Fleet
    gitea: Gitea
    name: str
    owner: str = USER

    @property
    def path(self) -> str:
        return f"/repos/{self.owner}/{self.name}"

    def call(self, method: str, path: str, body: object = None) -> Any:
        return self.gitea.call(method, f"{self.path}{path}", body)

    def run(self, *arguments: str) -> Ran:
        return self.fleet.run(*arguments)

    def push(self, branch: str) -> str:
        """Push HEAD, and wait until Gitea has seen it."""
        oid = self.fleet.git("rev-parse", "HEAD")
        self.fleet.git("push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}")

        def seen() -> bool:
            return any(
                one["name"] == branch and one["commit"]["id"] == oid
                for one in self.call("GET", "/branches?limit=50") or ()
            )

        wait_until(seen, f"Gitea has seen {branch}")
        return oid

    def requests(self, state: str = "open") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/pulls?state={state}")
        return found

    def statuses(self, commit: str) -> list[dict[str, Any]]:
        """Return our statuses, the newest first; Gitea's own actions have others.

        Gitea sorts them by the second in which they were made, so that those of one second have no order.
        """
        found = self.call("GET", f"/commits/{commit}/statuses")
        ours = (one for one in found if one["context"].startswith("reconciler/"))
        return sorted(ours, key=lambda one: int(one["id"]), reverse=True)

    def say(self, person: str, path: str, body: object) -> None:
        """Post something as somebody else, with their token."""
        Gitea(url=self.gitea.url, token=person, folder=self.gitea.folder).call("POST", f"{self.path}{path}", body)

    def comments(self, number: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/issues/{number}/comments")
        return found


def hosted(gitea: Gitea, folder: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> Hosted:
    """Make a fleet from the template and push it."""
    for name, value in IDENTITY.items():
        patch.setenv(name, value)
    patch.setenv("RECONCILER_FORGE_TOKEN", gitea.token)
    name = f"fleet-{secrets.token_hex(4)}"
    url = gitea.create(name)
    fleet = Fleet(folder / name, capture)
    assert run_verb(capture, ["init", str(fleet.root)]).code == 0
    fleet.edit(
        "reconciler.yaml", "  sources: [queues", f"  forge: {{kind: gitea, url: {gitea.url!r}}}\n  sources: [queues"
    )
    fleet.commit("forge")
    fleet.git("remote", "add", "origin", gitea.with_token(url))
    made = Hosted(fleet=fleet, gitea=gitea, name=name)
    made.push("main")
    return made


def token_of(gitea: Gitea, user: str, *scopes: str) -> str:
    """Make a user, who is nobody in any repository, and return a token of theirs with these scopes."""
    password = secrets.token_hex(12)
    mail = f"{user}@example.com"
    account = {"username": user, "email": mail, "password": password, "must_change_password": False}
    gitea.call("POST", "/admin/users", account)
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{gitea.url}/api/v1/users/{user}/tokens",
        method="POST",
        data=json.dumps({"name": "token", "scopes": scopes}).encode(),
        headers={
            "Content-Type": "application/json",
            "Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - loopback
        return str(json.loads(response.read())["sha1"])
