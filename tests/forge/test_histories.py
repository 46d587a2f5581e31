"""Random histories of people and two controllers: no duplicate, no lost edit, no refusal that is undone."""

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reconciler.errors import ReconcilerError, StalePlan
from reconciler.forge.bodies import read_marker
from reconciler.forge.commenting import put_comment
from reconciler.forge.identity import EditedFile, Owner, ProposedChange, Tip
from reconciler.forge.proposing import Proposer
from tests.forge.stub import BOT, Note, Request, StubForge

MARKER = "<!-- gpu-reconciler:plan:default -->"
FAULTS = ("", "", "", "", "unsent", "failed", "lost")
HISTORIES = 1000


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit of the model: whose it is, and what it says."""

    owner: str
    content: bytes
    on: str  # the commit of the main branch below it


@dataclass(kw_only=True)
class Git:
    """Branches of a Git server with compare and swap; every commit that ever was."""

    forge: StubForge
    commits: dict[str, Commit] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    count: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def make(self, commit: Commit) -> str:
        oid = f"{next(self.count):040x}"
        self.commits[oid] = commit
        return oid


@dataclass(kw_only=True)
class ModelBranches:
    """The port of branches over the model. It never moves over a commit of a person: that is for the real one."""

    git: Git

    def tip(self, change: ProposedChange) -> Tip | None:
        found = self.tip_of(change.branch)
        if found is None or found.owner is not Owner.OURS:
            return found
        return replace_tip(found, self.git.commits[found.oid].content == change.edits[0].after)

    def tip_of(self, branch: str) -> Tip | None:
        oid = self.git.forge.branches.get(branch)
        if oid is None:
            return None
        owner = Owner.NOBODY if oid in self.git.merged else Owner(self.git.commits[oid].owner)
        return Tip(oid=oid, owner=owner)

    def is_read(self, commit: str) -> bool:
        return commit in self.git.merged

    def push(self, change: ProposedChange, _: str, tip: Tip | None) -> None:
        branches = self.git.forge.branches
        if branches.get(change.branch) != (tip.oid if tip is not None else None):
            raise StalePlan("moved")
        content = change.edits[0].after
        assert content is not None
        branches[change.branch] = self.git.make(Commit(owner="ours", content=content, on=branches["main"]))

    def remove(self, branch: str, tip: Tip) -> None:
        if self.git.forge.branches.get(branch) != tip.oid:
            raise StalePlan("moved")
        del self.git.forge.branches[branch]


def replace_tip(tip: Tip, is_current: bool) -> Tip:
    return Tip(oid=tip.oid, owner=tip.owner, is_current=is_current)


class Histories(RuleBasedStateMachine):
    """People and two controllers on one repository, by any of the three APIs."""

    @initialize(kind=st.sampled_from(("github", "gitlab", "gitea")))
    def begin(self, kind: str) -> None:
        self.forge = StubForge(kind=kind)
        self.git = Git(forge=self.forge)
        self.refused: dict[str, set[str]] = {}
        self.theirs: dict[str, str] = {}  # the newest commit of a person, by branch
        self.comments = 0  # of a person
        self.edited: dict[int, str] = {}  # what a person wrote into a body

    def change(self, name: str, content: int) -> ProposedChange:
        edit = EditedFile(path=f"{name}.yaml", before=b"a\n", after=b"%d\n" % content)
        return ProposedChange(
            kind="health", name=name, cluster="main", title=f"Node {name}", reason=f"hot {content}", edits=(edit,)
        )

    def controller(self, name: str, content: int) -> None:
        """One pass: propose, or withdraw; and the comment about the plan on whatever is open."""
        proposer = Proposer(forge=self.forge.open(), branches=ModelBranches(git=self.git), target="main")
        with suppress(ReconcilerError):  # the next pass goes on where this one ended
            if content:
                proposer.propose([self.change(name, content)])
            else:
                mine = self.change(name, 1).branch
                proposer.withdraw("health", clusters={"main"}, is_needed=lambda one: one != mine, reason="healthy")
            for request in [one.number for one in self.forge.requests if one.state == "open"]:
                put_comment(self.forge.open(), request, MARKER, f"{MARKER}\n\nplan {content}\n")

    @rule(
        name=st.sampled_from("ab"),
        content=st.integers(0, 2),
        faults=st.lists(st.sampled_from(FAULTS), max_size=12),
        at=st.integers(0, 12),
        other=st.integers(-1, 2),
    )
    def controllers(self, name: str, content: int, faults: list[str], at: int, other: int) -> None:
        """One controller, with failures; while it works, another one makes a whole pass, perhaps with another plan."""
        closed = {one.number for one in self.forge.requests if one.state == "closed"}
        refused = {branch: set(keys) for branch, keys in self.refused.items()}
        before = {one.number for one in self.forge.requests}
        self.forge.answers = [*faults]
        if other >= 0:
            kept: list[Any] = []

            def second() -> None:
                kept[:], self.forge.answers[:] = self.forge.answers, []
                self.controller(name, other)
                self.forge.answers[:] = kept

            self.forge.before = [None] * at + [second]
        self.controller(name, content)
        self.forge.answers, self.forge.before = [], []
        last = content if other < 0 else max(content, other)
        self.controller(name, last)  # a pass that nothing disturbs
        self.is_settled(self.change(name, last), is_needed=last > 0)
        for one in self.forge.requests:
            marker = read_marker(one.body)
            assert marker is not None
            if one.number not in before:
                keys = refused.get(one.branch, set())
                assert marker.key not in keys, "a refusal was undone"
            assert not (one.number in closed and one.state == "open"), "a closed request was reopened"

    def is_settled(self, change: ProposedChange, *, is_needed: bool) -> None:
        """Check that what is needed is open, unless people refused it or took its branch, and the rest is closed."""
        found = [one for one in self.forge.requests if (one.branch, one.state) == (change.branch, "open")]
        is_taken = change.branch in self.theirs
        if is_needed and not found:
            assert is_taken or change.key in self.refused.get(change.branch, ()), "it is not proposed"
        if not is_needed and found and not is_taken:
            marker = read_marker(found[0].body)
            assert marker is not None
            assert marker.is_closed, "it is still open"  # a person opened it again

    @rule(pick=st.integers(0, 9), label=st.booleans())
    def a_person_closes(self, pick: int, label: bool) -> None:
        if (request := self.pick(pick)) is not None:
            request.state, request.head = "closed", self.forge.branches.get(request.branch, "")
            marker = read_marker(request.body)
            assert marker is not None
            if marker.is_closed:
                return  # we closed it before, and somebody reopened it
            if label:
                request.labels.add("reopen")
                self.refused.get(request.branch, set()).discard(marker.key)
            else:
                self.refused.setdefault(request.branch, set()).add(marker.key)

    @rule(pick=st.integers(0, 9))
    def a_person_merges(self, pick: int) -> None:
        if (request := self.pick(pick)) is not None and request.branch in self.forge.branches:
            oid = self.forge.branches[request.branch]
            request.state, request.head, request.merged = "merged", oid, oid
            self.git.merged.add(oid)
            self.theirs.pop(request.branch, None)
            marker = read_marker(request.body)
            assert marker is not None
            self.refused.get(request.branch, set()).discard(marker.key)

    @rule(pick=st.integers(0, 9))
    def a_person_commits(self, pick: int) -> None:
        if (request := self.pick(pick)) is not None and request.branch in self.forge.branches:
            oid = self.git.make(Commit(owner="theirs", content=b"theirs", on=self.forge.branches["main"]))
            self.forge.branches[request.branch] = self.theirs[request.branch] = oid

    @rule(pick=st.integers(0, 9))
    def a_person_deletes_the_branch(self, pick: int) -> None:
        if (request := self.pick(pick)) is not None:
            self.forge.branches.pop(request.branch, None)
            self.theirs.pop(request.branch, None)
            if self.forge.kind != "gitlab":
                self.a_person_closes(pick=pick, label=False)

    @rule(pick=st.integers(0, 9))
    def a_person_edits_the_body(self, pick: int) -> None:
        if (request := self.pick(pick)) is not None:
            self.edited[request.number] = f"Note of a person {request.number}"
            request.body = f"{request.body}\r\n{self.edited[request.number]}"

    @rule(pick=st.integers(0, 9))
    def a_person_comments(self, pick: int) -> None:
        """Also with the words that begin our own comments."""
        if (request := self.pick(pick)) is not None:
            self.comments += 1
            self.forge.notes.append(
                Note(id=self.forge._next(), request=request.number, author="eve", body=f"{MARKER} me")
            )

    @rule()
    def a_fork_uses_the_same_branch(self) -> None:
        branch = self.change("a", 1).branch
        self.forge.requests.append(
            Request(
                number=self.forge._next(),
                branch=branch,
                target="main",
                title="x",
                body=FORKED,
                author="eve",
                is_fork=True,
                state="closed",
            )
        )

    def pick(self, number: int) -> Request | None:
        found = [one for one in self.forge.requests if one.state == "open" and not one.is_fork]
        return found[number % len(found)] if found else None

    @invariant()
    def nothing_is_there_twice(self) -> None:
        if not hasattr(self, "forge"):
            return
        ours = [one.branch for one in self.forge.requests if one.state == "open" and not one.is_fork]
        assert len(ours) == len(set(ours)), "two change requests for one proposal"
        for request in self.forge.requests:
            bodies = [one.body for one in self.forge.notes if (one.request, one.author) == (request.number, BOT)]
            starts = [body.partition("\n")[0] for body in bodies]
            assert len(starts) == len(set(starts)), "a comment is there twice"

    @invariant()
    def nothing_of_people_is_lost(self) -> None:
        if not hasattr(self, "forge"):
            return
        for branch, oid in self.theirs.items():
            assert self.forge.branches.get(branch) == oid, "a commit of a person is gone"
        for number, text in self.edited.items():
            assert text in self.forge.request(number).body, "what a person wrote is gone"
        comments = [one.body for one in self.forge.notes if one.author == "eve"]
        assert comments == [f"{MARKER} me"] * self.comments, "a comment of a person is gone"


FORKED = f"<!-- gpu-reconciler:change cluster=main key={'0' * 64} text={'0' * 16} -->"

TestHistories = pytest.mark.timeout(900)(Histories.TestCase)
TestHistories.__doc__ = "F-161, FG-04, FG-10: 1,000 random histories against the stubs of the three forges."
TestHistories.settings = settings(
    max_examples=HISTORIES, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
