"""Change requests of a source: the controller comments plans, also of forks, and opens those of its own branches."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.controller.lanes import ReviewLane
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import ChildWork, reconcile
from reconciler.controller.reconcile import Request as Asked
from reconciler.controller.reviews import review_round
from reconciler.controller.sources.source import ConfigSource, Mode
from tests.cluster.server import wait_until
from tests.fakes.gitrepo import Sandbox
from tests.forge.project import RemoteBranches
from tests.forge.stub import BOT, Note, Request, StubForge, served
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import controller
from tests.live.controller.test_pass import job, push
from tests.live.controller.test_preempting import ENFORCE, fleet, use

TOKEN = {"forgeToken": b"canary-token"}


@dataclass(kw_only=True)
class Hosted:
    """A Git server, its forge, and the source of a controller."""

    server: GitServer
    person: Sandbox
    stub: StubForge
    source: ConfigSource
    state: Path

    def asked(self, **changes: object) -> Asked:
        source = replace(self.source, **changes)
        return Asked(
            source=source, folder=str(self.state), secret={**TOKEN, "forgeHost": self.host}, work=ChildWork.REVIEWS
        )

    @property
    def host(self) -> bytes:
        return self.stub.url.removeprefix("http://").encode()

    def round(self, **changes: object) -> PassOutcome:
        return review_round(self.asked(**changes), {**os.environ})

    def run(self, **changes: object) -> PassOutcome:
        """Make a pass in the mode commit."""
        return reconcile(self.asked(mode=Mode.COMMIT, **changes), {**os.environ})

    def request(self, branch: str, files: dict[str, bytes | None], *, is_fork: bool = False) -> Request:
        """Push a change to a branch, or to a fork, whose commits the server has as those of the change request only."""
        number = self.stub._next()
        self.person.git("switch", "-q", "-c", branch, "main")
        head = self.person.commit(files, branch)
        refs = [f"HEAD:refs/pull/{number}/head", *([] if is_fork else [f"HEAD:refs/heads/{branch}"])]
        self.person.git("push", "-q", "origin", *refs)
        self.person.git("switch", "-q", "main")
        made = Request(number=number, branch=branch, target="main", title="", body="", head=head, is_fork=is_fork)
        made.author = "eve"
        self.stub.requests.append(made)
        return made

    def states(self, commit: str) -> list[str]:
        return [said["state"] for oid, said in self.stub.statuses if oid == commit]


@pytest.fixture
def hosted(server: GitServer, person: Sandbox, tmp_path: Path) -> Iterator[Hosted]:
    stub = StubForge(kind="gitea", branches=RemoteBranches(server.git))
    with served(stub) as url:
        stub.url = url
        settings = (person.folder / "reconciler.yaml").read_text()
        forge = f"  forge: {{kind: gitea, url: {url!r}, repository: team/fleet}}\n  sources: [queues"
        push(person, {"reconciler.yaml": settings.replace("  sources: [queues", forge).encode()})
        source = ConfigSource(namespace="default", name="fleet", url=server.url, timeout=60, reviews=True)
        yield Hosted(server=server, person=person, stub=stub, source=source, state=tmp_path / "state")


def test_a_fork_is_commented_once(hosted: Hosted) -> None:
    """FG-05: without a token or a pipeline of the fork; the same commit on the same base is not planned again."""
    request = hosted.request("theirs", job("blue"), is_fork=True)
    done = [hosted.round() for _ in range(2)]
    assert [one.failure for one in done] == [None, None]
    (note,) = hosted.stub.notes
    assert ("Namespace" in note.body, note.request) == (True, request.number)
    assert hosted.states(request.head) == ["pending", "success"]
    assert [one.message for one in done] == [f"#{request.number}: 1 created, 8 unchanged", ""]


def test_two_replicas_write_one_comment(hosted: Hosted) -> None:
    """FG-10: one that lost its state looks for the comment of the other."""
    hosted.request("theirs", job("blue"), is_fork=True)
    hosted.round()
    hosted.state = hosted.state.parent / "other"
    hosted.round()
    assert len(hosted.stub.notes) == 1


def test_an_approval_is_pushed_from_the_mirror(hosted: Hosted) -> None:
    """FG-08: nothing is checked out; the commit is on the branch of the change request, and the plan passes."""
    settings = (hosted.person.folder / "reconciler.yaml").read_text()
    owners = (hosted.person.folder / ".gitea/CODEOWNERS").read_text().replace("@your-org/", "@team/")
    settings = settings.replace("forge: {", "forge: {commands: [approve], ")
    push(hosted.person, {"reconciler.yaml": settings.encode(), ".gitea/CODEOWNERS": owners.encode()})
    hosted.stub.teams = {"platform-team": {"ada"}}
    jobs = [path.relative_to(hosted.person.folder) for path in (hosted.person.folder / "jobs").rglob("*.yaml")]
    request = hosted.request("change", dict.fromkeys(map(str, jobs)))
    hosted.round()
    hosted.stub.notes.append(Note(id=99, request=request.number, author="ada", body="/approve they are done"))
    head = ""
    for _ in range(3):
        done = hosted.round()
        assert done.failure is None, done.failure
        head = hosted.stub.branches["change"]
        hosted.server.git("update-ref", f"refs/pull/{request.number}/head", head)
    assert hosted.server.git("log", "--format=%an %s", f"{request.head}..change").splitlines() == [
        f"gpu-reconciler Approve the plan of #{request.number}"
    ]
    assert hosted.states(head)[-1] == "success"
    assert sum(one.author == BOT for one in hosted.stub.notes) == 2, "the answer, and one comment about the plan"


def test_a_source_without_a_token_says_so(hosted: Hosted) -> None:
    done = review_round(replace(hosted.asked(), secret={}), {**os.environ})
    assert done.failure is not None
    assert (done.failure.reason, "forgeToken" in done.failure.message) == ("InvalidConfiguration", True)


def test_what_is_rendered_becomes_a_change_request(hosted: Hosted) -> None:
    """F-161: one, which is updated, and closed when it is not needed any more; the token of the forge is its own."""
    push(hosted.person, job("blue"))
    for name in ("blue", "red"):
        push(hosted.person, job(name))
        done = hosted.run(branch="rendered/main")
        assert done.failure is None, done.failure
    (request,) = hosted.stub.requests
    assert (request.branch, request.target, request.state) == ("rendered/main", "main", "open")
    assert "red" in request.body
    push(hosted.person, {"jobs/blue.yaml": None, "jobs/red.yaml": None})
    hosted.run(branch="rendered/main")
    assert (len(hosted.stub.requests), request.state) == (1, "closed")


def test_a_forge_that_fails_stops_no_commit(hosted: Hosted) -> None:
    """The commit is pushed, and the next pass opens its change request."""
    push(hosted.person, job("blue"))
    hosted.stub.answers = ["failed"] * 40
    done = hosted.run(branch="rendered/main")
    assert (done.push_result, done.failure is not None) == ("pushed", True)
    hosted.stub.answers = []
    hosted.run(branch="rendered/main")
    assert [one.state for one in hosted.stub.requests] == ["open"]


def test_a_suspension_over_budget_becomes_a_change_request(hosted: Hosted) -> None:
    """F-112, F-161: people decide about it; while it is open, no other is opened."""
    push(hosted.person, fleet(hosted.person, ENFORCE.replace("shareOfRunning: 1.0", "shareOfRunning: 0.25")))
    push(hosted.person, use())
    for _ in range(2):
        done = hosted.run()
        assert done.failure is None, done.failure
    (request,) = hosted.stub.requests
    assert (request.branch, "jobs/sleepy.yaml" in request.body) == ("preempt/enforce", True)


class Counting:
    """A runner that counts rounds."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def run(self, request: Asked) -> PassOutcome:
        self.made.append(request.source.name)
        return PassOutcome()

    def stop(self) -> None:
        """Have nothing to end."""


def test_a_webhook_is_followed_by_a_round() -> None:
    """Each source has its own interval; a source that is gone keeps no thread awake."""
    runner, url = Counting(), "https://git.example.com/a/b"
    names = ["often", "seldom"]
    sources = {
        name: ConfigSource(namespace="default", name=name, url=url, interval=0.1 if name == "often" else 600.0)
        for name in names
    }
    lane = ReviewLane(lambda: [Asked(source=sources[name], folder="") for name in names], runner)
    lane.start()
    try:
        wait_until(lambda: runner.made.count("often") > 1, "the interval of one")
        assert runner.made.count("seldom") == 1
        lane.hint("default/seldom")
        wait_until(lambda: runner.made.count("seldom") == 2, "the webhook")
        names.remove("often")
        lane.hint("default/seldom")
        wait_until(lambda: runner.made.count("seldom") == 3, "the source that is left")
        wait_until(lambda: lane.pause() == 15.0, "nothing but the longest pause")
    finally:
        lane.stop()


def test_a_push_to_the_base_is_followed_by_new_plans(hosted: Hosted, tmp_path: Path) -> None:
    """F-161: by the process, as users start it; the statuses say that the base moved until then."""
    request = hosted.request("theirs", job("blue"), is_fork=True)
    spec = {"url": hosted.server.url, "interval": "1s", "reviews": True, "secretRef": {"name": "git"}}
    body = {
        "apiVersion": "gpureconciler.io/v1alpha1",
        "kind": "ConfigSource",
        "metadata": {"name": "fleet"},
        "spec": spec,
    }
    (tmp_path / "sources.yaml").write_text(json.dumps(body))
    (tmp_path / "secrets/git").mkdir(parents=True)
    for name, value in {**TOKEN, "forgeHost": hosted.host}.items():
        (tmp_path / "secrets/git" / name).write_bytes(value)
    flags = ("--config", str(tmp_path / "sources.yaml"), "--secrets", str(tmp_path / "secrets"))
    with controller(tmp_path / "run", *flags) as running:
        wait_until(lambda: hosted.states(request.head) == ["pending", "success"], "the plan is commented")
        push(hosted.person, job("red"))
        wait_until(lambda: hosted.states(request.head) == ["pending", "success"] * 2, "it is planned again")
        assert any("theirs" not in one["detail"] for one in running.said("change requests"))
        assert running.stop() == 0
    assert len(hosted.stub.notes) == 1
    assert "canary-token" not in running.log.read_text()
