"""Rounds over open change requests: forks and moved bases are planned, code owners approve, nobody else does."""

from pathlib import Path

import pytest

from reconciler.forge import Forge
from reconciler.forge.checkouts import reopener
from reconciler.forge.rounds import RoundDone
from reconciler.plan import opening
from tests.cli.fleet import IDENTITY
from tests.forge.project import Project, make
from tests.forge.stub import Note, Request


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


def delete_jobs(project: Project, *, is_fork: bool = False) -> Request:
    """Open a change request that deletes all jobs, which is over budget."""
    for job in (project.fleet.root / "jobs").rglob("*.yaml"):
        job.unlink()
    return project.request("change", is_fork=is_fork)


def test_a_fork_is_judged_by_the_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FG-05: a fork that raises the budgets is over those of the base; the comment needs no token of the fork."""
    project = make(tmp_path, capsys)
    project.fleet.edit("reconciler.yaml", "{count: 10, share: 0.25}", "{count: 1000, share: 1}")
    project.fleet.edit("reconciler.yaml", "disruption: {share: 0.25}", "disruption: {share: 1}")
    delete_jobs(project, is_fork=True)
    project.round()
    (note,) = project.stub.notes
    assert ("gpu-reconciler:plan:default" in note.body, "budget allows 25%" in note.body) == (True, True)
    assert "weakens" in note.body
    (_, (state, text)) = project.statuses(project.stub.branches["change"])
    assert (state, text.startswith("needs an approval")) == ("failure", True)


def test_a_moved_base_is_planned_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F-161: until then the status is pending; what did not change is not planned, and nothing is written, again."""
    project = make(tmp_path, capsys)
    project.fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 8")
    request = project.request("change")
    head = project.stub.branches["change"]
    assert len(project.round().lines) == 1
    project.fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    project.fleet.commit()
    project.push("main")
    assert len(project.round().lines) == 1
    states = project.statuses(head)
    assert [state for state, _ in states] == ["pending", "success"] * 2
    assert states[2][1] == "the base moved"
    (note,) = project.stub.notes
    assert "main" in note.body
    project.stub.log.clear()
    assert project.round() == RoundDone()
    assert {method for method, _, _ in project.stub.log} == {"GET"}
    request.state = "closed"
    project.round()
    assert project.seen == {}


def test_the_command_plans_all_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-161: for pipelines of pushes, in a checkout of the base."""
    project = make(tmp_path, capsys)
    project.fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 8")
    project.request("change", is_fork=True)
    monkeypatch.setattr("reconciler.forge.commands.forge.forge_of", lambda *_: project.stub.open())
    done = project.fleet.run("forge", "refresh")
    assert (done.code, done.out.startswith("#1: ")) == (0, True), done
    assert [state for state, _ in project.statuses(project.stub.branches["change"])] == ["pending", "success"]


def test_a_plan_that_ends_the_process_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the last of the next rounds, and given up after three attempts."""
    project = make(tmp_path, capsys)
    for branch in ("poison", "sound"):
        project.fleet.write("README.md", branch)
        project.request(branch)
    bad = project.stub.branches["poison"]
    run = opening.open_run(str(project.fleet.root), {"revision": "main"}, {})
    sound = reopener(run, {}, {}, run.workspace.tree.commit_id)

    def reopen(commit: str) -> opening.Run:
        if commit == bad:
            raise KeyboardInterrupt
        return sound(commit)

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            project.round(reopen=reopen)
    assert [state for state, _ in project.statuses(project.stub.branches["sound"])] == ["pending", "success"]
    project.round(reopen=reopen)
    assert project.statuses(bad)[-1] == ("failure", "the plan did not end in 3 attempts")
    assert project.round(reopen=reopen) == RoundDone()


def test_what_cannot_be_read_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The place of the error is in the status; a branch that moved meanwhile is for the next round."""
    project = make(tmp_path, capsys)
    project.fleet.write("reconciler.yaml", "kind: [")
    project.request("change")
    project.round()
    state, text = project.statuses(project.stub.branches["change"])[-1]
    assert (state, text.startswith("reconciler.yaml:2")) == ("failure", True), text
    project.stub.branches = {"change": "f" * 40}
    assert project.round() == RoundDone()
    assert project.seen[1].is_planned is False


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_reviews_of_code_owners_approve(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F-161: only for the newest commit, of those who may push, and if the base says so; then the plan passes."""
    project = make(tmp_path, capsys, kind, ", ownersApprove: true")
    stub = project.stub
    stub.teams, stub.writers = {"platform-team": {"ada", "cyd"}}, {"ada", "bob"}
    request = delete_jobs(project)
    head = stub.branches["change"]
    stub.said = [(request.number, person, "approved", head) for person in ("bob", "cyd", "eve")]
    stub.said.append((request.number, "ada", "approved", "1".zfill(40)))
    for _ in range(2):
        project.round()
    assert project.statuses(head)[-1][0] == ("failed" if kind == "gitlab" else "failure")
    assert stub.branches["change"] == head
    stub.said.append((request.number, "ada", "approved", head))
    assert any("Approved through" in line for line in project.round().lines)
    made = stub.branches["change"]
    assert project.fleet.git("rev-parse", f"{made}^") == head
    assert "Reconciler-Approved-By: ada" in project.fleet.git("log", "-1", "--format=%B", made)
    assert project.statuses(made)[-1][0] == "success"


def test_a_folder_of_a_repository_has_owners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F-161: `CODEOWNERS` is at the top; files beside the folder need their owners, too."""
    project = make(tmp_path, capsys, "github", ", ownersApprove: true", inside="gpu/fleet")
    stub, top = project.stub, tmp_path / "fleet"
    stub.writers = {"ada", "bob"}
    (top / "CODEOWNERS").write_text("/gpu/fleet/approvals/ @ada\n/apps/ @bob\n")
    project.fleet.git("-C", str(top), "add", "--all")
    project.fleet.commit()
    project.push("main")
    (top / "apps").mkdir()
    (top / "apps/a.txt").write_text("a")
    project.fleet.git("-C", str(top), "add", "--all")
    request = delete_jobs(project)
    head = stub.branches["change"]
    stub.said = [(request.number, "ada", "approved", head)]
    project.round()
    assert stub.branches["change"] == head
    stub.said.append((request.number, "bob", "approved", head))
    project.round()
    assert "approvals/" in project.fleet.git("diff", "--name-only", head, stub.branches["change"])


def test_a_change_does_not_choose_its_owners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F-161, FG-08: CODEOWNERS and settings are those of the base."""
    project = make(tmp_path, capsys)
    project.stub.writers = {"eve", "ada"}
    project.fleet.write(".gitea/CODEOWNERS", ".* @ada\n")
    project.fleet.edit("reconciler.yaml", "forge: {", "forge: {ownersApprove: true, commands: [approve], ")
    request = delete_jobs(project)
    head = project.stub.branches["change"]
    project.stub.said = [(request.number, "ada", "approved", head)]
    project.stub.notes.append(Note(id=99, request=request.number, author="ada", body="/approve why"))
    project.round()
    assert project.statuses(head)[-1][0] == "failure"
    assert (project.replies(), project.stub.branches["change"]) == ([], head)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_a_merge_that_takes_a_change_back_needs_its_owner(
    order: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FG-08: of histories that meet in several commits, a comparison with one of them may hide a file."""
    project = make(tmp_path, capsys, "github", ", ownersApprove: true")
    fleet, stub = project.fleet, project.stub
    stub.writers = {"ada", "bob"}
    fleet.write(".github/CODEOWNERS", "approvals/ @ada\n/apps/ @bob\n")
    fleet.write("apps/a.txt", "one")
    fleet.commit()
    fleet.git("branch", "one")
    fleet.git("switch", "--quiet", "--create", "two")
    fleet.write("apps/a.txt", "two")
    fleet.commit()
    fleet.git("switch", "--quiet", "one")
    fleet.write("README.md", "one")
    fleet.commit()
    fleet.git("switch", "--quiet", "main")
    fleet.git("merge", "--quiet", "--no-ff", "--no-edit", *order)
    project.push("main")
    fleet.git("switch", "--quiet", "--create", "mine", order[0])
    fleet.git("merge", "--quiet", "--no-ff", "--no-edit", order[1])
    fleet.write("apps/a.txt", "one")
    request = delete_jobs(project)
    head = stub.branches["change"]
    assert len(fleet.git("merge-base", "--all", "main", head).splitlines()) == 2
    stub.said = [(request.number, "ada", "approved", head)]
    project.round()
    assert stub.branches["change"] == head
    stub.said.append((request.number, "bob", "approved", head))
    project.round()
    assert fleet.git("rev-parse", f"{stub.branches['change']}^") == head


def test_a_branch_does_not_choose_the_forge_that_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FG-08: which repository is asked for comments, reviews and teams is said by the base, as are its code owners."""
    project = make(tmp_path, capsys)
    project.fleet.edit("reconciler.yaml", "forge: {", "forge: {repository: eve/fake, ")
    request = delete_jobs(project)
    project.fleet.git("switch", "--quiet", "change")
    asked = []

    def forge_of(run: opening.Run, _: object) -> Forge:
        asked.append(run.workspace.config.forge)
        return project.stub.open()

    monkeypatch.setattr("reconciler.forge.commands.forge.forge_of", forge_of)
    answer = ("forge", "answer", "--request", str(request.number))
    assert project.fleet.run(*answer).code == 0
    assert [said.repository for said in asked if said is not None] == [""]
    project.fleet.git("push", "--quiet", "origin", "main:refs/heads/evil")
    project.fleet.git("fetch", "--quiet", "origin")
    request.target = "evil"
    done = project.fleet.run(*answer)
    assert (done.code, "is for the branch evil, not for main" in done.err) == (2, True), done
    assert project.fleet.run(*answer, "--base", "origin/evil").code == 0


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_approve_is_about_the_plan_that_was_shown(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FG-08: not about a later commit, by a comment whose answer was deleted, or one that others may have edited."""
    project = make(tmp_path, capsys, kind, forge=", commands: [approve]")
    stub = project.stub
    stub.teams, stub.writers = {"platform-team": {"ada"}}, {"ada", "bob"}
    request = delete_jobs(project)
    head = stub.branches["change"]

    def says(person: str, text: str, edited: int = 0) -> Note:
        said = Note(id=stub._next(), request=request.number, author=person, body=text, edited=edited)
        stub.notes.append(said)
        return said

    says("ada", "/approve nobody saw a plan yet")
    project.round()
    says("ada", "/approve bob wrote this", edited=stub._next() + 9)
    project.round()
    assert ["not newer" in reply for reply in project.replies()] == [True, True]
    project.fleet.git("switch", "--quiet", "change")
    project.fleet.write("README.md", "more")
    project.fleet.commit()
    early = says("ada", "/approve what was shown")
    later = project.push("change", request.number)
    project.round()
    assert ("not newer" in project.replies()[-1], stub.branches["change"]) == (True, later)
    stub.notes = [one for one in stub.notes if f"answer-{early.id}" not in one.body]
    project.round()
    assert (stub.branches["change"], later != head) == (later, True)
    says("ada", "/approve both commits")
    project.round()
    assert "Approved through" in project.replies()[-1]
    assert project.fleet.git("rev-parse", f"{stub.branches['change']}^") == later


def test_approve_answers_code_owners_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FG-08: who may push but owns none of the changed files is refused by a reply; an owner's approval is a commit."""
    project = make(tmp_path, capsys, forge=", commands: [approve]")
    stub = project.stub
    stub.teams, stub.writers = {"platform-team": {"ada"}}, {"ada", "bob"}
    request = delete_jobs(project)
    head = stub.branches["change"]
    project.round()
    for number, person in enumerate(("eve", "bob", "ada"), 100):
        stub.notes.append(Note(id=number, request=request.number, author=person, body="/approve the jobs are done"))
    project.round()
    outsider, writer, owner = project.replies()
    assert "may not push" in outsider
    assert ("CODEOWNERS" in writer, "`jobs/" in writer, "bob" in writer) == (True, True, True)
    assert "Approved through" in owner
    made = stub.branches["change"]
    assert project.fleet.git("rev-parse", f"{made}^") == head
    assert project.statuses(made)[-1][0] == "success"
    project.fleet.git("push", "--quiet", "--force", "origin", f"{made}:refs/pull/{request.number}/head")
    project.round()
    stub.log.clear()
    assert project.round() == RoundDone()
    assert len(stub.log) == 1, "without news, only the list is read"
