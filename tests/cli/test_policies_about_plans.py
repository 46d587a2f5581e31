"""Policies about a plan as a whole, through the command line."""

import pytest

from tests.cli.fleet import Fleet

_POLICY = """\
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
    fleet.write("policies/small.yaml", _POLICY % (expression, "Deny"))
    fleet.commit("policy")
    assert fleet.run("plan").code == 0 or "queues" in expression
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    ran = fleet.run("plan")
    assert ran.code == 4, ran.out
    assert "small-plans" in ran.out
    assert "the plan is too large" in ran.out


def test_a_policy_about_the_plan_warns(fleet: Fleet) -> None:
    fleet.write("policies/small.yaml", _POLICY % ("object.gpus.delta <= 8", "Warn"))
    fleet.commit("policy")
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    ran = fleet.run("plan")
    assert ran.code in (0, 3)
    assert "the plan is too large" in ran.out
