"""The comment about a plan: bounded, with a link; nothing about other commits than the change request has."""

import re

import msgspec
import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from reconciler.forge.reviewing import plan_comment, review
from reconciler.plan.outputs.markdown import size
from tests.forge.stub import Request, StubForge
from tests.plan.outputs.plans import everything, hostile, quiet

LINK = "https://git.example.com/team/fleet/actions/runs/9"


def test_a_long_plan_is_one_comment_with_a_link() -> None:
    """FG-02: a plan of some MB is one comment of 65,536 characters at most."""
    plan = replace(everything(), head=replace(everything().head, commit="1" * 40))
    long = replace(plan, changes=plan.changes * 2_000, risks=plan.risks * 2_000)
    stub = StubForge(branches={"b": plan.head.commit})
    stub.requests.append(Request(number=7, branch="b", target="main", title="", body=""))
    for _ in range(2):
        review(stub.open(), stub.open().request(7), long, link=LINK)
    (note,) = stub.notes
    assert len(msgspec.json.encode(long)) > 3 << 20
    assert size(note.body) <= 65_536
    assert f"\n[The whole plan]({LINK})\n" in note.body
    assert "javascript" not in plan_comment(StubForge().open(), plan, "default", "javascript:alert(1)")


def test_a_plan_of_other_commits_writes_nothing() -> None:
    """F-161: pipelines may end in any order; a plan that says nothing writes no first comment, but its status."""
    stub = StubForge()
    stub.requests.append(Request(number=7, branch="b", target="main", title="", body=""))
    stub.branches["b"] = "9" * 40
    forge = stub.open()
    plan = replace(everything(), head=replace(everything().head, commit="8" * 40))
    assert review(forge, forge.request(7), plan).is_outdated
    assert (stub.notes, stub.statuses) == ([], [])
    stub.branches["b"] = plan.head.commit
    done = review(forge, forge.request(7), plan, link=LINK)
    assert (done.is_written, len(stub.notes), stub.runs != []) == (True, 1, True)
    assert stub.statuses[0][1]["target_url"] == LINK
    silent = replace(quiet(), head=plan.head)
    stub.notes.clear()
    stub.branches["b"] = silent.head.commit
    review(forge, forge.request(7), silent)
    assert len(stub.notes) == (0 if silent.is_empty else 1)


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_what_a_plan_names_is_inert(kind: str) -> None:
    """FG-09: names, values and messages mention nobody, are no HTML and no command, and end no hidden line."""
    plan = replace(hostile(), head=replace(everything().head, commit="1" * 40))
    stub = StubForge(kind=kind, branches={"b": "1" * 40})
    stub.requests.append(Request(number=7, branch="b", target="main", title="", body=""))
    review(stub.open(), stub.open().request(7), plan)
    (note,) = stub.notes
    shown = MarkdownIt("commonmark", {"html": True}).enable("table").render(note.body)
    plain = re.sub(r"<(code|pre)\b.*?</\1>", "", shown, flags=re.DOTALL)
    assert not re.search(r"<(img|script|a href=.?javascript)", shown)
    assert "@everyone" not in plain
    assert note.body.count("<!--") == note.body.count("-->") == 2
    assert not note.body.startswith("/")
    assert all("@everyone" not in said["description"] for _, said in stub.statuses)
