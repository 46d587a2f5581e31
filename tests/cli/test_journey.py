"""The journeys of a user, from `init` to a verified commit, on real Git repositories."""

import json
import os
import re
import shlex
from pathlib import Path
from threading import Thread

import pytest

from reconciler.outputs import output_names
from tests.cli.fleet import IDENTITY, Fleet, run_verb


def test_a_new_repository_is_clean_and_empty(fleet: Fleet) -> None:
    """F-146: the template lints clean, plans to no changes and verifies."""
    assert fleet.run("lint").code == 0
    planned = fleet.run("plan", "--exit-code")
    assert planned.code == 0, planned.out
    assert "no changes" in planned.out.lower()
    assert fleet.run("verify").code == 0
    assert fleet.git("status", "--porcelain") == ""


def test_edit_plan_commit_and_plan_again(fleet: Fleet) -> None:
    """F-141: a change is shown with its reason, committed with trailers, and is then a fixed point."""
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    planned = fleet.run("plan", "--exit-code")
    assert planned.code == 1
    assert re.search(r"jobs/vision/vit\.yaml:\d+:\d+", planned.out)
    assert "32" in planned.out
    fleet.commit("vit: 16 -> 32 GPUs")
    committed = fleet.run("commit")
    assert committed.code == 0, committed.err
    message = fleet.git("log", "-1", "--format=%B")
    assert "Reconciler-Plan-Digest: sha256:" in message
    assert f"Reconciler-Source-Commit: {fleet.git('rev-parse', 'HEAD~1')}" in message
    assert fleet.git("status", "--porcelain") == ""
    assert fleet.run("plan", "--exit-code").code == 0
    assert fleet.run("verify").code == 0
    before = fleet.git("rev-parse", "HEAD")
    assert fleet.run("commit").code == 0
    assert fleet.git("rev-parse", "HEAD") == before


def test_commit_on_a_branch_leaves_everything_else(fleet: Fleet) -> None:
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    head = fleet.commit()
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 48")
    assert fleet.run("commit", "--branch", "rendered/vit").code == 0
    assert fleet.git("rev-parse", "HEAD") == head
    assert fleet.git("status", "--porcelain") == "M queues/h100.yaml"
    assert fleet.git("rev-parse", "rendered/vit~1") == head


def test_pull_request_against_its_base(fleet: Fleet) -> None:
    """A branch is compared with its merge base, so that later commits on main do not show."""
    fleet.git("checkout", "--quiet", "-b", "bigger")
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    fleet.commit()
    assert fleet.run("commit").code == 0
    fleet.git("checkout", "--quiet", "main")
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    fleet.commit()
    assert fleet.run("commit").code == 0
    planned = fleet.run("plan", "--revision", "bigger", "--base", "main", "-o", "name")
    assert "vit" in planned.out
    assert "Queue" not in planned.out


def test_a_saved_plan_is_shown_in_every_format(fleet: Fleet, tmp_path: Path) -> None:
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    saved = tmp_path / "plan.json"
    direct = {}
    for form in output_names("show"):
        direct[form] = fleet.run("plan", "-o", form, "--out", str(saved)).out
    for form, expected in direct.items():
        shown = run_verb(fleet.capture, ["show", str(saved), "-o", form])
        assert shown.code == 0, shown.err
        assert shown.out == expected
    assert json.loads(direct["json"])["digest"].startswith("sha256:")
    assert run_verb(fleet.capture, ["show", str(saved), "--exit-code"]).code == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"gpusAfter": 32', '"gpusAfter": 16'),  # a figure that the table of jobs shows
        ('"label": "working tree"', '"label": "v1.4"'),
        ('"approvalDigest": "sha256:', '"approvalDigest": "sha256:0'),
        ('"kind": "Plan",', '"kind": "Plan", "note": "approved",'),
    ],
)
def test_an_edited_plan_is_refused(fleet: Fleet, tmp_path: Path, old: str, new: str) -> None:
    """Every field of a saved plan is covered: figures, names, and keys that no plan has."""
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    saved = tmp_path / "plan.json"
    fleet.run("plan", "--out", str(saved))
    text = saved.read_text()
    assert old in text
    saved.write_text(text.replace(old, new))
    shown = run_verb(fleet.capture, ["show", str(saved)])
    assert (shown.code, shown.out) == (5, "")
    assert "the plan was modified after it was created" in shown.err
    assert fleet.run("commit", "--plan", str(saved)).code == 5


def test_what_verify_prints_for_programs_is_in_their_format(fleet: Fleet) -> None:
    """A pipeline reads JSON and names also when everything matches."""
    ran = fleet.run("verify", "-o", "json")
    assert (ran.code, json.loads(ran.out)["changes"]) == (0, [])
    assert "verified: 8 objects at HEAD match the sources" in ran.err
    named = fleet.run("verify", "-o", "name")
    assert (named.code, named.out) == (0, "")
    assert "verified: 8 objects" in named.err
    assert fleet.run("verify").out == "verified: 8 objects at HEAD match the sources\n"


def test_a_device_or_pipe_that_a_plan_is_saved_to_is_not_replaced(fleet: Fleet, tmp_path: Path) -> None:
    """`--out /dev/null` and `--out /dev/stdout` write there, also for root, who could replace them by a file."""
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target.json"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert fleet.run("plan", "--out", str(pipe)).code == 0
    assert pipe.is_fifo()
    reader.join(timeout=60)
    assert json.loads(received[0])["kind"] == "Plan"
    link.symlink_to(target)
    assert fleet.run("plan", "--out", str(link)).code == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["kind"] == "Plan"


def test_show_exits_like_the_plan(fleet: Fleet, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    fleet.write("jobs/bad.yaml", "kind: [\n")
    assert fleet.run("plan", "--out", str(saved)).code == 3
    shown = run_verb(fleet.capture, ["show", str(saved)])
    assert shown.code == 3
    assert "jobs/bad.yaml" in shown.out
    fleet.write("jobs/bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    for path in (fleet.root / "jobs").rglob("*.yaml"):
        path.unlink()
    assert fleet.run("plan", "--out", str(saved)).code == 5
    shown = run_verb(fleet.capture, ["show", str(saved)])
    assert shown.code == 5
    assert "reconciler approve" in shown.err


def test_a_saved_plan_is_committed_or_refused(fleet: Fleet, tmp_path: Path) -> None:
    """The plan of the working tree is that of the commit with the same files; another edit makes it stale."""
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    saved = tmp_path / "plan.json"
    fleet.run("plan", "--out", str(saved))
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 32", "numGPUs: 24")
    head = fleet.commit()
    refused = fleet.run("commit", "--plan", str(saved))
    assert refused.code == 5
    assert "but the saved plan is sha256:" in refused.err
    assert fleet.git("rev-parse", "HEAD") == head
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 24", "numGPUs: 32")
    fleet.commit()
    assert fleet.run("commit", "--plan", str(saved)).code == 0
    assert json.loads(saved.read_text())["digest"] in fleet.git("log", "-1", "--format=%B")


def test_render_writes_what_commit_commits(fleet: Fleet, tmp_path: Path) -> None:
    """F-140: the folder that `render` writes is the committed one, byte for byte."""
    assert fleet.run("render", "--to", str(tmp_path / "out")).code == 0
    written = {
        str(path.relative_to(tmp_path / "out" / "rendered")): path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert written == fleet.files()
    assert fleet.run("render", "--to", str(tmp_path / "out")).code == 2


def test_suspend_and_resume_are_edits(fleet: Fleet) -> None:
    """F-055: flipping `suspend` in Git flips it in what is rendered, and volumes stay."""
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "suspend: true\n  numGPUs: 16")
    planned = fleet.run("plan", "-o", "json")
    plan = json.loads(planned.out)
    assert [job["word"] for job in plan["jobs"]] == ["suspended"]
    assert {change["operation"] for change in plan["changes"]} == {"update"}
    fleet.commit()
    assert fleet.run("commit").code == 0
    fleet.edit("jobs/vision/vit.yaml", "suspend: true\n  ", "")
    assert [job["word"] for job in json.loads(fleet.run("plan", "-o", "json").out)["jobs"]] == ["resumed"]


def test_removing_a_job_removes_its_workspace_but_not_its_checkpoints(fleet: Fleet) -> None:
    """F-061, F-062: the workspace is ephemeral; checkpoints survive their job."""
    (fleet.root / "jobs/language/probe.yaml").unlink()
    plan = json.loads(fleet.run("plan", "-o", "json").out)
    deleted = {change["key"]["name"] for change in plan["changes"] if change["operation"] == "delete"}
    assert "probe" in deleted
    assert "probe-workspace" in deleted
    assert "probe-checkpoints" not in deleted


def test_explain_leads_to_the_source_line(fleet: Fleet) -> None:
    """F-141: the chain of a value ends at the line that somebody wrote."""
    found = fleet.run("explain", "PyTorchJob/default/vit", "spec.pytorchReplicaSpecs.Worker.replicas")
    assert found.code == 0, found.err
    assert "jobs/vision/vit.yaml:10" in found.out
    assert "16" in found.out
    whole = fleet.run("explain", "rendered/main/default/job-probe.yaml")
    assert whole.code == 0
    assert "queues/h100.yaml" in whole.out
    missing = fleet.run("explain", "Job/default/prob")
    assert missing.code == 2
    assert "probe" in missing.err


def test_one_cluster_only(fleet: Fleet) -> None:
    assert fleet.run("plan", "--cluster", "main", "--exit-code").code == 0
    wrong = fleet.run("plan", "--cluster", "mian")
    assert wrong.code == 2
    assert "main" in wrong.err


@pytest.mark.parametrize("inside", ["sub", "."])
def test_init_inside_a_repository_makes_no_second_one(
    tmp_path: Path, fleet: Fleet, capsys: pytest.CaptureFixture[str], inside: str
) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    other = Fleet(outer, capsys)
    other.git("init", "--quiet", "--initial-branch", "main")
    made = run_verb(capsys, ["init", str(outer / inside)])
    assert made.code == 0, made.err
    assert "git add . && git commit" in made.out
    assert ("--repo sub" in made.out) == (inside == "sub")
    assert not (outer / "sub" / ".git").exists()
    other.commit("fleet")
    assert run_verb(capsys, ["plan", "--repo", str(outer / inside), "--exit-code"]).code == 0
    again = run_verb(capsys, ["init", str(outer / inside)])
    assert again.code == 2
    assert "not empty" in again.err


def test_init_without_an_identity_says_why_nothing_is_committed(
    tmp_path: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And prints commands that a shell takes as they are, whatever the folder is called."""
    for name in [name for name in IDENTITY if "AUTHOR" in name or "COMMITTER" in name]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.useConfigOnly")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    made = run_verb(fleet.capture, ["init", str(tmp_path / "our fleet")])
    assert made.code == 0
    assert "Nothing was committed: git failed: " in made.out
    commands = made.out.split("Next steps:\n")[1].splitlines()
    assert len(commands) == 3
    assert shlex.split(commands[0]) == ["cd", str(tmp_path / "our fleet")]


PARAMETERS = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas.example.com}
spec:
  failurePolicy: Fail
  paramKind: {apiVersion: rules.example.com/v1, kind: ReplicaLimit}
  matchConstraints:
    resourceRules:
      - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
    - expression: object.spec.replicas <= params.maxReplicas
      messageExpression: "'at most ' + string(params.maxReplicas)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas.example.com}
spec:
  policyName: replicas.example.com
  validationActions: [Deny]
  paramRef: {name: limit, namespace: default, parameterNotFoundAction: Deny}
---
apiVersion: rules.example.com/v1
kind: ReplicaLimit
metadata: {name: limit, namespace: default}
maxReplicas: 3
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {team: web}}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "web:1"}]
"""


def test_parameters_of_a_kind_that_nobody_defines_here(fleet: Fleet) -> None:
    """The example of the Kubernetes documentation: its parameter kind has no CRD in the repository, which is a warning."""
    fleet.write("policies/replicas.yaml", PARAMETERS)
    fleet.write("jobs/web.yaml", DEPLOYMENT)
    planned = fleet.run("plan")
    assert planned.code == 4, planned.out
    assert "at most 3" in planned.out
    fleet.edit("jobs/web.yaml", "replicas: 5", "replicas: 3")
    assert fleet.run("plan").code == 0
