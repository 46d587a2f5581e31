"""A config repository whose `origin` is a folder, with a stub of its forge: for tests without a server."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.forge.checkouts import reopener
from reconciler.forge.rounds import RequestRound, RoundDone, Seen
from reconciler.plan import opening
from reconciler.repo.checkout import CheckoutRemote
from tests.cli.fleet import Fleet, run_verb
from tests.forge.stub import BOT, Request, StubForge


class RemoteBranches(dict[str, str]):
    """The branches of a Git server as its forge shows them. `git` runs a command in its repository."""

    def __init__(self, git: Callable[..., str]) -> None:
        self._git = git

    def __contains__(self, branch: object) -> bool:
        return bool(self.get(str(branch)))

    def __getitem__(self, branch: str) -> str:
        return self.get(branch)

    def get(self, branch: str, default: str = "") -> str:  # type: ignore[override]
        return self._git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").strip() or default


@dataclass(kw_only=True)
class Project:
    """A fleet whose `origin` is a folder, and a stub of its forge."""

    fleet: Fleet
    stub: StubForge
    seen: Seen = field(default_factory=dict)

    def push(self, branch: str, number: int = 0) -> str:
        """Push HEAD to a branch, and to the reference of a change request."""
        oid = self.fleet.git("rev-parse", "HEAD")
        kind = "merge-requests" if self.stub.kind == "gitlab" else "pull"
        more = [f"HEAD:refs/{kind}/{number}/head"] if number else []
        self.fleet.git("push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}", *more)
        return oid

    def request(self, branch: str, *, is_fork: bool = False) -> Request:
        """Commit all edits on a branch, and open a change request."""
        number = self.stub._next()
        self.fleet.git("switch", "--quiet", "--create", branch)
        self.fleet.commit()
        self.push(branch, number)
        made = Request(number=number, branch=branch, target="main", title="", body="", author="eve", is_fork=is_fork)
        self.stub.requests.append(made)
        self.fleet.git("switch", "--quiet", "main")
        return made

    def round(self, **changes: object) -> RoundDone:
        """Make a round by the commit that `main` is at."""
        environ = {**os.environ}
        run = opening.open_run(str(self.fleet.root), {"revision": "main"}, environ)
        reopen = reopener(run, {}, environ, run.workspace.tree.commit_id)
        remote = CheckoutRemote(self.fleet.root)
        given = {"target": "main", "reopen": reopen, "is_mirror": True, **changes}
        return RequestRound(self.stub.open(), remote, run, **given).make(self.seen)  # type: ignore[arg-type]

    def statuses(self, commit: str) -> list[tuple[str, str]]:
        """Return state and text of the statuses of a commit, the oldest first."""
        return [(said["state"], said["description"]) for oid, said in self.stub.statuses if oid == commit]

    def replies(self) -> list[str]:
        """Return our answers to commands."""
        return [one.body for one in self.stub.notes if one.author == BOT and "note:answer" in one.body]


def make(
    folder: Path, capture: pytest.CaptureFixture[str], kind: str = "gitea", forge: str = "", inside: str = ""
) -> Project:
    """Make a fleet with settings of its forge; `inside` is a folder of a larger repository."""
    top = Fleet(folder / "fleet", capture)
    fleet = Fleet(top.root / inside, capture)
    if inside:
        top.root.mkdir()
        top.git("init", "--quiet", "--initial-branch=main")
    assert run_verb(capture, ["init", str(fleet.root)]).code == 0
    fleet.edit("reconciler.yaml", "  sources: [queues", f"  forge: {{kind: {kind}{forge}}}\n  sources: [queues")
    for owners in fleet.root.glob(".*/CODEOWNERS"):
        owners.write_text(owners.read_text().replace("@your-org/", "@team/"))
    fleet.commit("forge")
    fleet.git("init", "--quiet", "--bare", str(folder / "origin"))
    fleet.git("remote", "add", "origin", str(folder / "origin"))
    origin = Fleet(folder / "origin", capture)
    made = Project(fleet=fleet, stub=StubForge(kind=kind, branches=RemoteBranches(origin.git)))
    made.push("main")
    return made
