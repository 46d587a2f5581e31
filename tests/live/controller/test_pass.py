"""One pass over a source on a real Git server: observe and commit mode, and everything that goes wrong."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request, reconcile
from reconciler.controller.sources.source import ConfigSource, Mode
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer

Pass = Callable[..., PassOutcome]
QUEUE = b"""\
apiVersion: v1
kind: Namespace
metadata:
  name: NAME
"""


def job(name: str) -> dict[str, bytes | None]:
    return {f"jobs/{name}.yaml": QUEUE.replace(b"NAME", name.encode())}


def push(person: Sandbox, files: dict[str, bytes | None], message: str = "change") -> str:
    person.git("pull", "-q", "--rebase", "origin", "main")
    made = person.commit(files, message)
    person.git("push", "-q", "origin", "main")
    return made


@pytest.fixture
def source(server: GitServer, person: Sandbox) -> ConfigSource:
    return ConfigSource(namespace="default", name="fleet", url=server.url, mode=Mode.COMMIT, timeout=60)


@pytest.fixture
def run(source: ConfigSource, tmp_path: Path) -> Pass:
    """Return a function that makes one pass, with changes of the source."""

    def make(accepted: str = "", replica: str = "one", **changes: object) -> PassOutcome:
        request = Request(
            source=replace(source, **changes), folder=str(tmp_path / f"state-{replica}"), accepted=accepted
        )
        return reconcile(request, dict(os.environ))

    return make


def test_observe_plans_and_writes_nothing(server: GitServer, person: Sandbox, run: Pass) -> None:
    """F-144: reconcile twice, and the desired tree does not differ."""
    tip = push(person, job("blue"))
    for seen in (run(mode=Mode.OBSERVE), run(mode=Mode.OBSERVE)):
        assert seen.failure is None, seen.failure
        assert (seen.revision, seen.commit) == (f"main@sha1:{tip}", tip)
        assert seen.plan is not None
        assert seen.plan.changes == {"create": 1}
        assert seen.message == "1 change pending (1 create)"
        assert server.tip() == tip
        names = [span.name for span in seen.spans]
        assert names == ["fetch", "open", "plan", "reconcile"], "F-135: one span for each stage"


@pytest.mark.parametrize("path", ["", "/", ".", "./", "jobs/.."])
def test_a_folder_is_found_however_its_path_is_written(
    server: GitServer, person: Sandbox, run: Pass, path: str
) -> None:
    """Flux users write `./`."""
    push(person, job("blue"))
    outcome = run(mode=Mode.OBSERVE, path=path)
    assert outcome.failure is None, outcome.failure
    assert outcome.message == "1 change pending (1 create)"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nope", "there is no reconciler.yaml in the folder nope of the repository; correct spec.path"),
        ("./jobs/", "there is no reconciler.yaml in the folder jobs of the repository; correct spec.path"),
        ("../x", "spec.path leads out of the repository: ../x; name the folder of reconciler.yaml"),
        ("jobs/../../x", "spec.path leads out of the repository: jobs/../../x; name the folder of reconciler.yaml"),
    ],
)
def test_a_wrong_path_stalls_without_a_folder_of_the_controller(
    server: GitServer, run: Pass, path: str, message: str
) -> None:
    failed = run(mode=Mode.OBSERVE, path=path).failure
    assert failed is not None
    assert (failed.reason, failed.stalled, failed.message) == ("InvalidConfiguration", True, message)


def test_a_branch_that_git_does_not_allow_stalls(server: GitServer, person: Sandbox, run: Pass) -> None:
    """Its schema cannot tell: only a change of the source helps."""
    push(person, job("blue"))
    failed = run(branch="a..b").failure
    assert failed is not None
    assert (failed.reason, failed.stalled) == ("InvalidConfiguration", True)
    assert "'a..b' is not a valid branch name" in failed.message


def test_commit_renders_pushes_and_then_rests(server: GitServer, person: Sandbox, run: Pass) -> None:
    tip = push(person, job("blue"))
    made = run()
    assert made.failure is None, made.failure
    assert (made.push_result, made.pushed, made.commit) == ("pushed", server.tip(), server.tip())
    assert made.tips == {"refs/heads/main": server.tip()}
    assert server.git("rev-parse", "main^") == tip
    changed = server.git("show", "--format=", "--name-only", "main").split()
    assert len(changed) == 1
    assert changed[0].startswith("rendered/")
    assert "Reconciler-Plan-Digest: sha256:" in server.git("log", "-1", "--format=%B", "main")
    again = run(accepted=made.commit)
    assert (again.push_result, again.pushed) == ("unchanged", "")
    assert server.tip() == made.pushed, "our own commit causes no other"


def test_two_replicas_make_one_commit(server: GitServer, person: Sandbox, run: Pass) -> None:
    tip = push(person, job("blue"))
    other: list[PassOutcome] = []

    def race(name: str) -> None:
        if name == "info/refs?service=git-receive-pack".rpartition("/")[2] and not other:
            server.before = lambda _: None
            other.append(run(replica="two"))

    server.before = race
    mine = run()
    # Two commits of the same second are one and the same commit, which may be pushed twice.
    results = [outcome.push_result for outcome in (mine, *other)]
    failures = [outcome.failure for outcome in (mine, *other)]
    assert failures == [None, None]
    assert results == ["unchanged", "pushed"] or (results == ["pushed", "pushed"] and mine.pushed == other[0].pushed)
    assert server.git("rev-list", "--count", f"{tip}..main") == "1"


def test_a_person_who_pushes_meanwhile_loses_nothing(server: GitServer, person: Sandbox, run: Pass) -> None:
    push(person, job("blue"))
    theirs: list[str] = []

    def race(name: str) -> None:
        if "receive-pack" in name and not theirs:
            theirs.append(push(person, job("green")))

    server.before = race
    made = run()
    assert (made.push_result, made.failure) == ("pushed", None)
    assert server.git("rev-parse", "main^") == theirs[0]
    rendered = server.git("ls-tree", "-r", "--name-only", "main", "rendered")
    assert all(name in rendered for name in ("blue", "green"))


def test_a_forced_push_is_followed(server: GitServer, person: Sandbox, run: Pass) -> None:
    push(person, job("blue"))
    first = run()
    person.git("fetch", "-q")
    person.git("reset", "-q", "--hard", "HEAD^")
    person.commit(job("green"))
    person.git("push", "-q", "--force", "origin", "main")
    made = run(accepted=first.commit)
    assert (made.push_result, made.failure) == ("pushed", None)
    rendered = server.git("ls-tree", "-r", "--name-only", "main", "rendered")
    assert "green" in rendered
    assert "blue" not in rendered


def test_a_protected_branch_stalls_and_says_why(server: GitServer, person: Sandbox, run: Pass) -> None:
    tip = push(person, job("blue"))
    server.hook(
        "while read old new ref; do [ $ref = refs/heads/main ] && echo 'GH006: Protected branch update failed' >&2 "
        "&& exit 1; done; exit 0"
    )
    made = run()
    assert made.failure is not None
    assert (made.push_result, made.failure.reason, made.failure.stalled) == ("rejected", "PushRejected", True)
    assert "spec.commit.branch" in made.failure.message
    assert server.tip() == tip
    proposed = run(branch="rendered/main")
    assert (proposed.failure, proposed.push_result, proposed.revision) == (None, "pushed", f"main@sha1:{tip}")


def test_another_branch_holds_one_commit_on_top(server: GitServer, person: Sandbox, run: Pass) -> None:
    for name in ("blue", "green"):
        tip = push(person, job(name))
        made = run(branch="proposal")
        assert (made.push_result, made.failure) == ("pushed", None)
        assert server.tip() == tip
        assert server.git("rev-parse", "proposal^") == tip
        assert run(branch="proposal").push_result == "unchanged"
    person.git("fetch", "-q", "origin", "proposal")
    person.git("checkout", "-q", "FETCH_HEAD")
    theirs = person.commit({"README.md": b"by hand\n"})
    person.git("push", "-q", "origin", "HEAD:proposal")
    person.git("checkout", "-q", "main")
    push(person, job("red"))
    refused = run(branch="proposal")
    assert refused.failure is not None
    assert (refused.failure.reason, refused.failure.stalled) == ("UnsafePlan", True)
    assert server.tip("proposal") == theirs


@pytest.mark.parametrize("how", ["merged", "squashed", "withdrawn"])
def test_the_branch_of_a_proposal_that_is_done_is_removed(
    server: GitServer, person: Sandbox, run: Pass, how: str
) -> None:
    """Merged, squashed by the forge, or left over because the change was taken back."""
    push(person, job("blue"))
    assert run(branch="proposal").push_result == "pushed"
    tip = server.tip("proposal")
    if how == "withdrawn":
        push(person, {"jobs/blue.yaml": None})
    else:
        person.git("fetch", "-q", "origin", "proposal")
        person.git("merge", "-q", *(["--squash"] if how == "squashed" else ["--ff-only"]), "FETCH_HEAD")
        person.git("commit", "-q", "--allow-empty", "-m", "more")
        person.git("push", "-q", "origin", "main")
    head = server.tip()
    done = run(branch="proposal")
    assert (done.failure, done.push_result, done.commit) == (None, "unchanged", head)
    assert done.message == "rendered/ is up to date; removed branch proposal, which is no longer needed"
    assert done.tips == {"refs/heads/main": head}
    assert server.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert run(branch="proposal").message == "rendered/ is up to date"
    push(person, job("green"))
    assert run(branch="proposal").push_result == "pushed"
    assert server.tip("proposal") != tip


def test_a_branch_that_others_use_is_never_removed(server: GitServer, person: Sandbox, run: Pass) -> None:
    """A branch of a person, and one that moves at the last moment."""
    assert run().push_result in ("pushed", "unchanged")
    person.git("pull", "-q", "--rebase", "origin", "main")
    person.git("push", "-q", "origin", "main:refs/heads/theirs")
    mine = person.commit({"README.md": b"by hand\n"})
    person.git("push", "-q", "origin", "HEAD:refs/heads/theirs")
    person.git("reset", "-q", "--hard", "origin/main")
    kept = run(branch="theirs")
    assert kept.failure is not None
    assert kept.failure.reason == "UnsafePlan"
    assert server.tip("theirs") == mine

    push(person, job("blue"))
    assert run(branch="proposal").push_result == "pushed"
    push(person, {"jobs/blue.yaml": None})
    person.git("fetch", "-q", "origin", "proposal")
    person.git("checkout", "-q", "FETCH_HEAD")
    moved = person.commit({"README.md": b"by hand\n"})
    person.git("checkout", "-q", "main")

    def race(name: str) -> None:
        if "receive-pack" in name:
            server.before = lambda _: None
            person.git("push", "-q", "origin", f"{moved}:refs/heads/proposal")

    server.before = race
    raced = run(branch="proposal")
    assert raced.failure is None
    assert "branch proposal was not removed: branch proposal moved" in raced.message
    assert server.tip("proposal") == moved


@pytest.mark.parametrize(
    ("fault", "reason"), [("down", "RemoteUnavailable"), ("corrupt", "CorruptData"), ("html", "RefNotFound")]
)
def test_a_fault_of_the_server_is_retried_and_changes_nothing(
    server: GitServer, person: Sandbox, run: Pass, fault: str, reason: str
) -> None:
    made = run()
    tip = push(person, job("blue"))
    server.fault = fault
    failed = run(accepted=made.commit)
    assert failed.failure is not None
    assert (failed.failure.reason, failed.failure.stalled, failed.plan) == (reason, False, None)
    assert server.tip() == tip
    server.fault = ""
    assert run(accepted=made.commit).push_result == "pushed"


def test_invalid_sources_stall_with_their_place(server: GitServer, person: Sandbox, run: Pass) -> None:
    push(person, {"jobs/bad.yaml": b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: Not_Valid\n"})
    failed = run()
    assert failed.failure is not None
    assert (failed.failure.reason, failed.failure.stalled) == ("InvalidInput", True)
    assert "jobs/bad.yaml:4" in failed.failure.message


def test_sources_that_vanish_are_not_a_reason_to_delete(server: GitServer, person: Sandbox, run: Pass) -> None:
    first = run()
    sources = person.git("ls-files", "jobs", "queues").splitlines()
    push(person, dict.fromkeys(sources))
    before = server.git("ls-tree", "-r", "--name-only", "main", "rendered")
    failed = run(accepted=first.commit)
    assert failed.failure is not None
    assert (failed.failure.reason, failed.failure.stalled) == ("UnsafePlan", True)
    assert server.git("ls-tree", "-r", "--name-only", "main", "rendered") == before
