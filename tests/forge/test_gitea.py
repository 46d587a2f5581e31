"""The real Gitea: one comment, one change request, and nothing that a person did is undone."""

import os
import time
from pathlib import Path

import pytest

from reconciler.controller.reconcile import ChildWork
from reconciler.controller.reconcile import Request as Asked
from reconciler.controller.reviews import review_round
from reconciler.controller.sources.source import ConfigSource
from tests.cluster.bed.gitea import USER, Gitea
from tests.forge.gitea_fleet import Hosted, hosted, token_of


@pytest.fixture
def host(gitea: Gitea, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Hosted:
    return hosted(gitea, tmp_path, capsys, monkeypatch)


def test_one_comment_is_replaced_in_place(host: Hosted) -> None:
    """F-161, FG-01: a second push keeps the comment, with a new digest; the status is that of each commit."""
    host.fleet.git("switch", "-q", "-c", "change")
    host.fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 8")
    first = host.fleet.commit()
    host.push("change")
    number = host.call("POST", "/pulls", {"title": "Smaller", "head": "change", "base": "main"})["number"]

    def comment(out: str) -> str:
        plan = str(host.fleet.root.parent / "plan.json")
        host.run("plan", "--revision", "HEAD", "--base", "origin/main", "--out", plan)
        done = host.run("forge", "comment", plan, "--request", str(number))
        assert (done.code, out in done.out) == (0, True), done
        (only,) = host.comments(number)
        return f"{only['id']} {only['body']}"

    one = comment("wrote the comment")
    assert "gpu-reconciler:plan:default" in one
    assert comment("is up to date") == one
    host.fleet.edit("jobs/vision/vit.yaml", "numGPUs: 8", "numGPUs: 24")
    second = host.fleet.commit()
    host.push("change")
    other = comment("wrote the comment")
    assert (one.split()[0], one != other) == (other.split()[0], True)
    for commit in (first, second):
        (status, *_) = host.statuses(commit)
        assert status["context"] == "reconciler/plan"


def test_a_change_request_does_not_nag(host: Hosted) -> None:
    """F-161, FG-03, FG-04: one request, updated in place; closed by a person it stays closed; commits of people stay."""
    propose = ("forge", "propose", "--kind", "quotas", "--name", "h100")
    queue = host.fleet.root / "queues/h100.yaml"

    def edited(comment: str) -> str:
        queue.write_text(f"# {comment}\n" + queue.read_text().partition("\n")[2])
        done = host.run(*propose)
        assert done.code == 0, done
        return done.out

    assert "opened" in edited("one")
    (request,) = host.requests()
    assert request["head"]["label"].startswith("reconciler/quotas/h100-")
    assert "is up to date" in edited("one")
    assert host.requests()[0]["updated_at"] == request["updated_at"]
    assert "is up to date" in edited("two")
    (updated,) = host.requests()
    assert (updated["number"], updated["head"]["label"]) == (request["number"], request["head"]["label"])
    assert updated["head"]["sha"] != request["head"]["sha"]
    host.call("PATCH", f"/pulls/{request['number']}", {"state": "closed"})
    assert "stays closed" in edited("two")
    assert host.requests() == []
    assert "opened" in edited("three")
    (again,) = host.requests()
    assert again["number"] != request["number"]
    label = again["head"]["label"]
    host.fleet.git("fetch", "-q", "origin", label)
    theirs = host.fleet.git("commit-tree", "FETCH_HEAD^{tree}", "-p", "FETCH_HEAD", "-m", "mine")
    host.fleet.git("push", "-q", "origin", f"{theirs}:refs/heads/{label}")
    for _ in range(2):
        assert "left to them" in edited("four")
    assert host.fleet.git("ls-remote", "origin", f"refs/heads/{label}").split()[0] == theirs
    (comment,) = host.comments(again["number"])
    assert "Others committed" in comment["body"]


def test_what_is_no_longer_needed_is_closed(host: Hosted) -> None:
    """F-161: with the reason, and its branch is gone; when it is needed again, it is opened again."""
    queue = host.fleet.root / "queues/h100.yaml"
    propose = ("forge", "propose", "--kind", "quotas")
    text = queue.read_text()
    for _ in range(2):
        queue.write_text(f"# more\n{text}")
        assert "opened" in host.run(*propose).out
        queue.write_text(text)
        assert host.run(*propose).code == 0
        assert host.requests() == []
    closed = host.requests("closed")
    assert len(closed) == 2
    assert "nothing to change any more" in closed[0]["body"]


def test_a_token_without_rights_changes_nothing(host: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    """FG-06: exit code 6, and the right is named."""
    token = token_of(host.gitea, host.name, "read:repository", "read:issue", "read:user")
    monkeypatch.setenv("RECONCILER_FORGE_TOKEN", token)
    done = host.run("forge", "status", "--result", "0")
    assert done.code == 6, done
    assert "write:repository" in done.err
    assert token not in done.out + done.err
    assert host.statuses("main") == []


def over_budget(host: Hosted, settings: str, owners: str) -> tuple[int, str]:
    """Set what the base says about approvals, and open a pull request that deletes all jobs; return number and head."""
    host.fleet.edit("reconciler.yaml", "forge: {", f"forge: {{{settings}, ")
    host.fleet.write(".gitea/CODEOWNERS", owners)
    host.fleet.commit()
    host.push("main")
    host.fleet.git("fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
    host.fleet.git("switch", "-q", "-c", "change")
    for job in (host.fleet.root / "jobs").rglob("*.yaml"):
        job.unlink()
    host.fleet.commit()
    head = host.push("change")
    return host.call("POST", "/pulls", {"title": "T", "head": "change", "base": "main"})["number"], head


def test_a_code_owner_approves_by_a_comment(host: Hosted) -> None:
    """FG-08: the approval of exactly this plan is a commit on the branch; others, who may push as well, get a reply."""
    people = {name: token_of(host.gitea, f"{name}-{host.name}", "all") for name in ("eve", "writer", "owner")}
    for name in ("writer", "owner"):
        host.call("PUT", f"/collaborators/{name}-{host.name}", {"permission": "write"})
    number, first = over_budget(host, "commands: [approve]", f"approvals/.* @owner-{host.name}\n")
    plan = host.fleet.root.parent / "plan.json"
    host.run("plan", "--revision", "HEAD", "--base", "origin/main", "--out", str(plan))
    assert host.run("forge", "comment", str(plan), "--request", str(number)).code == 0
    time.sleep(1.1)  # Gitea tells seconds
    for token in people.values():
        host.say(token, f"/issues/{number}/comments", {"body": "/approve the jobs are done"})
    done = host.run("forge", "answer", "--request", str(number))
    assert done.code == 0, done
    assert [name for name in people if f"of {name}-" in done.out] == ["writer", "owner"]
    outsider, writer, owner = (one["body"] for one in host.comments(number) if "note:answer" in one["body"])
    assert ("may not push" in outsider, "CODEOWNERS" in writer, "Approved through" in owner) == (True, True, True)
    assert host.fleet.git("rev-parse", "HEAD~1") == first
    made = host.fleet.git("rev-parse", "HEAD")
    assert host.fleet.git("ls-remote", "origin", "refs/heads/change").split()[0] == made
    assert host.statuses(made)[0]["status"] == "success"
    assert host.run("plan", "--revision", "HEAD", "--base", "origin/main").code == 0


def test_a_review_of_a_code_owner_approves(host: Hosted) -> None:
    """F-161: a member of the team that CODEOWNERS of the base names; a review of an older commit does not count."""
    team, owner = f"team-{host.name}", token_of(host.gitea, f"owner-{host.name}", "all")
    host.gitea.call("POST", "/orgs", {"username": team})
    made = {"name": "platform", "units": ["repo.code"], "permission": "write"}
    number = host.gitea.call("POST", f"/orgs/{team}/teams", made)["id"]
    host.gitea.call("PUT", f"/teams/{number}/members/owner-{host.name}")
    host.gitea.call("POST", f"{host.path}/transfer", {"new_owner": team, "team_ids": [number]})
    host.owner = team
    host.fleet.edit("reconciler.yaml", "url: ", f"repository: {team}/{host.name}, url: ")
    request, head = over_budget(host, "ownersApprove: true", f"approvals/.* @{team}/platform\n")
    host.say(owner, f"/pulls/{request}/reviews", {"event": "APPROVED", "body": "fine"})
    host.fleet.write("README.md", "more")
    host.fleet.commit()
    later = host.push("change")
    done = host.run("forge", "answer", "--request", str(request))
    assert (done.code, done.out, head != later) == (0, "", True), done
    host.say(owner, f"/pulls/{request}/reviews", {"event": "APPROVED", "body": "fine"})
    done = host.run("forge", "answer", "--request", str(request))
    assert (done.code, "Approved through" in done.out) == (0, True), done
    assert host.fleet.git("rev-parse", "HEAD~1") == later
    assert host.statuses(host.fleet.git("rev-parse", "HEAD"))[0]["status"] == "success"


def test_a_controller_comments_a_fork(host: Hosted, tmp_path: Path) -> None:
    """FG-05: the fork has no token and no pipeline; budgets are those of the base; a moved base is planned again."""
    eve = token_of(host.gitea, f"eve-{host.name}", "all")
    theirs = Gitea(url=host.gitea.url, token=eve, folder=host.gitea.folder)
    theirs.call("POST", f"{host.path}/forks", {})
    host.fleet.git("switch", "-q", "-c", "change")
    host.fleet.edit("reconciler.yaml", "{count: 10, share: 0.25}", "{count: 1000, share: 1}")
    host.fleet.edit("reconciler.yaml", "disruption: {share: 0.25}", "disruption: {share: 1}")
    for job in (host.fleet.root / "jobs").rglob("*.yaml"):
        job.unlink()
    head = host.fleet.commit()
    fork = f"{host.gitea.url}/eve-{host.name}/{host.name}.git".replace("://", f"://eve:{eve}@", 1)
    host.fleet.git("push", "-q", fork, "HEAD:refs/heads/change")
    opened = {"title": "T", "head": f"eve-{host.name}:change", "base": "main"}
    number = theirs.call("POST", f"{host.path}/pulls", opened)["number"]
    source = ConfigSource(
        namespace="default", name="fleet", url=f"{host.gitea.url}/{USER}/{host.name}.git", timeout=60, reviews=True
    )
    secret = {"username": USER.encode(), "password": host.gitea.token.encode()}
    asked = Asked(source=source, folder=str(tmp_path / "state"), secret=secret, work=ChildWork.REVIEWS)
    for _ in range(2):
        done = review_round(asked, dict(os.environ))
        assert done.failure is None, done.failure
    (comment,) = host.comments(number)
    assert "budget allows 25%" in comment["body"]
    host.fleet.git("switch", "-q", "main")
    host.fleet.write("README.md", "moved")
    host.fleet.commit()
    host.push("main")
    assert review_round(asked, dict(os.environ)).failure is None
    assert [one["id"] for one in host.comments(number)] == [comment["id"]]
    said = [(one["status"], one["description"]) for one in host.statuses(head)][::-1]
    assert [status for status, _ in said] == ["pending", "failure"] * 2
    assert said[2][1] == "the base moved"
