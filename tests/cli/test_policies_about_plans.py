"""Policies about a plan as a whole, through the command line."""

import pytest

from tests.cli.fleet import Fleet

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small-plans}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [gpureconciler.io], apiVersions: ["*"], operations: [CREATE], resources: [plans]}
  validations:
    - expression: "%s"
      message: the plan is too large
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small-plans}
spec: {policyName: small-plans, validationActions: [%s]}
"""


@pytest.mark.parametrize(
    "expression",
    [
        "object.gpus.delta <= 8",
        "object.gpus.after - object.gpus.before < 16",
        "object.changes.update == 0",
        "!('main' in object.changes.byCluster)",
        "object.changes.total < 1",
        "object.queues.all(q, q.requested <= 16)",
    ],
)
def test_a_policy_about_the_plan_denies(fleet: Fleet, expression: str) -> None:
    fleet.write("policies/small.yaml", POLICY % (expression, "Deny"))
    fleet.commit("policy")
    assert fleet.run("plan").code == 0 or "queues" in expression
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    ran = fleet.run("plan")
    assert ran.code == 4, ran.out
    assert "small-plans" in ran.out
    assert "the plan is too large" in ran.out


def test_a_policy_about_the_plan_warns(fleet: Fleet) -> None:
    fleet.write("policies/small.yaml", POLICY % ("object.gpus.delta <= 8", "Warn"))
    fleet.commit("policy")
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    ran = fleet.run("plan")
    assert ran.code in (0, 3)
    assert "the plan is too large" in ran.out


_AS_IN_BASE = "the rule applies as in the base"


def test_a_policy_about_the_plan_that_only_the_base_has(fleet: Fleet) -> None:
    """Whoever reads the hint looks for an edit of the policy: without one there is no hint."""
    fleet.write("policies/small.yaml", POLICY % ("object.gpus.delta <= 8", "Deny"))
    fleet.commit("policy")
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    same = fleet.run("plan")
    assert (same.code, _AS_IN_BASE in same.out) == (4, False), same.out
    fleet.edit("policies/small.yaml", "delta <= 8", "delta <= 80")
    weaker = fleet.run("plan")
    assert weaker.code == 4, weaker.out
    assert _AS_IN_BASE in " ".join(weaker.out.split())
    fleet.git("checkout", "--quiet", "policies")
    fleet.edit("policies/small.yaml", "delta <= 8", "delta <= 4")
    stricter = fleet.run("plan")
    assert stricter.code == 4
    assert stricter.out.count("the plan is too large") == 1


def test_a_policy_about_the_plan_that_only_the_head_has(fleet: Fleet) -> None:
    fleet.write("policies/small.yaml", POLICY % ("object.gpus.delta <= 8", "Deny"))
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    ran = fleet.run("plan")
    assert (ran.code, _AS_IN_BASE in " ".join(ran.out.split())) == (4, False), ran.out


def test_a_shipped_rule_about_plans_is_off_until_it_is_named(fleet: Fleet) -> None:
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 24")
    assert "gpus-per-plan" not in fleet.run("plan").out
    fleet.git("checkout", "--quiet", ".")
    fleet.edit("reconciler.yaml", "spec:\n", "spec:\n  rules: {gpus-per-plan: {parameters: {max: 4}}}\n")
    fleet.commit("limit")
    assert fleet.run("plan").code == 0
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 24")
    ran = fleet.run("plan")
    assert ran.code == 4
    assert "the plan adds 8 GPUs, the maximum is 4" in ran.out


_EXCEPTION = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PolicyException
metadata: {name: growth}
spec:
  rule: small-plans
  object: {kind: Plan, name: plan}
  reason: a new training
  owner: platform@example.com
  expires: "%s"
"""


@pytest.mark.parametrize(("expires", "code", "words"), [("2026-12-01", 0, "a new training"), ("2026-11-01", 3, "")])
def test_an_exception_covers_a_policy_about_the_plan(fleet: Fleet, expires: str, code: int, words: str) -> None:
    """An exception for plans is listed while it is in force, and never counts as unused."""
    fleet.write("policies/small.yaml", POLICY % ("object.changes.total == 0", "Deny"))
    fleet.write("policies/exceptions/growth.yaml", _EXCEPTION % expires)
    fleet.commit("policy")
    assert "not used" not in fleet.run("plan").out
    fleet.write(
        "jobs/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: default, labels: {team: x}}\ndata: {k: v}\n",
    )
    ran = fleet.run("plan")
    assert ran.code == code, ran.out
    assert words in ran.out
    assert ("expired on" in ran.out) == (code == 3)


_MUTATION = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: set-owner}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  mutations:
    - {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/owner', value: 'a'}]"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: set-owner}
spec: {policyName: set-owner}
"""


@pytest.mark.parametrize("folder", ["jobs", "policies"])
def test_a_plan_names_what_a_server_may_change(fleet: Fleet, folder: str) -> None:
    """Policies that are rendered count as those that only the cluster has; nothing is judged again without them."""
    fleet.write("jobs/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n")
    assert "MutatingAdmissionPolicy" not in fleet.run("lint").out
    fleet.write(f"{folder}/mutation.yaml", _MUTATION)
    for verb in ("lint", "plan"):
        ran = fleet.run(verb)
        assert ran.code == 0, ran.out + ran.err
        told = " ".join(ran.out.split())
        assert "MutatingAdmissionPolicy set-owner may change this object when it is applied" in told
        assert "jobs/settings.yaml: ConfigMap default/settings" in told
        assert "mutation.set-owner" in told
    fleet.edit("reconciler.yaml", "spec:\n", "spec:\n  rules: {mutation.set-owner: {enabled: false}}\n")
    assert "may change this object" not in fleet.run("lint").out


def test_the_expressions_of_a_rendered_policy_are_checked(fleet: Fleet) -> None:
    """A policy among the sources is not evaluated, but a server would refuse it."""
    fleet.write("jobs/small.yaml", POLICY % ("objekt.gpus.delta <= 8", "Deny"))
    ran = fleet.run("lint", "-o", "json")
    assert ran.code == 3
    assert "undeclared reference to 'objekt'" in ran.out
    fleet.write("jobs/small.yaml", POLICY % ("object.gpus.delta <= 8", "Deny"))
    assert fleet.run("lint").code == 0
