"""The files that pipelines use: their own steps run here, against stubs of GitHub and GitLab, and against real Gitea."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.fleet import IDENTITY, Fleet, run_verb
from tests.cluster.bed.gitea import USER, Gitea
from tests.forge.gitea_fleet import hosted
from tests.forge.stub import BOT, Request, StubForge, served

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "gitops-repo-template"


def scripts(path: str) -> list[str]:
    """Return what the jobs of a change request run, in order, without the installation."""
    documents = [one for one in yaml.safe_load_all((ROOT / path).read_text()) if "spec" not in one]
    (file,) = documents
    if "runs" in file:
        steps = file["runs"]["steps"]
    elif "jobs" in file:
        steps = [step for job in ("plan", "verify") for step in file["jobs"].get(job, {"steps": []})["steps"]]
    else:
        jobs = [job for name, job in file.items() if name.rpartition("-")[2] in ("plan", "verify")]
        return ["\n".join(job["script"]) for job in jobs]
    return [step["run"] for step in steps if "run" in step and "pip install" not in step["run"]]


def run(fleet: Fleet, path: str, environ: dict[str, str]) -> str:
    """Run the steps of a file as a pipeline does, and return what they print."""
    base = fleet.git("rev-parse", "main")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI_", "RECONCILER_"))}
    path_of_programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {**kept, **IDENTITY, "PATH": path_of_programs, "BASE": base, "RECONCILER_BASE": base, **environ}
    given |= {"GITHUB_STEP_SUMMARY": str(fleet.root.parent / "summary.md"), "IS_FORK": "false"}
    printed = ""
    for script in scripts(path):
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
    (fleet.root / "plan.json").unlink()
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
    ("github", "gitops-repo-template/.github/workflows/plan.yaml"),
    ("gitlab", "templates/plan/template.yml"),
    ("gitlab", "gitops-repo-template/.gitlab-ci.yml"),
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
            assert "reconciler/plan" in said
            assert "gitops" in path or said == {"reconciler/plan", "reconciler/verify"}


@pytest.mark.parametrize("path", ["action.yml", "gitops-repo-template/.gitea/workflows/plan.yaml"])
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


def test_pipelines_of_forks_have_no_token() -> None:
    """FG-05: neither file uses `pull_request_target`, and steps with the token are not those of forks."""
    for path in (".github/workflows/plan.yaml", ".gitea/workflows/plan.yaml"):
        text = (TEMPLATE / path).read_text()
        assert "pull_request_target" not in text
        job: dict[str, Any] = yaml.safe_load(text)["jobs"]["plan"]
        with_token = [step for step in job["steps"] if "RECONCILER_FORGE_TOKEN" in step.get("env", {})]
        assert [step["name"] for step in with_token] == ["Comment"]
        assert "head.repo.full_name == github.repository" in with_token[0]["if"]
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    for step in action["runs"]["steps"]:
        assert "RECONCILER_FORGE_TOKEN" not in step.get("env", {}) or '"$IS_FORK" != true' in step["run"]
