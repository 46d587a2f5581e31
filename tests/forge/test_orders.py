"""Comments that are commands: off by default, of people with the right alone, answered once."""

from pathlib import Path

import pytest

from reconciler.forge import Comment
from reconciler.forge.orders import COMMANDS, Order, answer, open_orders, read_order
from tests.cluster.bed.gitea import USER, Gitea
from tests.forge.gitea_fleet import hosted, token_of
from tests.forge.stub import BOT, Note, Request, StubForge

LINES = [
    ("/approve the jobs are done", ("approve", "the jobs are done")),
    ("/approve <!-- hidden -->why\nmore", ("approve", "why")),
    ("/plan", ("plan", "")),
    ("  /plan  ", ("plan", "")),
    ("please\n/plan", None),
    ("> /plan", None),
    ("/Plan", None),
    ("/merge", None),
    ("", None),
    ("/", None),
]


@pytest.mark.parametrize(("body", "expected"), LINES)
def test_only_the_first_line_is_a_command(body: str, expected: tuple[str, str] | None) -> None:
    """FG-08, FG-09."""
    found = read_order(Comment(id=1, author="ada", body=body), COMMANDS)
    assert (None if found is None else (found.name, found.rest)) == expected
    assert read_order(Comment(id=1, author="ada", body=body), ()) is None, "off by default"


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_each_command_is_answered_once(kind: str) -> None:
    """FG-08: an outsider gets a reply alone; our own comments, and commands in them, are none."""
    stub = StubForge(kind=kind)
    stub.requests.append(Request(number=7, branch="b", target="main", title="", body=""))
    for author, body in (("eve", "/approve @everyone"), ("ada", "/approve because"), (BOT, "/plan"), ("ada", "/plan")):
        stub.notes.append(Note(id=stub._next(), request=7, author=author, body=body))
    forge, asked = stub.open(), []

    def carry_out(order: Order) -> str:
        asked.append((order.author, order.name, order.rest))
        return "done"

    for _ in range(2):
        answer(forge, forge.request(7), open_orders(forge, forge.request(7), ("approve",)), carry_out)
    assert asked == [("ada", "approve", "because")]
    replies = [one.body for one in stub.notes if one.author == BOT and "note:answer" in one.body]
    assert len(replies) == 2
    assert "was not carried out" in replies[0]
    assert "@everyone" not in replies[0]


def test_a_code_owner_approves_by_a_comment(
    gitea: Gitea, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FG-08: the approval of exactly this plan is a commit on the branch; an outsider's comment is none."""
    host = hosted(gitea, tmp_path, capsys, monkeypatch)
    host.fleet.edit("reconciler.yaml", "forge: {", "forge: {commands: [approve], ")
    host.fleet.commit()
    host.push("main")
    host.fleet.git("fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
    host.fleet.git("switch", "-q", "-c", "change")
    for job in (host.fleet.root / "jobs").rglob("*.yaml"):
        job.unlink()
    host.fleet.commit()
    first = host.push("change")
    number = host.call("POST", "/pulls", {"title": "T", "head": "change", "base": "main"})["number"]
    people = {name: token_of(gitea, f"{name}-{host.name}", "all") for name in ("eve", "owner")}
    host.call("PUT", f"/collaborators/owner-{host.name}", {"permission": "write"})
    for token in people.values():
        robot, host.gitea = host.gitea, Gitea(url=gitea.url, token=token, folder=gitea.folder)
        host.call("POST", f"/issues/{number}/comments", {"body": "/approve the jobs are done"})
        host.gitea = robot
    done = host.run("forge", "answer", "--request", str(number))
    assert (done.code, f"of owner-{host.name}" in done.out, "eve" in done.out) == (0, True, False), done
    replies = [one["body"] for one in host.comments(number) if one["user"]["login"] == USER]
    assert ["not carried out" in replies[0], "Approved through" in replies[1]] == [True, True]
    assert host.fleet.git("rev-parse", "HEAD~1") == first
    assert host.fleet.git("ls-remote", "origin", "refs/heads/change").split()[0] == host.fleet.git("rev-parse", "HEAD")
    assert host.run("plan", "--revision", "HEAD", "--base", "origin/main").code == 0
