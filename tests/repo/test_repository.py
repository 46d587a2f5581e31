"""The Repository port: the real Git adapter and the one in memory give the same answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from reconciler.errors import RepositoryError, StalePlan, UnsafePlan
from reconciler.plan.outputs.commit import PLAN_DIGEST, SOURCE_COMMIT, Committed, commit, compose, trailers_of
from reconciler.repo.port import Draft, Repository
from tests.fakes.gitrepo import Sandbox
from tests.fakes.repository import MemoryRepository


class Bench(Protocol):
    """A repository with hands: what a user does around ours."""

    def save(self, files: Mapping[str, bytes | None]) -> str: ...
    def edit(self, files: Mapping[str, bytes | None]) -> None: ...
    def switch(self, branch: str) -> None: ...
    def detach(self) -> None: ...
    def open(self) -> Repository: ...


class GitBench:
    def __init__(self, folder: Path) -> None:
        self.box = Sandbox.init(folder)

    def save(self, files: Mapping[str, bytes | None]) -> str:
        return self.box.commit(files)

    def edit(self, files: Mapping[str, bytes | None]) -> None:
        self.box.write(files)

    def switch(self, branch: str) -> None:
        self.box.git("switch", "--quiet", "--create", branch)

    def detach(self) -> None:
        self.box.git("checkout", "--quiet", "--detach")

    def open(self) -> Repository:
        return self.box.open()


class MemoryBench:
    def __init__(self) -> None:
        self.repository = MemoryRepository()

    def save(self, files: Mapping[str, bytes | None]) -> str:
        return self.repository.save(files)

    def edit(self, files: Mapping[str, bytes | None]) -> None:
        for path, data in files.items():
            if data is None:
                del self.repository.work[path]
            else:
                self.repository.work[path] = data

    def switch(self, branch: str) -> None:
        self.repository.branches[branch] = self.repository.resolve("HEAD").oid
        self.repository.current = branch

    def detach(self) -> None:
        self.repository.detached = self.repository.resolve("HEAD").oid
        self.repository.current = None

    def open(self) -> Repository:
        return self.repository


@pytest.fixture(params=["memory", "git"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return MemoryBench() if request.param == "memory" else GitBench(tmp_path / "repo")


def at(repository: Repository, revision: str) -> dict[str, bytes]:
    tree = repository.tree(repository.resolve(revision).oid)
    return dict(zip(tree, repository.read(entry.oid for entry in tree.values()), strict=True))


def work(repository: Repository) -> dict[str, bytes]:
    tree = repository.work_tree()
    return dict(zip(tree, repository.read(entry.oid for entry in tree.values()), strict=True))


FIRST = {"jobs/a.yaml": b"a", "jobs/team/b.yaml": b"b", "rendered/c/a.yaml": b"ra", "rendered/c/b.yaml": b"rb"}


def test_a_revision_is_read_as_it_was_committed(bench: Bench) -> None:
    oid = bench.save(FIRST)
    bench.edit({"jobs/a.yaml": b"edited", "jobs/new.yaml": b"n", "jobs/team/b.yaml": None})
    repository = bench.open()
    commit = repository.resolve("HEAD")
    assert (commit.oid, commit.parents, commit.subject) == (oid, (), "change")
    assert commit.committed_at == "2025-06-15T17:06:40+02:00"
    assert at(repository, "HEAD") == at(repository, "main") == at(repository, "refs/heads/main") == FIRST
    assert set(repository.tree(oid, ("jobs",))) == {"jobs/a.yaml", "jobs/team/b.yaml"}
    assert set(repository.tree(oid, ("jobs/team", "rendered/c/a.yaml"))) == {"jobs/team/b.yaml", "rendered/c/a.yaml"}
    assert repository.tree(oid, ("job", "nothing")) == {}


def test_the_working_tree_has_what_is_not_committed(bench: Bench) -> None:
    oid = bench.save(FIRST)
    assert work(bench.open()) == FIRST
    bench.edit({"jobs/a.yaml": b"edited", "jobs/new.yaml": b"n", "jobs/team/b.yaml": None})
    repository = bench.open()
    assert set(work(repository)) == {"jobs/a.yaml", "jobs/new.yaml", "rendered/c/a.yaml", "rendered/c/b.yaml"}
    assert work(repository)["jobs/a.yaml"] == b"edited"
    assert set(repository.work_tree(("jobs",))) == {"jobs/a.yaml", "jobs/new.yaml"}
    changed = repository.changed_since(oid, ("jobs",))
    assert {path: entry is None for path, entry in changed.items()} == {
        "jobs/a.yaml": False, "jobs/new.yaml": False, "jobs/team/b.yaml": True,
    }  # fmt: skip


def test_changes_are_looked_for_in_advance_and_given_once(bench: Bench) -> None:
    oid = bench.save(FIRST)
    repository = bench.open()
    bench.edit({"jobs/a.yaml": b"edited"})
    with repository.comparing(oid, ("jobs",)):
        pass
    bench.edit({"jobs/a.yaml": None})
    assert set(repository.changed_since(oid, ("rendered",))) == set()
    (early,) = repository.changed_since(oid, ("jobs",)).values()
    assert early is not None
    assert repository.changed_since(oid, ("jobs",)) == {"jobs/a.yaml": None}


def test_commits_are_compared(bench: Bench) -> None:
    first = bench.save(FIRST)
    second = bench.save({"jobs/a.yaml": b"2", "jobs/team/b.yaml": None, "jobs/c.yaml": b"c"})
    repository = bench.open()
    changed = repository.changed(first, second)
    assert {path: (old is not None, new is not None) for path, (old, new) in changed.items()} == {
        "jobs/a.yaml": (True, True), "jobs/team/b.yaml": (True, False), "jobs/c.yaml": (False, True),
    }  # fmt: skip
    assert set(repository.changed(first, second, ("rendered",))) == set()
    assert repository.merge_base(first, second) == first
    assert repository.last_change(second, "rendered") == first
    assert repository.last_change(second, "jobs") == second
    assert repository.last_change(second, "nothing") is None
    assert repository.upstream_default() is None


def test_commits_are_merged_without_a_trace(bench: Bench) -> None:
    first = bench.save(FIRST)
    second = bench.save({"jobs/a.yaml": b"2", "jobs/team/b.yaml": None})
    repository = bench.open()
    other = repository.commit(Draft(parent=first, files={"jobs/c.yaml": b"c"}, message="m", branch="other"))
    assert other is not None
    merged = repository.tree(repository.merge(second, other))
    (content,) = repository.read([merged["jobs/a.yaml"].oid])
    assert content == b"2"
    assert set(merged) == {"jobs/a.yaml", "jobs/c.yaml", "rendered/c/a.yaml", "rendered/c/b.yaml"}
    assert repository.resolve("HEAD").oid == second
    assert repository.changed_since(second) == {}
    clash = repository.commit(Draft(parent=first, files={"jobs/a.yaml": b"3"}, message="m", branch="clash"))
    assert clash is not None
    with pytest.raises(StalePlan, match=r"conflicts in 1 file.*jobs/a.yaml"):
        repository.merge(second, clash)


def test_contents_come_in_the_order_asked_for(bench: Bench) -> None:
    bench.save(FIRST)
    bench.edit({"x": b"x\n" * 3, "y": b""})
    repository = bench.open()
    tree = repository.work_tree()
    paths = ["y", "jobs/a.yaml", "x", "x", "rendered/c/b.yaml", "jobs/a.yaml"]
    assert list(repository.read(tree[path].oid for path in paths)) == [b"", b"a", b"x\n" * 3, b"x\n" * 3, b"rb", b"a"]
    assert list(repository.read([])) == []
    with pytest.raises(RepositoryError):
        list(repository.read([tree["y"].oid, "0" * 39 + "1"]))


FILES: dict[str, bytes | None] = {"rendered/c/a.yaml": b"new", "rendered/c/b.yaml": None, "rendered/d/c.yaml": b"rc"}


def draft(
    parent: str,
    *,
    files: Mapping[str, bytes | None] = FILES,
    branch: str | None = None,
    replaces: str | None = None,
) -> Draft:
    return Draft(parent=parent, files=files, message="render\n", branch=branch, replaces=replaces)


def test_a_commit_changes_its_files_and_nothing_else(bench: Bench) -> None:
    parent = bench.save(FIRST)
    bench.edit({"jobs/a.yaml": b"edited", "notes": b"mine"})
    repository = bench.open()
    oid = repository.commit(draft(parent))
    assert oid
    after = {"jobs/team/b.yaml": b"b", "rendered/c/a.yaml": b"new", "rendered/d/c.yaml": b"rc"}
    assert repository.resolve("main").oid == oid
    assert repository.resolve(oid).parents == (parent,)
    assert at(repository, "HEAD") == after | {"jobs/a.yaml": b"a"}
    assert work(bench.open()) == after | {"jobs/a.yaml": b"edited", "notes": b"mine"}
    assert bench.open().commit(draft(oid)) is None


def test_a_commit_on_a_branch_leaves_everything_else(bench: Bench) -> None:
    parent = bench.save(FIRST)
    bench.edit({"rendered/c/a.yaml": b"edited"})
    repository = bench.open()
    oid = repository.commit(draft(parent, branch="feat/render"))
    assert oid
    tip = repository.branch("feat/render")
    assert tip is not None
    assert (tip.oid, tip.parents, tip.message) == (oid, (parent,), "render\n")
    assert repository.head_branch() == "main"
    assert repository.resolve("HEAD").oid == parent
    assert work(bench.open()) == FIRST | {"rendered/c/a.yaml": b"edited"}
    assert repository.commit(draft(parent, branch="feat/render", replaces=oid)) is None
    assert repository.branch("other") is None
    with pytest.raises(StalePlan):
        repository.commit(draft(parent, branch="feat/render"))


def test_a_branch_that_moved_makes_the_plan_stale(bench: Bench) -> None:
    first = bench.save(FIRST)
    second = bench.save({"jobs/a.yaml": b"2"})
    with pytest.raises(StalePlan) as caught:
        bench.open().commit(draft(first))
    assert caught.value.hint
    assert bench.open().resolve("HEAD").oid == second


@pytest.mark.parametrize(
    "edit",
    [
        {"rendered/c/a.yaml": b"mine"},
        {"rendered/c/b.yaml": b"mine"},
        {"rendered/d/c.yaml": b"mine"},
        {"rendered/c/a.yaml": None},
    ],
)
def test_edits_of_the_user_are_not_lost(bench: Bench, edit: dict[str, bytes | None]) -> None:
    parent = bench.save(FIRST)
    bench.edit(edit)
    before = work(bench.open())
    with pytest.raises(UnsafePlan):
        bench.open().commit(draft(parent))
    assert work(bench.open()) == before
    assert bench.open().resolve("HEAD").oid == parent


def test_what_is_already_as_it_should_be_is_no_conflict(bench: Bench) -> None:
    """Sources of the working tree are committed along by giving their contents; half of a crash looks the same."""
    parent = bench.save(FIRST)
    bench.edit({"jobs/a.yaml": b"edited", "rendered/c/b.yaml": None, "rendered/d/c.yaml": b"rc"})
    repository = bench.open()
    files = {"jobs/a.yaml": b"edited", "rendered/c/b.yaml": None, "rendered/d/c.yaml": b"rc"}
    assert repository.commit(draft(parent, files=files))
    assert at(repository, "HEAD") == work(bench.open())


def test_a_detached_head_moves(bench: Bench) -> None:
    parent = bench.save(FIRST)
    bench.detach()
    repository = bench.open()
    assert repository.head_branch() is None
    oid = repository.commit(draft(parent))
    assert repository.resolve("HEAD").oid == oid
    assert repository.resolve("main").oid == parent


TRAILERS = {PLAN_DIGEST: "sha256:1", SOURCE_COMMIT: "abc"}


def output(bench: Bench, branch: str | None = None, content: bytes = b"new") -> Committed | None:
    repository = bench.open()
    head = repository.resolve("HEAD").oid
    return commit(
        repository,
        files={"rendered/c/a.yaml": content},
        message="Render",
        trailers=TRAILERS,
        branch=branch,
        expected_head=head,
    )


def test_the_output_commits_once_with_trailers(bench: Bench) -> None:
    bench.save(FIRST)
    done = output(bench)
    assert done is not None
    assert done.branch == "main"
    tip = bench.open().resolve(done.oid)
    assert tip.message == f"Render\n\n{PLAN_DIGEST}: sha256:1\n{SOURCE_COMMIT}: abc\n"
    assert trailers_of(tip.message) == TRAILERS
    assert output(bench) is None
    assert output(bench, branch="main", content=b"newer") is not None


def test_a_branch_of_ours_is_made_again_and_one_of_others_is_not(bench: Bench) -> None:
    bench.save(FIRST)
    first = output(bench, "render")
    assert output(bench, "render") is None
    head = bench.save({"jobs/a.yaml": b"2"})
    second = output(bench, "render")
    assert first
    assert second
    assert second.branch == "render"
    tip = bench.open().branch("render")
    assert tip is not None
    assert tip.parents == (head,)
    bench.switch("theirs")
    bench.save({"notes": b"mine"})
    bench.switch("third")
    bench.save({"more": b"1"})
    assert output(bench, "theirs", b"x") is not None  # all of it is part of the history: moved forward


def test_a_branch_with_work_of_others_is_left_alone(bench: Bench) -> None:
    head = bench.save(FIRST)
    bench.switch("theirs")
    theirs = bench.save({"notes": b"mine"})
    bench.switch("here")
    repository = bench.open()
    with pytest.raises(UnsafePlan, match="theirs"):
        commit(repository, files=FILES, message="m", trailers=TRAILERS, branch="theirs", expected_head=head)
    tip = repository.branch("theirs")
    assert tip is not None
    assert tip.oid == theirs


def test_messages_are_as_git_keeps_them() -> None:
    assert compose("  Subject \r\n\n\n\nBody\0  \n\n", {}) == "Subject\n\n\n\nBody\n"
    assert compose("S", {"A": "1\nB: 2"}) == "S\n\nA: 1 B: 2\n"
    assert trailers_of("S: x\n\nno trailer\nA: 1") == {}
    assert trailers_of("") == {}


def test_the_first_commit_identifies_a_repository(bench: Bench) -> None:
    """F-142: every commit of a history has the same identity."""
    first = bench.save({"a.txt": b"1"})
    second = bench.save({"a.txt": b"2"})
    repository = bench.open()
    assert repository.identity(second) == repository.identity(first) == first
