"""Admission policies offline: what is matched, what is said, where a fault lies, and what is no pass."""

import copy
import random
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kinds.manifests.manifest import Manifest, manifest
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Severity
from reconciler.kube.reasons import Reason, copied
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.policy.admission import Policies, ServerView, Subject, load
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import Requester, RuleSetting

SERVER = ServerView(served=Catalogue(resources).resource)
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "team-a", "labels": {"team": "a"}},
    "spec": {"parallelism": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
}
RULE = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]}


def policy(expression: str = "false", *, constraints: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    validations = [{"expression": expression, "message": "no"}]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "rule"},
        "spec": {"matchConstraints": {"resourceRules": [RULE], **(constraints or {})}, "validations": validations}
        | spec,
    }


def binding(*actions: str, name: str = "rule", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": "rule", "validationActions": list(actions or ("Deny",)), **spec},
    }


def loaded(*bodies: Mapping[str, Any], settings: Mapping[str, RuleSetting] | None = None) -> Policies:
    text = yaml.safe_dump_all(list(bodies), sort_keys=False)
    reading = read("policies/rule.yaml", text.encode())
    assert not reading.problems
    return load(reading.documents, settings or {}, server=SERVER)


def rendered(body: Mapping[str, Any] = JOB) -> Manifest:
    place = SourceRef(path="jobs/train.yaml", line=1, column=1)
    return manifest(cluster="main", tree=body, source=place, reason=Reason(rule="source"))


def judged(
    *bodies: Mapping[str, Any],
    body: Mapping[str, Any] = JOB,
    old: Mapping[str, Any] | None = None,
    namespace: Mapping[str, Any] | None = None,
    deletes: bool = False,
) -> tuple[Verdict, ...]:
    policies, problems = loaded(*bodies)
    assert [problem for problem in problems if problem.severity is Severity.ERROR] == []
    return policies.evaluate(Subject(rendered(body), old, namespace, deletes))


def said(*bodies: Mapping[str, Any], **more: Any) -> list[tuple[str, str]]:
    return [(one.result.value, one.message) for one in judged(*bodies, **more)]


def test_a_denial_has_rule_place_message_and_key() -> None:
    (verdict,) = judged(policy(), binding())
    assert (verdict.rule, verdict.result, verdict.message) == ("rule", Result.DENY, "no")
    assert str(verdict.place) == "jobs/train.yaml:1:1"
    assert str(verdict.key) == "Job/team-a/train"
    assert judged(policy("true"), binding()) == ()


def test_a_named_field_leads_to_its_source_line() -> None:
    """The verdict points at the line a person wrote, not at the rendered file."""
    text = "apiVersion: v1\nkind: X\nspec:\n  pods: 2\n"
    (source,) = read("jobs/own.yaml", text.encode()).documents
    body = copy.deepcopy(JOB)
    body["spec"]["parallelism"] = copied(source, ("spec", "pods"), 2)
    notes = {"gpureconciler.io/field": "spec.nothing, spec.parallelism", "gpureconciler.io/hint": "ask for less"}
    named = policy()
    named["metadata"]["annotations"] = notes
    policies, _ = loaded(named, binding())
    (verdict,) = policies.evaluate(Subject(rendered(body), None, None))
    assert (str(verdict.place), verdict.field, verdict.hint) == (
        "jobs/own.yaml:4:9",
        "spec.parallelism",
        "ask for less",
    )


@pytest.mark.parametrize(
    ("actions", "result"),
    [
        (["Deny"], "deny"),
        (["Deny", "Audit"], "deny"),
        (["Warn"], "warn"),
        (["Warn", "Audit"], "warn"),
        (["Audit"], "audit"),
    ],
)
def test_actions(actions: list[str], result: str) -> None:
    assert said(policy(), binding(*actions)) == [(result, "no")]


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"messageExpression": "'asks for ' + string(object.spec.parallelism)", "message": "m"}, "asks for 2"),
        ({"messageExpression": "object.nothing", "message": "m"}, "m"),
        ({"messageExpression": "'  '", "message": "m"}, "m"),
        ({"messageExpression": "'two\\nlines'", "message": "m"}, "m"),
        ({"messageExpression": "lists.range(6000).map(i, 'x').join('')", "message": "m"}, "m"),
        ({}, "failed expression: object.spec.parallelism == 3"),
    ],
)
def test_messages(validation: dict[str, str], message: str) -> None:
    rule = policy(validations=[{"expression": "object.spec.parallelism ==\n  3", **validation}])
    if validation.get("messageExpression") == "object.nothing":
        rule["spec"]["validations"][0]["messageExpression"] = "string(object.nothing)"
    assert said(rule, binding()) == [("deny", message)]


@pytest.mark.parametrize(
    ("rules", "matched"),
    [
        ([RULE], True),
        ([{**RULE, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}], True),
        ([{**RULE, "resources": ["*/*"]}], True),
        ([{**RULE, "resources": ["jobs/status"]}], False),
        ([{**RULE, "resources": ["jobs/*"]}], True),
        ([{**RULE, "resources": ["cronjobs"]}], False),
        ([{**RULE, "apiGroups": [""]}], False),
        ([{**RULE, "operations": ["DELETE"]}], False),
        ([{**RULE, "operations": ["UPDATE"]}], False),
        ([{**RULE, "scope": "Namespaced"}], True),
        ([{**RULE, "scope": "Cluster"}], False),
        ([{**RULE, "resourceNames": ["train"]}], True),
        ([{**RULE, "resourceNames": ["other"]}], False),
        ([{**RULE, "resources": ["cronjobs"]}, RULE], True),
    ],
)
def test_resource_rules(rules: list[dict[str, Any]], matched: bool) -> None:
    assert bool(said(policy(constraints={"resourceRules": rules}), binding())) == matched
    assert bool(said(policy(), binding(matchResources={"resourceRules": rules}))) == matched


def test_excluded_rules_win() -> None:
    excluded = {"excludeResourceRules": [{**RULE, "resourceNames": ["train"]}]}
    assert said(policy(constraints=excluded), binding()) == []
    assert said(policy(), binding(matchResources=excluded)) == []


@pytest.mark.parametrize(
    ("selector", "matched"),
    [
        ({}, True),
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["b", "a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_object_selector(selector: dict[str, Any], matched: bool) -> None:
    assert bool(said(policy(constraints={"objectSelector": selector}), binding())) == matched


def test_the_old_object_may_be_selected_as_well() -> None:
    selected = {"objectSelector": {"matchLabels": {"team": "b"}}}
    old = copy.deepcopy(JOB)
    old["metadata"]["labels"] = {"team": "b"}
    assert said(policy(constraints=selected), binding()) == []
    assert said(policy(constraints=selected), binding(), old=old) == [("deny", "no")]


def test_namespace_selector() -> None:
    """A namespace's name is always known; its other labels only from its object."""
    by_name = {
        "namespaceSelector": {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
        }
    }
    assert said(policy(), binding(matchResources=by_name)) == [("deny", "no")]
    system = {**JOB, "metadata": {**JOB["metadata"], "namespace": "kube-system"}}
    assert said(policy(), binding(matchResources=by_name), body=system) == []
    by_label = {"namespaceSelector": {"matchLabels": {"gpu": "yes"}}}
    space = {"metadata": {"name": "team-a", "labels": {"gpu": "yes"}}}
    assert said(policy(), binding(matchResources=by_label), namespace=space) == [("deny", "no")]
    assert said(policy(), binding(matchResources=by_label), namespace={"metadata": {"name": "team-a"}}) == []
    ((result, message),) = said(policy("true"), binding(matchResources=by_label))
    assert result == "error"
    assert "labels of namespace 'team-a' are unknown" in message


def test_a_namespace_is_selected_by_its_own_labels() -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["namespaces"],
        "scope": "Cluster",
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}
    constraints = {"resourceRules": [rule], "namespaceSelector": selector}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    assert said(policy("request.namespace == 'x'", constraints=constraints), binding(), body=body) == [("deny", "no")]
    other = {**body, "metadata": {"name": "team-b"}}
    assert said(policy(constraints=constraints), binding(), body=other) == []


def test_of_another_version_only_metadata_is_known() -> None:
    """An API server converts the object, unless the policy wants exact versions."""
    rule = {**RULE, "apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]}
    body = {**JOB, "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    constraints = {"resourceRules": [rule]}
    seen = (
        "object.apiVersion == 'autoscaling/v1' && request.kind.version == 'v1' && request.requestKind.version == 'v2'"
    )
    labelled = "object.metadata.labels.team == 'a' && request.resource.version == 'v1'"
    assert said(policy(f"{seen} && {labelled}", constraints=constraints), binding(), body=body) == []
    for unknown in ("has(object.spec)", "has(object.metadata.annotations)"):
        ((result, message),) = said(policy(unknown, constraints=constraints), binding(), body=body)
        assert result == "error"
        assert "only a live API server knows" in message
    assert said(policy(constraints={"resourceRules": [rule], "matchPolicy": "Exact"}), binding(), body=body) == []
    assert (
        said(policy(constraints={"resourceRules": [RULE], "excludeResourceRules": [rule]}), binding(), body=body) == []
    )


def test_versions_that_differ_in_their_names_alone_are_converted() -> None:
    """A definition without a webhook for conversions; the binding may name a third version."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": free}}
        for name in ("v1", "v1beta1")
    ]
    names = {"kind": "Octopus", "plural": "octopodes"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": served}
    api = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    catalogue = Catalogue(resources).with_definitions([{**api, "spec": spec}])
    server = ServerView(stored=catalogue.stored, served=catalogue.resource)
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["octopodes"]}
    body = {**JOB, "apiVersion": "example.com/v1beta1", "kind": "Octopus"}
    seen = policy(
        "object.apiVersion != 'example.com/v1' || object.spec.parallelism != 2", constraints={"resourceRules": [rule]}
    )
    text = yaml.safe_dump_all([seen, binding(matchResources={"resourceRules": [rule]})])
    policies = load(read("policies/rule.yaml", text.encode()).documents, {}, server=server).policies
    found = policies.evaluate(Subject(rendered(body), None, None))
    assert [(one.result, one.message) for one in found] == [(Result.DENY, "no")]


def test_a_version_that_is_not_served_matches_nothing() -> None:
    unserved = {**RULE, "apiVersions": ["v1beta1"]}
    assert said(policy(constraints={"resourceRules": [unserved]}), binding()) == []
    assert said(policy(constraints={"excludeResourceRules": [unserved]}), binding()) == [("deny", "no")]


def test_a_resource_is_never_guessed() -> None:
    """The plural of an unknown kind could be any; a rule about all resources needs none."""
    body = {**JOB, "apiVersion": "example.com/v1", "kind": "Widget"}
    rule = {**RULE, "apiGroups": ["*"], "resources": ["widgets"]}
    ((result, message),) = said(policy(constraints={"resourceRules": [rule]}), binding(), body=body)
    assert (result, "the resource name of Widget is unknown" in message) == ("error", True)
    assert (
        said(policy(constraints={"resourceRules": [{**rule, "resources": ["pods/exec"]}]}), binding(), body=body) == []
    )
    assert said(policy(constraints={"resourceRules": [{**rule, "resources": ["*"]}]}), binding(), body=body) == [
        ("deny", "no")
    ]
    excluded = {"resourceRules": [{**rule, "resources": ["*"]}], "excludeResourceRules": [rule]}
    assert [result for result, _ in said(policy(constraints=excluded), binding(), body=body)] == ["error"]


def test_a_deletion_has_no_object() -> None:
    deleting = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    protected = policy("oldObject.metadata.labels.team != 'a'", constraints=deleting)
    assert said(protected, binding()) == []
    assert said(protected, binding(), deletes=True) == [("deny", "deletion: no")]
    assert (
        said(policy("object == null && request.operation == 'DELETE'", constraints=deleting), binding(), deletes=True)
        == []
    )


USER = Requester(user="system:serviceaccount:gitops:syncer", groups=("deployers",))


def test_a_known_user_is_seen_with_the_groups_of_every_server() -> None:
    def told(expression: str) -> list[str]:
        text = yaml.safe_dump_all([policy(expression), binding()], sort_keys=False)
        server = ServerView(served=SERVER.served, requesters={"main": USER})
        policies = load(read("policies/rule.yaml", text.encode()).documents, {}, server=server).policies
        return [one.message for one in policies.evaluate(Subject(rendered(), None, None))]

    groups = ["deployers", "system:serviceaccounts", "system:serviceaccounts:gitops", "system:authenticated"]
    assert told(f"request.userInfo.username == '{USER.user}' && request.userInfo.groups == {groups}") == []
    (message,) = told("has(request.userInfo.uid)")
    assert "only a live API server knows `request.userInfo.uid`" in message


def test_conditions_come_first_and_false_beats_an_error() -> None:
    def conditions(*texts: str) -> dict[str, Any]:
        named = [{"name": f"c{index}", "expression": text} for index, text in enumerate(texts)]
        return policy(matchConditions=named)

    assert said(conditions("object.spec.parallelism == 2"), binding()) == [("deny", "no")]
    assert said(conditions("object.spec.parallelism == 3"), binding()) == []
    assert said(conditions("object.nothing == 1", "false"), binding()) == []
    ((result, message),) = said(conditions("object.nothing == 1", "true"), binding())
    assert result == "error"
    assert message == "not evaluated: no such key: nothing in `object.nothing == 1`"


def test_variables_are_lazy() -> None:
    variables = [
        {"name": "broken", "expression": "object.nothing"},
        {"name": "pods", "expression": "object.spec.parallelism"},
        {"name": "double", "expression": "variables.pods * 2"},
    ]
    assert said(policy("variables.double == 4", variables=variables), binding()) == []
    assert said(policy("variables.double == 5", variables=variables), binding()) == [("deny", "no")]
    assert said(policy("true || variables.broken == 1", variables=variables), binding()) == []


def test_what_cannot_be_evaluated_is_an_error_and_never_a_pass() -> None:
    for expression, words in {
        "object.nothing == 1": "no such key",
        "request.userInfo.username == 'admin'": "only a live API server knows `request.userInfo`",
        "authorizer.group('').resource('pods').check('get').allowed()": "only a live API server knows `authorizer`",
        "namespaceObject.metadata.name == 'team-a'": "the Namespace object is not in the repository",
        "lists.range(9999).all(a, lists.range(9999).all(b, true))": "actual cost limit exceeded",
    }.items():
        (verdict,) = judged(policy(expression), binding("Warn"))
        assert verdict.result is Result.ERROR
        assert words in verdict.message
        assert verdict.hint


COSTLY = "lists.range(340).all(a, lists.range(340).all(b, a + b >= 0))"


def test_the_steps_of_all_expressions_are_limited() -> None:
    """Each may take a million steps, and all together ten; match conditions a quarter of that."""
    assert said(policy(COSTLY), binding()) == []
    validations = [{"expression": COSTLY}] * 9
    assert said(policy(validations=[*validations, {"expression": "false", "message": "no"}]), binding()) == [
        ("deny", "no")
    ]
    ((result, message),) = said(policy(validations=[{"expression": "false"}, *validations * 2]), binding())
    assert (result, "too many steps together" in message) == ("error", True)
    conditions = [{"name": f"c{index}", "expression": f"{COSTLY} && {index} >= 0"} for index in range(4)]
    ((result, message),) = said(policy("true", matchConditions=conditions), binding())
    assert (result, "too many steps together" in message) == ("error", True)
    assert said(policy("true", matchConditions=conditions[:2]), binding()) == []


def test_failure_policy_ignore_shows_what_the_server_would_let_through() -> None:
    ignoring = policy("object.nothing == 1", failurePolicy="Ignore")
    ((result, message),) = said(ignoring, binding())
    assert (result, message.startswith("not evaluated: ")) == ("warn", True)
    unknown = policy("request.userInfo.username == 'x'", failurePolicy="Ignore")
    assert [result for result, _ in said(unknown, binding())] == ["error"]


def test_an_error_does_not_hide_behind_another_rule() -> None:
    """All rules are asked together first; that must not lose the one that fails."""
    broken = policy("object.nothing == 1")
    fine = copy.deepcopy(policy("true"))
    fine["metadata"]["name"] = "fine"
    other = binding(name="fine")
    other["spec"]["policyName"] = "fine"
    for order in ([broken, fine], [fine, broken]):
        assert [one.rule for one in judged(*order, binding(), other)] == ["rule"]


def test_request_and_old_object() -> None:
    check = (
        "request.operation == 'CREATE' && oldObject == null && request.resource.resource == 'jobs' && "
        "request.kind.group == 'batch' && request.namespace == 'team-a' && request.name == 'train' && !request.dryRun"
    )
    assert said(policy(check), binding()) == []
    smaller = {**JOB, "spec": {**JOB["spec"], "parallelism": 1}}
    grown = "request.operation == 'UPDATE' && object.spec.parallelism <= oldObject.spec.parallelism"
    assert said(policy(grown), binding(), old=smaller) == [("deny", "no")]
    assert said(policy(grown), binding(), old=JOB) == []


def test_namespace_object() -> None:
    check = "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] + namespaceObject.metadata.labels.gpu == 'team-ayes'"
    space = {"metadata": {"name": "team-a", "labels": {"gpu": "yes"}}}
    assert said(policy(check), binding(), namespace=space) == []
    queue = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}
    rule = {**RULE, "apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"]}
    clustered = policy("namespaceObject == null", constraints={"resourceRules": [rule]})
    assert said(clustered, binding(), body=queue) == []


def test_audit_annotations() -> None:
    notes = [{"key": "pods", "valueExpression": "string(object.spec.parallelism)"}]
    assert said(policy("true", auditAnnotations=notes), binding()) == [("audit", "pods: 2")]
    notes[0]["valueExpression"] = "''"
    assert said(policy("true", auditAnnotations=notes), binding()) == []
    notes[0]["valueExpression"] = "string(object.nothing)"
    assert [result for result, _ in said(policy("true", auditAnnotations=notes), binding())] == ["error"]


PARAM = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "limits", "namespace": "policies"},
    "data": {"max": "1"},
}
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


def _with_params(ref: dict[str, Any], *objects: Mapping[str, Any]) -> list[tuple[str, str]]:
    limited = policy("object.spec.parallelism <= int(params.data.max)", paramKind=KIND)
    return said(limited, binding(paramRef=ref), *objects)


def test_parameters_by_name() -> None:
    ref = {"name": "limits", "namespace": "policies", "parameterNotFoundAction": "Deny"}
    assert _with_params(ref, PARAM) == [("deny", "no")]
    assert _with_params(ref, {**PARAM, "data": {"max": "2"}}) == []
    ((result, message),) = _with_params(ref)
    assert result == "error"
    assert "no ConfigMap limits among the policy files" in message
    assert _with_params({**ref, "parameterNotFoundAction": "Allow"}) == []


def test_parameters_of_the_objects_own_namespace() -> None:
    ref = {"name": "limits", "parameterNotFoundAction": "Allow"}
    assert _with_params(ref, PARAM) == []
    assert _with_params(ref, {**PARAM, "metadata": {"name": "limits", "namespace": "team-a"}}) == [("deny", "no")]


def test_parameters_by_selector_are_all_asked() -> None:
    ref = {"selector": {"matchLabels": {"limits": "yes"}}, "namespace": "policies", "parameterNotFoundAction": "Deny"}
    named = {"namespace": "policies", "labels": {"limits": "yes"}}
    strict = {**PARAM, "metadata": {**named, "name": "strict"}}
    loose = {**PARAM, "metadata": {**named, "name": "loose"}, "data": {"max": "9"}}
    assert _with_params(ref, loose) == []
    assert _with_params(ref, loose, strict) == [("deny", "no")]


def test_no_reference_gives_null_parameters() -> None:
    assert said(policy("params == null", paramKind=KIND), binding()) == []


def test_beta_policies_are_read_too() -> None:
    beta = [{**one, "apiVersion": "admissionregistration.k8s.io/v1beta1"} for one in (policy(), binding())]
    assert said(*beta) == [("deny", "no")]


def test_policies_do_not_judge_policies() -> None:
    everything = {**RULE, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    assert said(policy(constraints={"resourceRules": [everything]}), binding(), body=policy()) == []


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        ({"validations": [{"expression": "object.kind = 'x'"}]}, "expression", "Syntax error"),
        ({"validations": [{"expression": "object.kind"}]}, "expression", "must evaluate to bool, not dyn"),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "messageExpression",
            "must evaluate to string",
        ),
        (
            {"variables": [{"name": "a", "expression": "nothing.at == 1"}]},
            "expression",
            "undeclared reference to 'nothing",
        ),
        ({"validations": [{"expression": "variables.a == 1"}]}, "expression", "undeclared reference to 'variables"),
        ({"validations": [{"expression": "params.a == 1"}]}, "expression", "undeclared reference to 'params"),
        ({"validations": [{"expression": "request.user.name == 'a'"}]}, "expression", "undefined field 'user'"),
        ({"matchConditions": [{"name": "c", "expression": "variables.a"}]}, "expression", "undeclared reference"),
        ({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]}, "valueExpression", "string or null"),
    ],
)
def test_expressions_that_do_not_compile_are_problems(change: dict[str, Any], line: str, words: str) -> None:
    policies, problems = loaded(policy("true", **change), binding())
    assert {problem.rule for problem in problems} == {"policy.cel"}
    assert words in str(problems[0])
    assert problems[0].field.endswith(line)
    assert policies.rules == ()


SHAPES = {
    "literal": ("expression: |-\n            object.kind == 'Job' &&\n              nothing", 3, 15),
    "folded": ("expression: >-\n            object.kind == 'Job' &&\n            nothing", 3, 13),
    "plain": ("expression: object.kind == 'Job' && nothing", 1, 46),
    "plain on two lines": ("expression: object.kind == 'Job'\n            && nothing", 2, 16),
    "single quoted": ("expression: 'object.kind == \"Job\" && nothing'", 1, 47),
    "double quoted": ("expression: \"object.kind == 'Job' && nothing\"", 1, 47),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_fault_is_shown_at_its_sign_in_the_file(shape: str) -> None:
    """Whatever way YAML wrote the expression, line and column are those of the wrong name."""
    written, line, column = SHAPES[shape]
    text = (
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: rule}\n"
        "spec:\n  matchConstraints:\n    resourceRules:\n      - {apiGroups: [''], apiVersions: [v1], "
        f"operations: [CREATE], resources: [pods]}}\n  validations:\n    -     {written}\n"
    )
    reading = read("policies/p.yaml", text.encode())
    assert not reading.problems
    problems = [one for one in load(reading.documents, {}).problems if one.rule == "policy.cel"]
    shown = text.splitlines()[problems[0].place.line - 1]
    assert problems[0].place.line == 8 + line
    assert shown[problems[0].place.column - 1 :].startswith("nothing")
    assert column > 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (policy(matchConstraints=None), "spec.matchConstraints: is required"),
        (policy(constraints={"resourceRules": []}), "spec.matchConstraints.resourceRules: must not be empty"),
        (policy(validations=[]), "spec.validations: is required"),
        (policy(validations=["x"]), "spec.validations: must be a list of mappings"),
        (policy(validations=[{"expression": 1}]), "spec.validations[0].expression: must be a non-empty string"),
        (policy(failurePolicy="Maybe"), "spec.failurePolicy: 'Maybe' is not allowed; allowed values: Fail, Ignore"),
        (policy(constraints={"resourceRules": [{**RULE, "operations": ["create"]}]}), "'create' is not allowed"),
        (binding("Block"), "spec.validationActions: 'Block' is not allowed; allowed values: Deny, Warn, Audit"),
        (binding("Deny", "Warn"), "Deny and Warn are mutually exclusive"),
        (binding(paramRef={"parameterNotFoundAction": "Deny"}), "spec.paramRef: must have either a name or a selector"),
        (binding(paramRef={"name": "a"}), "spec.paramRef.parameterNotFoundAction: is required"),
        (
            binding(matchResources={"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
            "'Is' is not allowed",
        ),
        ({**policy(), "spec": None}, "spec: must be a mapping"),
        ({**policy(), "metadata": {}}, "metadata.name: is required"),
    ],
)
def test_what_an_api_server_would_refuse_is_a_problem(body: dict[str, Any], words: str) -> None:
    _, problems = loaded(body)
    assert any(words in str(problem) and problem.rule == "policy.invalid" for problem in problems), problems


def test_policies_and_bindings_must_meet() -> None:
    _, problems = loaded(policy())
    assert [(one.rule, one.severity) for one in problems] == [("policy.unbound", Severity.WARNING)]
    _, problems = loaded(binding())
    assert [one.rule for one in problems] == ["policy.unknown-policy"]
    _, problems = loaded(policy(), policy(), binding())
    assert [one.rule for one in problems] == ["policy.duplicate"]


def test_a_rule_switched_off_is_silent() -> None:
    policies, problems = loaded(policy(), binding(), settings={"rule": RuleSetting(enabled=False)})
    assert problems == ()
    assert policies.evaluate(Subject(rendered(), None, None)) == ()


def test_the_digest_follows_meaning_and_not_order() -> None:
    bodies: list[Mapping[str, Any]] = [policy(), binding(), PARAM]
    first = loaded(*bodies).policies.digest
    for seed in range(5):
        random.Random(seed).shuffle(bodies)  # noqa: S311 - an order, not a secret
        assert loaded(*bodies).policies.digest == first
    assert loaded(policy("true"), binding(), PARAM).policies.digest != first
    assert loaded(policy(), binding("Warn"), PARAM).policies.digest != first
    assert loaded(policy(), binding(), {**PARAM, "data": {}}).policies.digest != first
    assert loaded(*bodies, settings={"rule": RuleSetting(action="warn")}).policies.digest != first


def test_verdicts_are_sorted_and_told_once() -> None:
    twice = [binding(), binding(name="again")]
    assert said(policy(), *twice) == [("deny", "no")]
    many = policy(validations=[{"expression": "false", "message": letter} for letter in "cab"])
    assert said(many, binding()) == [("deny", "a"), ("deny", "b"), ("deny", "c")]


def test_integers_beyond_64_bits_are_never_small() -> None:
    huge = {**JOB, "spec": {**JOB["spec"], "parallelism": 2**70}}
    assert [result for result, _ in said(policy("object.spec.parallelism < 3"), binding(), body=huge)] == ["deny"]
