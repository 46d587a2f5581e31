"""Comments that are commands: off by default, of people with the right alone, answered once."""

import pytest

from reconciler.forge import Comment
from reconciler.forge.orders import COMMANDS, Order, answer, open_orders, read_order
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
