"""The files that pipelines use: their own steps run here, against stubs of GitHub and GitLab, and against real Gitea."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.fleet import IDENTITY, Fleet, run_verb
from tests.cluster.bed.gitea import USER, Gitea
from tests.forge.gitea_fleet import hosted
from tests.forge.stub import BOT, Request, StubForge, served
from tests.template.pipelines import PUSH, REQUEST, scripts

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("action.yml", "templates/plan/template.yml")


def run(fleet: Fleet, path: str, environ: dict[str, str], event: str = REQUEST) -> str:
    """Run the steps of a file as a pipeline does, and return what they print."""
    root = ROOT if path in PACKAGES else fleet.root
    base = fleet.git("rev-parse", "main")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI_", "RECONCILER_"))}
    path_of_programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {**kept, **IDENTITY, "PATH": path_of_programs, "BASE": base, "RECONCILER_BASE": base, **environ}
    given |= {"GITHUB_STEP_SUMMARY": str(fleet.root.parent / "summary.md"), "IS_FORK": "false"}
    printed = ""
    for script in scripts(root, path, event).values():
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=fleet.root,
            env=given,
            check=False,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, (script, done.stdout[-500:], done.stderr)
        printed += done.stdout + done.stderr
    (fleet.root / "plan.json").unlink(missing_ok=True)
    return printed


@pytest.fixture
def fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Fleet:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    made = Fleet(tmp_path / "fleet", capsys)
    assert run_verb(capsys, ["init", str(made.root)]).code == 0
    return made


def changed(fleet: Fleet, gpus: int) -> str:
    """Commit a change on a branch, with its rendered files, and return the commit."""
    fleet.git("switch", "--quiet", "-C", "change")
    text = (fleet.root / "jobs/vision/vit.yaml").read_text()
    fleet.write("jobs/vision/vit.yaml", re.sub(r"numGPUs: \d+", f"numGPUs: {gpus}", text))
    fleet.commit()
    assert fleet.run("commit").code == 0
    return fleet.git("rev-parse", "HEAD")


FILES = [
    ("github", "action.yml"),
    ("github", ".github/workflows/plan.yaml"),
    ("gitlab", "templates/plan/template.yml"),
    ("gitlab", ".gitlab-ci.yml"),
]


@pytest.mark.parametrize(("kind", "path"), FILES)
@pytest.mark.timeout(600)
def test_the_steps_of_a_pipeline_write_one_comment(kind: str, path: str, fleet: Fleet) -> None:
    """F-164: one comment, also after another push, and the statuses of each commit; the API takes every request."""
    stub = StubForge(kind=kind)
    stub.requests.append(Request(number=7, branch="change", target="main", title="T", body="B", author="ada"))
    pipelines: dict[str, dict[str, str]] = {
        "github": {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "team/fleet", "GITHUB_REF": "refs/pull/7/merge"},
        "gitlab": {"GITLAB_CI": "true", "CI_PROJECT_PATH": "team/fleet", "CI_MERGE_REQUEST_IID": "7"},
    }
    with served(stub) as url:
        environ = {**pipelines[kind], "GITHUB_SERVER_URL": url, "CI_SERVER_URL": url}
        environ["RECONCILER_FORGE_TOKEN"] = "canary-token"
        for gpus in (8, 24) if path == "action.yml" else (8,):
            stub.branches["change"] = changed(fleet, gpus)
            printed = run(fleet, path, environ)
            assert "canary-token" not in printed
            (note,) = stub.notes
            assert (note.author, note.body.startswith("<!-- gpu-reconciler:plan:default -->")) == (BOT, True)
            said = {
                values.get("context") or values["name"] for at, values in stub.statuses if at == stub.branches["change"]
            }
            assert said == {"reconciler/plan", "reconciler/verify"}


@pytest.mark.parametrize("path", ["action.yml", ".gitea/workflows/plan.yaml"])
@pytest.mark.timeout(600)
def test_the_steps_of_gitea_write_one_comment(
    path: str, gitea: Gitea, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-164, FG-01: the same, against the real one."""
    host = hosted(gitea, tmp_path, capsys, monkeypatch)
    number = 0
    for gpus in (8, 24):
        commit = changed(host.fleet, gpus)
        host.push("change")
        number = number or host.call("POST", "/pulls", {"title": "T", "head": "change", "base": "main"})["number"]
        environ = {
            "GITEA_ACTIONS": "true", "GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": gitea.url,
            "GITHUB_REPOSITORY": f"{USER}/{host.name}", "GITHUB_REF": f"refs/pull/{number}/head",
            "RECONCILER_FORGE_TOKEN": gitea.token,
        }  # fmt: skip
        assert gitea.token not in run(host.fleet, path, environ)
        (comment,) = host.comments(number)
        assert json.dumps(comment["body"]).startswith('"<!-- gpu-reconciler:plan:default')
        assert any(one["context"] == "reconciler/plan" for one in host.statuses(commit))


@pytest.mark.parametrize(("kind", "path"), FILES)
@pytest.mark.timeout(600)
def test_a_push_to_the_base_plans_open_requests_again(kind: str, path: str, fleet: Fleet) -> None:
    """F-161, F-164, FG-05: also those of forks, which have no token of their own."""
    stub = StubForge(kind=kind)
    stub.requests.append(
        Request(number=7, branch="change", target="main", title="T", body="B", author="eve", is_fork=True)
    )
    stub.branches["change"] = head = changed(fleet, 8)
    origin = fleet.root.parent / "origin"
    fleet.git("init", "--quiet", "--bare", str(origin))
    fleet.git("remote", "add", "origin", str(origin))
    reference = "refs/merge-requests/7/head" if kind == "gitlab" else "refs/pull/7/head"
    fleet.git("push", "--quiet", "origin", "main", f"change:{reference}")
    fleet.git("checkout", "--quiet", "--detach", "main")
    pipelines: dict[str, dict[str, str]] = {
        "github": {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "team/fleet", "GITHUB_REF": "refs/heads/main"},
        "gitlab": {"GITLAB_CI": "true", "CI_PROJECT_PATH": "team/fleet", "CI_COMMIT_BRANCH": "main"},
    }
    with served(stub) as url:
        environ = {**pipelines[kind], "GITHUB_SERVER_URL": url, "CI_SERVER_URL": url}
        environ |= {"RECONCILER_FORGE_TOKEN": "canary-token", "RECONCILER_BASE": ""}
        assert "canary-token" not in run(fleet, path, environ, PUSH)
    (note,) = stub.notes
    assert note.body.startswith("<!-- gpu-reconciler:plan:default -->")
    assert [said["state"] for commit, said in stub.statuses if commit == head] == ["pending", "success"]


def test_pipelines_of_forks_have_no_token(fleet: Fleet) -> None:
    """FG-05: no file uses `pull_request_target`, and steps with the token are not those of forks."""
    for path in (".github/workflows/plan.yaml", ".gitea/workflows/plan.yaml"):
        text = (fleet.root / path).read_text()
        assert "pull_request_target" not in text
        assert "RECONCILER_FORGE_TOKEN" not in text
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        if "RECONCILER_FORGE_TOKEN" in step.get("env", {}):
            assert '"$IS_FORK" != true' in step["run"] or "event_name == 'push'" in step["if"], step


def test_pipelines_use_the_packages(fleet: Fleet) -> None:
    """F-164: their steps are those of the action and the component, and what others made is pinned by its digest."""
    for path in (".github/actions/reconciler/action.yml", ".gitea/actions/reconciler/action.yml"):
        assert (fleet.root / path).read_bytes() == (ROOT / "action.yml").read_bytes()
    component = (ROOT / "templates/plan/template.yml").read_bytes()
    assert (fleet.root / ".gitlab/reconciler.yml").read_bytes() == component
    for workflow in fleet.root.glob(".git*/workflows/*.yaml"):
        for used in re.findall(r"- uses: (\S+)", workflow.read_text()):
            assert used.startswith("./.git") or re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", used), used
