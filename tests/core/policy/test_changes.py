"""What a change does to the rules, and the stricter of two verdicts."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.adapters import bundle
from reconciler.core.config import RuleSetting
from reconciler.core.config.changes import SettingChange
from reconciler.core.documents import read
from reconciler.core.objects import ObjectKey, SourceRef
from reconciler.core.policy.changes import rule_changes, stricter_verdicts
from reconciler.core.policy.rule_book import RuleBook, load_rules
from reconciler.core.policy.verdict import Result, Verdict

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
    shipped = read(SHIPPED, bundle.read(SHIPPED)).documents
    return load_rules(read("policies/own.yaml", own.encode()).documents, named, shipped=shipped)


def changes(base: RuleBook, head: RuleBook) -> dict[str, SettingChange]:
    return {one.setting: one for one in rule_changes(base, head)}


def test_equal_rules_have_no_changes() -> None:
    assert changes(book(), book()) == {}
    text = bundle.read(SHIPPED).decode()
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
    text = bundle.read(SHIPPED).decode()
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


def test_the_stricter_verdict_stays() -> None:
    key = ObjectKey(group="", kind="Pod", namespace="a", name="b")
    deny = Verdict(rule="r", result=Result.DENY, cluster="c", key=key, place=SourceRef(path="p"), message="m")
    warn = replace(deny, result=Result.WARN)
    assert [one.result for one in stricter_verdicts([deny], [warn])] == [Result.DENY]
    assert [one.result for one in stricter_verdicts([warn], [deny])] == [Result.DENY]
    (added,) = stricter_verdicts([], [deny])
    assert "applies as in the base" in added.hint
    assert stricter_verdicts([deny], [deny]) == [deny]
