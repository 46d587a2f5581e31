"""What a change does to the rules, and the stricter of two verdicts."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler import resources
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.yaml import read
from reconciler.policy.changes import rule_changes, stricter_verdicts
from reconciler.policy.rule_book import RuleBook, load_rules
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import RuleSetting
from reconciler.repo.config.changes import SettingChange

SHIPPED = "policies/max-gpus-per-job/rule.yaml"
EXCEPTION = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PolicyException
metadata: {name: e}
spec:
  rule: max-gpus-per-job
  object: {kind: Job, namespace: a, name: b}
  reason: r
  owner: o
  expires: "%s"
"""


def book(own: str = "", **settings: RuleSetting) -> RuleBook:
    named = {name.replace("__", ".").replace("_", "-"): setting for name, setting in settings.items()}
    shipped = read(SHIPPED, resources.read(SHIPPED)).documents
    return load_rules(read("policies/own.yaml", own.encode()).documents, named, shipped=shipped)


def changes(base: RuleBook, head: RuleBook) -> dict[str, SettingChange]:
    return {one.setting: one for one in rule_changes(base, head)}


def test_equal_rules_have_no_changes() -> None:
    assert changes(book(), book()) == {}
    text = resources.read(SHIPPED).decode()
    assert changes(book(), book(text)) == {}


@pytest.mark.parametrize(
    ("before", "after", "weakens"),
    [
        ({}, {"max": 8}, False),
        ({"max": 8}, {}, True),
        ({"max": 8}, {"max": 16}, True),
        ({"max": 16}, {"max": 8}, False),
        ({"max": 8}, {"max": 8, "overrides": {"a": 16}}, True),
        ({"max": 8}, {"max": 8, "overrides": {"a": 4}}, False),
        ({"max": 8, "overrides": {"a": 4}}, {"max": 8}, True),
        ({"max": 8, "overrides": {"a": 16}}, {"max": 8}, False),
    ],
)
def test_limits_of_built_in_rules(before: dict[str, Any], after: dict[str, Any], weakens: bool) -> None:
    (found,) = changes(
        book(quota__max_gpus_per_queue=RuleSetting(parameters=before)),
        book(quota__max_gpus_per_queue=RuleSetting(parameters=after)),
    ).values()
    assert found.weakens is weakens


@pytest.mark.parametrize(
    ("before", "after", "shown", "weakens"),
    [
        (RuleSetting(), RuleSetting(enabled=False), ("warn", "off"), True),
        (RuleSetting(action="deny"), RuleSetting(action="audit"), ("deny", "audit"), True),
        (RuleSetting(enabled=False), RuleSetting(), ("off", "warn"), False),
    ],
)
def test_actions_of_built_in_rules(
    before: RuleSetting, after: RuleSetting, shown: tuple[str, str], weakens: bool
) -> None:
    found = changes(book(quota__cordoned=before), book(quota__cordoned=after))["rules.quota.cordoned"]
    assert ((found.before, found.after), found.weakens) == (shown, weakens)


def test_an_edited_policy_counts_as_weaker() -> None:
    text = resources.read(SHIPPED).decode()
    assert "Deny" in text
    found = changes(book(), book(text.replace("validationActions: [Deny]", "validationActions: [Warn]")))
    assert found["rules.max-gpus-per-job"].weakens
    first = next(line for line in text.splitlines() if "expression:" in line)
    edited = changes(book(), book(text.replace(first, first.split("expression:")[0] + 'expression: "true"', 1)))
    assert edited
    assert all(one.weakens and one.setting.startswith("policy max-gpus-per-job") for one in edited.values())


def test_parameters_of_a_policy_count_wherever_they_are_set() -> None:
    found = changes(book(), book(max_gpus_per_job=RuleSetting(parameters={"max": 9999})))
    ((setting, change),) = found.items()
    assert setting == "rules.max-gpus-per-job.parameters.max"
    assert (change.before, change.after, change.weakens) == ("512", "9999", True)


PER_NAMESPACE = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: sizes}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}]
  validations: [{expression: "object.spec.parallelism <= int(params.data.max)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: sizes}
spec: {policyName: sizes, validationActions: [Deny], paramRef: {name: sizes, parameterNotFoundAction: Deny}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: sizes, namespace: team-a}, data: {max: "%d"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: sizes, namespace: team-b}, data: {max: "%d"}}
"""


BINDING = """
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %s}
spec:
  policyName: sizes
  validationActions: [%s]
  paramRef: {name: sizes, parameterNotFoundAction: Deny}
"""


@pytest.mark.parametrize(
    ("action", "weakens"),
    [("Warn", [("sizes.bindings.a", True)]), ("Deny", []), ("Audit", [("sizes.bindings.a", True)])],
)
def test_the_action_of_one_of_several_bindings(action: str, weakens: list[tuple[str, bool]]) -> None:
    policy = (PER_NAMESPACE % (8, 8)) + BINDING % ("b", "Warn")
    found = changes(book(policy + BINDING % ("a", "Deny")), book(policy + BINDING % ("a", action)))
    assert [(name.removeprefix("rules."), one.weakens) for name, one in found.items()] == weakens


@pytest.mark.parametrize(("after", "namespace"), [((64, 8), "team-a"), ((8, 64), "team-b")])
def test_parameters_of_several_namespaces_are_compared_each(after: tuple[int, int], namespace: str) -> None:
    ((setting, change),) = changes(book(PER_NAMESPACE % (8, 8)), book(PER_NAMESPACE % after)).items()
    assert namespace in setting
    assert (change.before, change.after, change.weakens) == ("8", "64", True)


@pytest.mark.parametrize(
    ("before", "after", "shown", "weakens"),
    [
        ("", EXCEPTION % "2026-12-01", ("none", "until 2026-12-01"), True),
        (EXCEPTION % "2026-12-01", EXCEPTION % "2027-01-01", ("until 2026-12-01", "until 2027-01-01"), True),
        (EXCEPTION % "2026-12-01", EXCEPTION % "2026-11-01", ("until 2026-12-01", "until 2026-11-01"), False),
        (EXCEPTION % "2026-12-01", "", ("until 2026-12-01", "none"), False),
    ],
)
def test_exceptions(before: str, after: str, shown: tuple[str, str], weakens: bool) -> None:
    ((name, found),) = changes(book(before), book(after)).items()
    assert name == "exception max-gpus-per-job for Job/a/b"
    assert ((found.before, found.after), found.weakens, found.is_exception) == (shown, weakens, True)


@pytest.mark.parametrize("reverse", [False, True])
def test_of_several_exceptions_for_the_same_the_longest_counts(reverse: bool) -> None:
    texts = [EXCEPTION % "2026-12-01", EXCEPTION % "2027-01-01"]
    several = book("---\n".join(reversed(texts) if reverse else texts))
    ((_, found),) = changes(book(EXCEPTION % "2026-12-01"), several).items()
    assert ((found.before, found.after), found.weakens) == (("until 2026-12-01", "until 2027-01-01"), True)


def test_the_stricter_verdict_stays() -> None:
    key = ObjectKey(group="", kind="Pod", namespace="a", name="b")
    deny = Verdict(rule="r", result=Result.DENY, cluster="c", key=key, place=SourceRef(path="p"), message="m")
    warn = replace(deny, result=Result.WARN)
    assert [one.result for one in stricter_verdicts([deny], [warn])] == [Result.DENY]
    assert [one.result for one in stricter_verdicts([warn], [deny])] == [Result.DENY]
    (added,) = stricter_verdicts([], [deny])
    assert "applies as in the base" in added.hint
    assert stricter_verdicts([deny], [deny]) == [deny]
