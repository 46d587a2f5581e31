"""Policies about deletions, and about who applies objects, through the command line."""

import pytest

from tests.cli.fleet import Fleet

_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: protected}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: ["*"], apiVersions: ["*"], operations: [%s], resources: ["*"]}
  validations:
    - expression: "%s"
      message: it is protected
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: protected}
spec: {policyName: protected, validationActions: [Deny]}
"""
_EXCEPTION = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PolicyException
metadata: {name: gone}
spec:
  rule: protected
  object: {kind: PyTorchJob, namespace: default, name: vit}
  reason: the project has ended
  owner: platform@example.com
  expires: "2026-12-01"
"""
FILE = "jobs/vision/vit.yaml"


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("object != null || oldObject.kind != 'PyTorchJob'", 4),
        ("request.operation == 'DELETE' && object == null && oldObject.metadata.name != ''", 0),
        ("has(oldObject.spec.suspend) || oldObject.kind != 'PersistentVolumeClaim'", 4),
    ],
)
def test_a_policy_about_deletions_judges_what_a_plan_deletes(fleet: Fleet, expression: str, code: int) -> None:
    fleet.write("policies/protected.yaml", _POLICY % ("DELETE", expression))
    fleet.commit("policy")
    assert fleet.run("plan").code == 0
    (fleet.root / FILE).unlink()
    ran = fleet.run("plan", "--width", "300")
    assert ran.code == code, ran.out
    assert ("deletion: it is protected" in ran.out) == (code == 4)


def test_a_policy_about_creations_judges_no_deletion(fleet: Fleet) -> None:
    fleet.write("policies/protected.yaml", _POLICY % ("CREATE", "object.kind != 'None'"))
    fleet.commit("policy")
    (fleet.root / FILE).unlink()
    assert fleet.run("plan").code == 0


def test_an_exception_covers_a_deletion(fleet: Fleet) -> None:
    fleet.write("policies/protected.yaml", _POLICY % ("DELETE", "oldObject.kind != 'PyTorchJob'"))
    fleet.commit("policy")
    (fleet.root / FILE).unlink()
    assert fleet.run("plan").code == 4
    fleet.write("policies/exceptions/gone.yaml", _EXCEPTION)
    ran = fleet.run("plan")
    assert ran.code == 0, ran.out
    assert "the project has ended" in ran.out
    assert "is not used" not in ran.out


def test_an_exception_may_select_objects_by_labels(fleet: Fleet) -> None:
    """Also objects that are deleted; the review says how many."""
    fleet.write("policies/protected.yaml", _POLICY % ("DELETE", "oldObject.kind != 'PyTorchJob'"))
    fleet.commit("policy")
    (fleet.root / FILE).unlink()
    object_line = "object: {kind: PyTorchJob, namespace: default, name: vit}"
    chosen = _EXCEPTION.replace(object_line, "selector: {kinds: [PyTorchJob], labels: {team: %s}}")
    fleet.write("policies/exceptions/gone.yaml", chosen % "language")
    assert fleet.run("plan").code == 4
    fleet.write("policies/exceptions/gone.yaml", chosen % "vision")
    ran = fleet.run("plan", "--width", "300")
    assert ran.code == 0, ran.out
    assert "PyTorchJob with team=vision (1 object)" in ran.out


def test_the_user_who_applies_is_named_in_the_settings(fleet: Fleet) -> None:
    fleet.write("policies/protected.yaml", _POLICY % ("CREATE", "request.userInfo.username == 'syncer'"))
    fleet.commit("policy")
    ran = fleet.run("lint")
    assert ran.code == 4
    assert "spec.clusters[].appliedBy" in ran.out
    fleet.edit(
        "reconciler.yaml", "- name: main\n", "- name: main\n      appliedBy: {user: syncer, groups: [deployers]}\n"
    )
    assert fleet.run("lint").code == 0
    fleet.edit("reconciler.yaml", "user: syncer", "user: somebody")
    ran = fleet.run("lint")
    assert ran.code == 4
    assert "it is protected" in ran.out


def test_another_user_weakens_how_changes_are_judged(fleet: Fleet) -> None:
    fleet.edit("reconciler.yaml", "- name: main\n", "- name: main\n      appliedBy: {user: syncer}\n")
    ran = fleet.run("plan")
    assert "clusters.main.appliedBy.user" in ran.out
    assert "admission policies judge the requests of another user" in " ".join(ran.out.split())
