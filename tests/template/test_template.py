"""The template of a config repository: its rendered tree is what its sources mean, and its helpers are sound YAML."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.plan import opening
from reconciler.plan.use_cases import render
from tests.cli.fleet import IDENTITY, Fleet, run_verb
from tests.ready import new_cache
from tests.template.pipelines import PUSH, scripts

TEMPLATE = Path(__file__).resolve().parents[2] / "gitops-repo-template"


def test_rendered_tree_is_what_the_sources_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make golden` rewrites it; the rewrite is reviewed as any diff."""
    fleet = Fleet(tmp_path / "fleet", capsys)
    shutil.copytree(TEMPLATE, fleet.root)
    fleet.git("init", "--quiet")
    run = opening.open_run(str(fleet.root), {"cache": "off"}, dict(os.environ))
    contents = {path.removeprefix("rendered/"): content for path, content in render(run.workspace).items()}
    if os.environ.get("GOLDEN"):
        shutil.rmtree(TEMPLATE / "rendered")
        opening.write_folder({f"rendered/{path}": content for path, content in contents.items()}, tmp_path / "new")
        shutil.copytree(tmp_path / "new" / "rendered", TEMPLATE / "rendered")
    assert contents == Fleet(TEMPLATE, capsys).files()


@pytest.mark.parametrize("path", sorted(str(p.relative_to(TEMPLATE)) for p in TEMPLATE.rglob("*.y*ml")))
def test_every_yaml_file_reads(path: str) -> None:
    """Also the sync objects and the pipelines that forges read."""
    assert read(path, (TEMPLATE / path).read_bytes()).problems == () or path.startswith((".github", ".gitea"))


def test_sync_objects_are_what_argo_cd_and_flux_take(sync_crd_folder: Path) -> None:
    """By the definitions that their releases ship, read by our own catalogue."""
    definitions = [
        document
        for path in sorted(sync_crd_folder.glob("*.json"))
        for document in read(path.name, path.read_bytes()).documents
    ]
    catalogue = Catalogue(resources).with_crds(definitions)
    kinds = set()
    for path in ("argocd/applicationset.yaml", "flux/main.yaml"):
        for document in read(path, (TEMPLATE / path).read_bytes()).documents:
            assert catalogue.validate(document) == (), path
            assert catalogue.is_namespaced(document.key.group, document.kind)
            kinds.add(document.kind)
    assert kinds == {"ApplicationSet", "GitRepository", "Kustomization"}


def test_the_exception_in_the_readme_is_for_an_object_of_the_template() -> None:
    """An exception for an object that does not exist is a warning."""
    (written,) = re.findall(r"```yaml\n(.*?)```", (TEMPLATE / "policies/README.md").read_text(), re.DOTALL)
    excepted = yaml.safe_load(written)["spec"]["object"]
    rendered = [yaml.safe_load(path.read_text()) for path in (TEMPLATE / "rendered/main/default").iterdir()]
    assert (excepted["kind"], excepted["name"]) in {(one["kind"], one["metadata"]["name"]) for one in rendered}


def test_sync_objects_name_what_is_rendered() -> None:
    """Each cluster of the settings has its Flux object; Argo CD takes every folder below `rendered/`."""
    clusters = {one["name"] for one in yaml.safe_load((TEMPLATE / "reconciler.yaml").read_text())["spec"]["clusters"]}
    assert {path.name for path in (TEMPLATE / "rendered").iterdir()} == clusters
    flux = [one for path in (TEMPLATE / "flux").iterdir() for one in yaml.safe_load_all(path.read_text())]
    assert {one["spec"]["path"] for one in flux if "path" in one["spec"]} == {f"./rendered/{name}" for name in clusters}
    (argo,) = yaml.safe_load_all((TEMPLATE / "argocd/applicationset.yaml").read_text())
    assert argo["spec"]["generators"][0]["git"]["directories"] == [{"path": "rendered/*"}]


def test_editors_find_the_schemas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every `yaml-language-server` comment leads, from its own file, to the schema of the kind in that file."""
    root = tmp_path / "fleet"
    assert run_verb(capsys, ["init", str(root)]).code == 0
    written = [path for path in root.rglob("*.yaml") if not {"rendered", "argocd", "flux"} & set(path.parts)]
    ours = [
        path for path in written if re.search(r"^apiVersion: (gpureconciler|torchrun)", path.read_text(), re.MULTILINE)
    ]
    assert len(ours) >= 5
    for path in ours:
        comment = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())
        assert comment, path
        schema = json.loads((path.parent / comment[1]).read_text())
        assert schema["title"] == yaml.safe_load(path.read_text())["kind"]


PIPELINES = (".github/workflows/plan.yaml", ".gitea/workflows/plan.yaml", ".gitlab-ci.yml")


@pytest.mark.parametrize("path", PIPELINES)
def test_pipelines_call_verbs_and_flags_that_exist(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "fleet"
    assert run_verb(capsys, ["init", str(root)]).code == 0
    text = "\n".join((scripts(root, path) | scripts(root, path, PUSH)).values())
    calls = re.findall(r"reconciler ((?:forge )?[a-z]+\b[^|;>\n]*)", text)
    assert {call.split()[0] for call in calls} >= {"plan", "verify", "forge"}
    for call in calls:
        verb, *words = call.split()
        below = [words[0]] if verb == "forge" else []
        known = run_verb(capsys, [verb, *below, "--help"]).out
        for flag in (word for word in words if word.startswith("-")):
            assert re.search(rf"(^|\s){flag}\b", known), f"{flag} of {call}"


def forge(root: Path, path: str, base: str) -> subprocess.CompletedProcess[str]:
    """Run that as a forge does: the branch checked out with a detached HEAD, stop at the first failure."""
    environ = {**os.environ, "BASE": base, "GITHUB_STEP_SUMMARY": str(root.parent / "summary.md")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    call = ["bash", "-e", "-c", scripts(root, path)["Plan"]]
    return subprocess.run(call, cwd=root, env=environ, check=False, capture_output=True, text=True, timeout=120)


SCHEDULED = (".github/workflows/expired.yaml", ".gitea/workflows/expired.yaml", ".gitlab-ci.yml")


@pytest.mark.parametrize("path", SCHEDULED)
def test_a_schedule_finds_expired_exceptions(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last commit is older than the expiry date: only the date of the run finds it."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    fleet = Fleet(tmp_path / "fleet", capsys)
    assert run_verb(capsys, ["init", str(fleet.root)]).code == 0
    pipeline = yaml.safe_load((TEMPLATE / path).read_text())
    if "jobs" in pipeline:
        assert pipeline[True]["schedule"]  # YAML 1.1 reads `on` as true
        (command,) = (step["run"] for step in pipeline["jobs"]["expired"]["steps"] if "lint" in step.get("run", ""))
    else:
        assert pipeline["expired"]["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "schedule"'}]
        (command,) = pipeline["expired"]["script"]
    words = command.removeprefix("reconciler ").split()
    assert words[:5] == ["lint", "--revision", "HEAD", "--date", "today"]
    assert fleet.run(*words).code == 0
    fleet.write(
        "policies/allow.yaml",
        "apiVersion: gpureconciler.io/v1alpha1\nkind: PolicyException\nmetadata: {name: allow}\nspec:\n"
        "  rule: no-privileged\n  object: {kind: PyTorchJob, namespace: default, name: vit}\n"
        "  reason: driver install\n  owner: ops@example.com\n  expires: '2026-11-03'\n",
    )
    fleet.commit()
    assert fleet.run("lint", "--revision", "HEAD").code == 0  # on the date of the commit
    expired = fleet.run(*words)
    assert expired.code == 3
    assert "expired" in expired.out


@pytest.mark.parametrize("path", PIPELINES)
def test_pipelines_plan_refuse_and_take_an_approval(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripts themselves, in a clone of a branch: a plain change, one over budget, and one approved."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    fleet = Fleet(tmp_path / "fleet", capsys)
    assert run_verb(capsys, ["init", str(fleet.root)]).code == 0
    base = fleet.git("rev-parse", "HEAD")
    fleet.git("checkout", "--quiet", "-b", "change")
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    fleet.commit()
    fleet.git("checkout", "--quiet", "--detach")
    planned = forge(fleet.root, path, base)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "+16 GPUs" in planned.stdout
    fleet.git("checkout", "--quiet", "change")
    for job in (fleet.root / "jobs").rglob("*.yaml"):
        job.unlink()
    fleet.commit()
    refused = forge(fleet.root, path, base)
    assert refused.returncode == 5, refused.stdout + refused.stderr
    assert fleet.run("approve", "--base", base, "--reason", "the jobs are done").code == 0
    fleet.commit()
    committed = fleet.run("commit", "--base", base)
    assert committed.code == 0, committed.err
    assert "Reconciler-Approval: approvals/" in fleet.git("log", "-1", "--format=%B")
    approved = forge(fleet.root, path, base)
    assert approved.returncode == 0, approved.stdout + approved.stderr
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 33")
    fleet.commit()
    assert forge(fleet.root, path, base).returncode == 5
