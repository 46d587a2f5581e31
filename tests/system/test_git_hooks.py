"""The hooks for pre-commit: a sound manifest, and entries that stop a bad commit when Git runs them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.fleet import IDENTITY
from tests.ready import new_cache
from tests.system.child import ROOT

HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def entry(name: str) -> str:
    (hook,) = (hook for hook in HOOKS if hook["id"] == name)
    assert hook["language"] == "python"
    assert hook["pass_filenames"] is False
    return str(hook["entry"])


def test_the_documented_hooks_exist() -> None:
    page = (ROOT / "docs/workflow.md").read_text()
    assert {hook["id"] for hook in HOOKS} == {"reconciler-lint", "reconciler-verify"}
    for hook in HOOKS:
        assert f"- id: {hook['id']}" in page
        assert f"exec {hook['entry']}" in page


def test_git_runs_the_entries(tmp_path: Path) -> None:
    """From hooks, with the variables that Git sets for them: a bad file and a stale `rendered/` are stopped."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "reconciler").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
    (programs / "reconciler").chmod(0o755)
    environ = {
        **IDENTITY,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "RECONCILER_CACHE_DIR": new_cache(tmp_path),
    }
    fleet = tmp_path / "fleet"

    def run(*call: str, folder: Path = fleet) -> subprocess.CompletedProcess[str]:
        return subprocess.run(call, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=120)

    assert run("reconciler", "init", "fleet", folder=tmp_path).returncode == 0
    assert run("git", "init", "--quiet", "--bare", "remote.git", folder=tmp_path).returncode == 0
    run("git", "remote", "add", "origin", str(tmp_path / "remote.git"))
    for hook, name in (("pre-commit", "reconciler-lint"), ("pre-push", "reconciler-verify")):
        path = fleet / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nexec {entry(name)}\n")
        path.chmod(0o755)
    assert run("git", "push", "--quiet", "origin", "main").returncode == 0
    job = fleet / "jobs/vision/vit.yaml"
    good = job.read_text()
    job.write_text(good.replace("numGPUs: 16", "numGPUs: many"))
    refused = run("git", "commit", "--quiet", "--all", "--message", "bad")
    assert refused.returncode != 0
    assert "jobs/vision/vit.yaml:10:" in refused.stdout + refused.stderr
    job.write_text(good.replace("numGPUs: 16", "numGPUs: 24"))
    assert run("git", "commit", "--quiet", "--all", "--message", "good").returncode == 0
    stale = run("git", "push", "--quiet", "origin", "main")
    assert stale.returncode != 0
    assert "rendered/ is out of date" in stale.stdout + stale.stderr
    assert run("reconciler", "commit").returncode == 0
    assert run("git", "push", "--quiet", "origin", "main").returncode == 0


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_the_manifest_has_the_keys_that_pre_commit_knows(hook: dict[str, Any]) -> None:
    known = {"id", "name", "description", "entry", "language", "files", "always_run", "pass_filenames", "stages"}
    assert set(hook) <= known
    assert set(hook.get("stages", ())) <= {"pre-commit", "pre-push", "manual"}
