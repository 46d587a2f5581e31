"""MutatingAdmissionPolicies: the objects that a real API server changes are the objects that are named."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kube.objects import SourceRef
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.policy.admission import ServerView, Subject, load
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import RuleSetting
from tests.cluster.server import ApiServer
from tests.differential.judging import rendered

CATALOGUE = Catalogue(resources)
NAMESPACE = "mutations"
LABEL = "example.com/mutated"
POLICIES = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label-it}
spec:
  reinvocationPolicy: IfNeeded
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: ["", batch], apiVersions: [v1], operations: ["CREATE"], resources: [configmaps, jobs]}
    excludeResourceRules:
      - {apiGroups: [""], apiVersions: ["*"], operations: ["*"], resources: [configmaps], resourceNames: [left-out]}
    objectSelector: {matchExpressions: [{key: plain, operator: DoesNotExist}]}
  matchConditions:
    - {name: big, expression: "!has(object.spec) || object.spec.parallelism > 1"}
  variables: [{name: value, expression: "'yes'"}]
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: "Object{metadata: Object.metadata{labels: {'example.com/mutated': variables.value}}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: label-it}
spec:
  policyName: label-it
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mutations}}}
"""
JOB = "{template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}, parallelism: %s}"
OBJECTS: Sequence[dict[str, Any]] = [
    {
        "apiVersion": "batch/v1" if spec else "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        **({"spec": yaml.safe_load(spec)} if spec else {}),
    }
    for kind, name, namespace, labels, spec in (
        ("ConfigMap", "changed", NAMESPACE, {}, ""),
        ("ConfigMap", "left-out", NAMESPACE, {}, ""),
        ("ConfigMap", "plain", NAMESPACE, {"plain": "a"}, ""),
        ("ConfigMap", "elsewhere", "default", {}, ""),
        ("Secret", "other-kind", NAMESPACE, {}, ""),
        ("Job", "big", NAMESPACE, {}, JOB % 2),
        ("Job", "small", NAMESPACE, {}, JOB % 1),
    )
]


def documents(text: str = POLICIES) -> tuple[Document, ...]:
    return read("policies/mutations.yaml", text.encode()).documents


def verdicts(
    body: Mapping[str, Any],
    *,
    settings: Mapping[str, RuleSetting] | None = None,
    text: str = POLICIES,
    old: Mapping[str, Any] | None = None,
    deletes: bool = False,
) -> tuple[Verdict, ...]:
    server = ServerView(stored=CATALOGUE.stored, served=CATALOGUE.resource)
    policies = load(documents(text), settings or {}, server=server).policies
    return policies.evaluate(Subject(rendered(body), old, None, deletes=deletes))


def test_the_objects_are_named_that_a_server_changes(api_server: ApiServer) -> None:
    """Constraints, exclusions, selectors and conditions of a policy and its binding decide as on the server."""
    client = api_server.client
    client.ensure_namespaces([NAMESPACE])
    bodies = [document.data for document in documents()]
    made = client.apply(bodies)
    try:
        assert all(one.ok for one in made), made
        deadline = time.monotonic() + 60
        while not _changed(client.apply_dry_run(OBJECTS[:1])[0].body):
            assert time.monotonic() < deadline, "the policy is not in force"
            time.sleep(0.2)
        theirs = [_changed(result.body) for result in client.apply_dry_run(OBJECTS)]
    finally:
        for body in reversed(bodies):
            path = client.path(body)
            assert path is not None
            client.request("DELETE", path)
    assert [bool(verdicts(body)) for body in OBJECTS] == theirs
    assert any(theirs)
    assert not all(theirs)


def _changed(body: Mapping[str, Any]) -> bool:
    return LABEL in (body["metadata"].get("labels") or {})


def test_the_warning_names_the_policy_and_what_to_do() -> None:
    (verdict,) = verdicts(OBJECTS[0])
    assert (verdict.rule, verdict.result) == ("mutation.label-it", Result.WARN)
    assert verdict.message == (
        "MutatingAdmissionPolicy label-it may change this object when it is applied, which the plan does not show"
    )
    assert verdict.hint == "write the change into the source, so that the plan shows it"


def test_settings_decide_what_a_mutation_means() -> None:
    place = SourceRef(path="reconciler.yaml")
    denied = {"mutation.label-it": RuleSetting(place=place, enabled=True, action="deny")}
    assert [one.result for one in verdicts(OBJECTS[0], settings=denied)] == [Result.DENY]
    off = {"mutation.label-it": RuleSetting(place=place, enabled=False)}
    assert verdicts(OBJECTS[0], settings=off) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("object.spec.parallelism > 1", "object.nothing.at"),  # cannot be evaluated
        ("object.spec.parallelism > 1", "authorizer.path('/').check('get').allowed()"),  # only a server knows
        ("kubernetes.io/metadata.name: mutations", "team: a"),  # labels of a namespace that is not in the repository
    ],
)
def test_what_is_unknown_may_change_the_object(old: str, new: str) -> None:
    assert old in POLICIES
    text = POLICIES.replace(old, new)
    assert [one.result for one in verdicts(OBJECTS[5], text=text)] == [Result.WARN]


def test_deletions_and_policies_without_a_binding_change_nothing() -> None:
    every = POLICIES.replace('operations: ["CREATE"]', 'operations: ["*"]')
    assert verdicts(OBJECTS[0], text=every, old=OBJECTS[0])
    assert verdicts(OBJECTS[0], text=every, deletes=True) == ()
    assert verdicts(OBJECTS[0], text=POLICIES.partition("---")[0]) == ()


def test_a_condition_that_does_not_compile_is_a_problem() -> None:
    text = POLICIES.replace("object.spec.parallelism > 1", "objekt.spec.parallelism > 1")
    (problem,) = load(documents(text), {}).problems
    assert (problem.rule, problem.place.line) == ("policy.cel", 14)
    assert load(documents(), {}).problems == ()


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_policies_of_every_version_and_all_their_bindings_name_objects(version: str) -> None:
    """A version that Kubernetes 1.37 does not serve is an error besides; an older server may have it."""
    text = POLICIES.replace("admissionregistration.k8s.io/v1\n", f"admissionregistration.k8s.io/{version}\n")
    binding = text.split("---\n")[1].replace("name: mutations", "name: default")
    both = f"{text}---\n{binding.replace('metadata: {name: label-it}', 'metadata: {name: second}')}"
    changed = [body["metadata"]["name"] for body in OBJECTS if verdicts(body, text=text)]
    assert changed == ["changed", "big"]
    found = {body["metadata"]["name"] for body in OBJECTS if verdicts(body, text=both)}
    assert found == {"changed", "big", "elsewhere"}
