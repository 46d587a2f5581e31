"""Commands that make a branch open its change request, and update it in place: submit, propose and preempt."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cli.fleet import IDENTITY
from tests.fakes.gitrepo import Sandbox
from tests.forge.project import Project, make
from tests.forge.stub import Request, served
from tests.live.controller.test_preempting import ENFORCE, fleet, use
from tests.live.observe.test_propose import EVIDENCE, H100, inventory, node


@pytest.fixture(params=["github", "gitlab", "gitea"])
def project(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Project]:
    """Make a fleet whose forge is a server on this machine."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    made = make(tmp_path, capsys, request.param)
    with served(made.stub) as url:
        monkeypatch.setenv("RECONCILER_FORGE_TOKEN", "canary-token")
        monkeypatch.setenv("RECONCILER_FORGE_HOST", url.removeprefix("http://"))
        made.fleet.edit("reconciler.yaml", "forge: {", f"forge: {{url: {url!r}, repository: team/fleet, ")
        made.fleet.commit()
        made.push("main")
        yield made


def only(project: Project) -> Request:
    (request,) = project.stub.requests
    return request


def test_what_is_submitted_and_pushed_becomes_a_change_request(project: Project, tmp_path: Path) -> None:
    """F-031, F-161: the next submission updates it; deleting the job is another one."""
    study = tmp_path / "study"
    study.mkdir()
    words = ("submit", "--path", str(study), "--queue", "h100", "--gpus", "8", "--user", "ada", "--push")
    for text in ("print(1)", "print(2)"):
        (study / "train.py").write_text(text)
        done = project.fleet.run(*words, "python train.py")
        assert (done.code, "change request" in done.out) == (0, True), done
        assert "canary-token" not in done.out + done.err
        request = only(project)
        assert (request.branch, request.target, request.state) == ("submit/ada-study", "main", "open")
        assert "train.py" in request.body
    assert project.fleet.git("status", "--porcelain") == ""


def test_quotas_that_fit_the_nodes_become_a_change_request(project: Project) -> None:
    """F-161: updated in place, and closed when the queues fit."""
    evidence = project.fleet.root / EVIDENCE
    fits = evidence.read_text()
    small = [node(f"n{number}", H100, "NVIDIA-H100-80GB-HBM3").replace("cpus: 95", "cpus: 40") for number in range(8)]
    evidence.write_text(inventory(*small))
    project.fleet.commit()
    for _ in range(2):
        done = project.fleet.run("propose", "--change-request")
        assert done.code == 0, done
    request = only(project)
    assert (request.branch.startswith("reconciler/quotas/main-nodes-"), request.state) == (True, "open")
    evidence.write_text(fits)
    project.fleet.commit()
    assert project.fleet.run("propose", "--change-request").code == 0
    assert only(project).state == "closed"


def test_suspensions_become_a_change_request(project: Project) -> None:
    """F-112, F-161."""
    person = cast("Sandbox", SimpleNamespace(folder=project.fleet.root))
    files: dict[str, Any] = {**fleet(person, ENFORCE.replace("mode: enforce", "mode: propose")), **use()}
    for path, content in files.items():
        project.fleet.write(path, content.decode())
    project.fleet.commit()
    for _ in range(2):
        done = project.fleet.run("preempt", "--change-request")
        assert done.code == 0, done
    request = only(project)
    assert request.branch.startswith("reconciler/preempt/main-idle-")
    assert "jobs/sleepy.yaml" in request.body
    assert "suspend" in project.fleet.git("show", f"{project.stub.branches[request.branch]}:jobs/sleepy.yaml")
