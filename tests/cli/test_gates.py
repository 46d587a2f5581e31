"""Gates hold against the pull request under review: what decides how a change is judged is taken from the base."""

import json

import pytest

from reconciler import resources
from reconciler.kube.yaml import read
from tests.cli.fleet import IDENTITY, Fleet

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: admin, namespace: default, labels: {team: x}}
spec:
  containers: [{name: c, image: 'registry.example/a@sha256:%s', securityContext: {privileged: true}}]
""" % ("0" * 64)
EXCEPTION = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PolicyException
metadata: {name: admin}
spec:
  rule: no-privileged
  object: {kind: Pod, namespace: default, name: admin}
  reason: a driver update
  owner: platform
  expires: "%s"
"""


@pytest.fixture
def change(fleet: Fleet) -> Fleet:
    """Return a repository with the branch `change` checked out, which has no commit of its own yet."""
    fleet.git("checkout", "--quiet", "-b", "change")
    return fleet


def plan(fleet: Fleet, *arguments: str) -> tuple[int, str]:
    fleet.git("add", "--all")
    fleet.git("commit", "--quiet", "--allow-empty", "--message", "edit")
    ran = fleet.run("plan", "--revision", "HEAD", "--base", "main", *arguments)
    return ran.code, ran.out


def approve(fleet: Fleet) -> None:
    """Approve the plan of the branch, and expect that this is all it lacked."""
    approved = fleet.run("approve", "--base", "main", "--reason", "reviewed", "--date", "2026-11-02")
    assert approved.code == 0, approved.err
    code, out = plan(fleet)
    assert code == 0, out


def settings(fleet: Fleet, *, code: int = 5) -> dict[str, tuple[str, str, bool]]:
    """Plan the branch as JSON; return the settings that change, with their values and whether they become weaker."""
    made, out = plan(fleet, "-o", "json")
    assert made == code, out
    return {one["setting"]: (one["before"], one["after"], one["weakens"]) for one in json.loads(out)["settings"]}


def spec(fleet: Fleet, text: str) -> None:
    """Set fields of `spec` in `reconciler.yaml`, given as flow YAML."""
    (config,) = read("reconciler.yaml", (fleet.root / "reconciler.yaml").read_bytes()).documents
    (fields,) = read("fields.yaml", text.encode()).documents
    fleet.write("reconciler.yaml", json.dumps({**config.data, "spec": {**config.data["spec"], **fields.data}}))


@pytest.mark.parametrize(
    ("text", "setting", "before", "after"),
    [
        ("defaults: {cluster: main}", "defaults.cluster", "none", "main"),
        ('defaults: {date: "2020-01-01"}', "defaults.date", "none", "2020-01-01"),
        ("budgets: {deletes: {count: 1000, share: null}}", "budgets.deletes.count", "10", "1000"),
        ("budgets: {deletes: {share: null}}", "budgets.deletes.share", "0.25", "no limit"),
        ("budgets: {emptySources: allow}", "budgets.emptySources", "refuse", "allow"),
        ("budgets: {settings: allow}", "budgets.settings", "refuse", "allow"),
        ("rules: {no-privileged: {enabled: false}}", "rules.no-privileged", "deny", "off"),
        ("rules: {no-privileged: {action: warn}}", "rules.no-privileged", "deny", "warn"),
        ("rules: {quota.capacity: {action: audit}}", "rules.quota.capacity", "deny", "audit"),
        ("onImmutableChange: replace", "onImmutableChange", "refuse", "replace"),
        ("rendered: out", "rendered", "rendered", "out"),
        ("policies: [rules]", "policies", "policies", "rules"),
    ],
)
def test_a_weaker_setting_is_shown_and_refused(change: Fleet, text: str, setting: str, before: str, after: str) -> None:
    spec(change, text)
    found = settings(change)
    assert found[setting] == (before, after, True)
    code, out = plan(change)
    assert code == 5
    assert "No changes" not in out
    assert f"{setting}: {before} → {after} weaker" in out
    assert "Budgets exceeded" in out
    _, comment = plan(change, "-o", "markdown")
    assert f"`{setting}`" in comment
    approve(change)


@pytest.mark.parametrize(
    "text",
    [
        "budgets: {deletes: {count: 1}, gpuQuotaChange: {count: 8}}",
        "rules: {pinned-images: {action: deny}, quota.cordoned: {action: deny}}",
        "evidence: {maxAge: 1000d}",
        "defaults: {output: json}",
    ],
)
def test_a_stricter_or_neutral_setting_is_shown_and_passes(change: Fleet, text: str) -> None:
    spec(change, text)
    found = settings(change, code=0)
    assert found
    assert not any(weakens for _, _, weakens in found.values())
    assert plan(change, "--exit-code")[0] == 1


def test_a_pull_request_is_judged_by_the_budgets_of_the_base(change: Fleet) -> None:
    spec(change, "budgets: {deletes: {count: 1000, share: null}, settings: allow}")
    for path in (change.root / "jobs").rglob("*.yaml"):
        path.unlink()
    change.write("jobs/README", "")
    code, out = plan(change)
    assert code == 5
    assert "deletes.share" in out


@pytest.mark.parametrize(
    "text", ["rules: {no-privileged: {enabled: false}}", "rules: {no-privileged: {action: audit}}", "policies: [rules]"]
)
def test_a_rule_of_the_base_judges_what_the_pull_request_adds(change: Fleet, text: str) -> None:
    """`plan`, `commit` and `verify` alike, also when the object is rendered and committed already."""
    spec(change, text)
    if text.startswith("policies"):
        rule = resources.read("policies/no-privileged/rule.yaml").decode()
        change.write("rules/no-privileged.yaml", rule.replace("[Deny]", "[Audit]"))
    change.write("jobs/admin.yaml", POD)
    code, out = plan(change)
    assert code == 4, out
    assert "no-privileged" in out
    assert change.run("commit", "--base", "main").code == 4
    assert change.run("verify", "--base", "main").code == 4
    change.git("checkout", "--quiet", "--detach")
    assert change.run("commit").code == 0
    assert plan(change)[0] == 4
    assert change.run("verify", "--base", "main").code == 4


def test_a_removed_cluster_is_a_change_of_settings(change: Fleet) -> None:
    change.edit("reconciler.yaml", "- name: main", "- name: other")
    change.git("rm", "--quiet", "-r", "evidence")
    found = settings(change)
    assert found["clusters.main"] == ("defined", "removed", True)
    assert found["clusters.other"] == ("not defined", "defined", False)
    count = len([path for path in change.files("rendered") if path.startswith("main/")])
    assert f"{count} rendered objects deleted or left behind" in plan(change)[1]


def test_a_narrowed_selector_is_weaker_and_a_wider_one_is_not(change: Fleet) -> None:
    change.edit("reconciler.yaml", "- name: main\n", "- name: main\n      select: {folders: [queues]}\n")
    assert settings(change)["clusters.main.select.folders"] == ("none", "queues", True)
    change.git("checkout", "--quiet", "main")
    change.git("merge", "--quiet", "change")
    change.git("checkout", "--quiet", "change")
    change.edit("reconciler.yaml", "folders: [queues]", "folders: [queues, jobs]")
    assert settings(change, code=0)["clusters.main.select.folders"] == ("queues", "queues, jobs", False)


def test_an_exception_is_shown_and_can_be_refused(fleet: Fleet) -> None:
    fleet.git("checkout", "--quiet", "-b", "change")
    fleet.write("jobs/admin.yaml", POD)
    fleet.write("policies/admin.yaml", EXCEPTION % "2027-01-01")
    name = "exception no-privileged for Pod/default/admin"
    assert settings(fleet, code=0)[name] == ("none", "until 2027-01-01", True)
    fleet.git("checkout", "--quiet", "main")
    spec(fleet, "budgets: {exceptions: refuse}")
    fleet.commit()
    fleet.git("checkout", "--quiet", "change")
    fleet.git("rebase", "--quiet", "main")
    assert settings(fleet, code=5)[name] == ("none", "until 2027-01-01", True)


def test_an_early_date_of_a_commit_revives_no_exception(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.write("policies/admin.yaml", EXCEPTION % "2026-11-01")
    fleet.commit()
    fleet.git("checkout", "--quiet", "-b", "change")
    fleet.write("jobs/admin.yaml", POD)
    fleet.git("add", "--all")
    monkeypatch.setitem(IDENTITY, "GIT_COMMITTER_DATE", "2026-10-01T00:00:00+00:00")
    fleet.git("commit", "--quiet", "--message", "early")
    ran = fleet.run("plan", "--revision", "HEAD", "--base", "main")
    assert ran.code == 3
    assert "expired on 2026-11-01" in ran.out


# --- What is committed is what is compared. ---


VIT = "rendered/main/default/pytorchjob-vit.yaml"
CLAIM = "rendered/main/default/persistentvolumeclaim-vit-checkpoints.yaml"


def test_a_kept_object_cannot_vanish_with_its_job(change: Fleet) -> None:
    """`git rm` of a job and of its rendered files takes the checkpoints with it, which the sync would prune."""
    change.git("rm", "--quiet", "jobs/vision/vit.yaml", CLAIM, VIT)
    change.commit()
    made = change.run("commit")
    assert made.code == 0, made.err
    code, out = plan(change)
    assert code == 5
    assert "risk.pvc-data-loss" in out
    assert f"keeps: {CLAIM}" in " ".join(out.split())
    assert "an annotation keeps it" in out
    verified = change.run("verify", "--base", "main")
    assert verified.code == 5
    assert CLAIM in verified.err
    approve(change)
    verified = change.run("verify", "--base", "main")
    assert verified.code == 0, verified.err


def test_a_kept_object_stays_if_only_its_job_is_removed(change: Fleet) -> None:
    change.git("rm", "--quiet", "jobs/vision/vit.yaml")
    assert plan(change)[0] == 0
    assert change.run("commit").code == 0
    code, out = plan(change)
    assert code == 0
    assert "risk.kept" in out
    assert change.run("verify", "--base", "main").code == 0


def test_a_kept_object_is_not_edited_by_hand(change: Fleet) -> None:
    change.git("rm", "--quiet", "jobs/vision/vit.yaml")
    change.commit()
    assert change.run("commit").code == 0
    change.edit(CLAIM, 'gpureconciler.io/keep: "true"', 'gpureconciler.io/keep: "false"')
    code, out = plan(change)
    assert code == 5
    assert CLAIM in out


@pytest.mark.parametrize("edit", ["change", "remove", "add"])
def test_a_pull_request_that_edits_rendered_files_by_hand_is_refused(change: Fleet, edit: str) -> None:
    path = VIT
    if edit == "change":
        change.edit(VIT, "image: ", "image: evil/")
    elif edit == "remove":
        (change.root / VIT).unlink()
    else:
        path = "rendered/main/default/pod-admin.yaml"
        change.write(path, POD.replace("labels: {", "labels: {app.kubernetes.io/managed-by: gpu-reconciler, "))
    ran = change.run("plan", "--base", "main")  # the working tree
    assert ran.code == 5
    code, out = plan(change)
    assert code == 5
    assert "No changes" not in out
    assert path in out
    assert "Cannot be committed: 1 rendered file differs from what the sources render" in out
    _, raw = plan(change, "-o", "json")
    assert json.loads(raw)["edited"] == [path]
    assert path in plan(change, "-o", "markdown")[1]
    assert path in plan(change, "-o", "github")[1]


def test_a_hand_edit_beside_a_change_of_the_sources_is_refused(change: Fleet) -> None:
    change.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    change.commit()
    assert change.run("commit").code == 0
    assert plan(change)[0] == 0
    change.edit(VIT, "image: ", "image: evil/")
    assert plan(change)[0] == 5
    assert change.run("commit").code == 0
    assert plan(change)[0] == 0


def test_the_working_tree_may_be_between_two_commits(change: Fleet) -> None:
    """Sources that are edited again after a commit of `rendered/` can be planned before the next one."""
    change.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    change.commit()
    assert change.run("commit").code == 0
    change.edit("jobs/vision/vit.yaml", "numGPUs: 32", "numGPUs: 24")
    assert change.run("plan", "--base", "main").code == 0


_SPACE = "rendered/main/_cluster/namespace-team-x.yaml"
_TEAM = """\
apiVersion: v1
kind: Namespace
metadata: {name: team-x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team-x}
data: {a: "1"}
"""


def _with_team(fleet: Fleet) -> None:
    """Commit a namespace with an object to main, and begin a change."""
    fleet.write("queues/team.yaml", _TEAM)
    fleet.commit("a team")
    assert fleet.run("commit").code == 0
    fleet.git("checkout", "--quiet", "-b", "team")


def test_a_namespace_is_deleted_only_with_an_approval(fleet: Fleet) -> None:
    """F-145: with what Git still wants in it; nobody knows what else the cluster has there."""
    _with_team(fleet)
    fleet.write("queues/team.yaml", _TEAM.partition("---")[2])
    fleet.edit("reconciler.yaml", "- Namespace/default", "- Namespace")
    code, out = plan(fleet)
    assert code == 5
    told = " ".join(out.split())
    assert "deletes Namespace/team-x with 1 other object: ConfigMap/team-x/settings and all that is in it" in told
    approve(fleet)


def test_an_object_that_becomes_external_stays(fleet: Fleet) -> None:
    """F-142: Argo CD or Flux would delete it with all that is in it."""
    _with_team(fleet)
    fleet.write("queues/team.yaml", _TEAM.partition("---")[2])
    fleet.edit("reconciler.yaml", "- Namespace/default", "- Namespace/default\n        - Namespace/team-x")
    code, out = plan(fleet)
    assert code == 0, out
    assert "it is external now" in " ".join(out.split())
    assert fleet.run("commit").code == 0
    assert (fleet.root / _SPACE).exists()
    assert plan(fleet)[0] == 0
    assert fleet.run("verify", "--base", "main").code == 0
    fleet.git("rm", "--quiet", _SPACE)
    code, out = plan(fleet)
    assert code == 5
    assert f"keeps: {_SPACE}" in " ".join(out.split())


def test_a_kept_object_is_not_pruned_by_the_sync(fleet: Fleet) -> None:
    """Argo CD and Flux keep it as well; options of its source stay."""
    text = (fleet.root / CLAIM).read_text()
    assert "argocd.argoproj.io/sync-options: Prune=false,Delete=false\n" in text
    assert "kustomize.toolkit.fluxcd.io/prune: disabled\n" in text
    annotations = (
        'gpureconciler.io/keep: "true", argocd.argoproj.io/sync-options: "ServerSideApply=true, Delete=confirm"'
    )
    fleet.write(
        "jobs/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\n"
        f"metadata: {{name: settings, namespace: default, annotations: {{{annotations}}}}}\n",
    )
    out = fleet.run("render").out
    assert "argocd.argoproj.io/sync-options: ServerSideApply=true,Delete=confirm,Prune=false\n" in out
    reason = fleet.run(
        "explain",
        "PersistentVolumeClaim/default/vit-checkpoints",
        'metadata.annotations["kustomize.toolkit.fluxcd.io/prune"]',
    )
    assert "Argo CD and Flux must not prune it" in " ".join(reason.out.split())


def test_the_applicationset_of_the_template_deletes_nothing(fleet: Fleet) -> None:
    text = (fleet.root / "argocd/applicationset.yaml").read_bytes()
    (document,) = read("applicationset.yaml", text).documents
    assert document.data["spec"]["syncPolicy"] == {"preserveResourcesOnDeletion": True}


# --- Whole attacks. ---


def test_another_cluster_by_default_hides_nothing(change: Fleet) -> None:
    """One line made a plan say "No changes" and `verify` pass, with all jobs deleted and a privileged pod added."""
    change.git("checkout", "--quiet", "main")
    change.edit(
        "reconciler.yaml",
        "    - name: main\n",
        "    - name: staging\n      select: {folders: [jobs/staging]}\n    - name: main\n",
    )
    change.commit()
    assert change.run("commit").code in (0, 3)
    change.git("checkout", "--quiet", "-B", "change")
    spec(change, "defaults: {cluster: staging}")
    change.git("rm", "--quiet", "-r", "jobs/vision", VIT)
    change.write(
        "rendered/main/default/pod-admin.yaml",
        POD.replace("labels: {", "labels: {app.kubernetes.io/managed-by: gpu-reconciler, "),
    )
    code, out = plan(change)
    assert code == 5
    assert "vit" in out
    assert "pod-admin.yaml" in out
    assert "defaults.cluster" in out
    assert change.run("verify", "--base", "main").code == 5


def test_another_rendered_folder_hides_nothing(change: Fleet) -> None:
    """What syncs `rendered/` still reads it: a hand edit there is refused, also once the new setting is approved."""
    spec(change, "rendered: out")
    change.commit()
    assert change.run("commit").code == 0
    assert plan(change)[0] == 5
    assert change.run("verify", "--base", "main").code == 5
    approve(change)
    assert change.run("verify", "--base", "main").code == 0
    change.edit(VIT, "image: ", "image: evil/")
    (change.root / CLAIM).unlink()
    code, out = plan(change)
    assert code == 5
    assert VIT in out
    assert CLAIM in out


def test_a_moved_rendered_folder_is_approved_as_one_setting(change: Fleet) -> None:
    spec(change, "rendered: out")
    change.git("mv", "rendered", "out")
    assert plan(change)[0] == 5
    approve(change)


def test_verify_refuses_weaker_settings_that_nobody_approved(change: Fleet) -> None:
    spec(change, "budgets: {deletes: {count: 1000}}")
    change.commit()
    assert change.run("verify", "--base", "main").code == 5
    approve(change)
    assert change.run("verify", "--base", "main").code == 0


def test_a_base_without_readable_settings_is_a_finding(fleet: Fleet) -> None:
    text = (fleet.root / "reconciler.yaml").read_text()
    fleet.write("reconciler.yaml", f"{text}\nbroken: [\n")
    fleet.commit()
    fleet.git("checkout", "--quiet", "-b", "change")
    fleet.write("reconciler.yaml", text)
    assert settings(fleet)["reconciler.yaml"] == ("cannot be read", "readable", True)
