"""Rules about drift: which one decides about a field, and when it no longer does."""

import pytest
from hypothesis import strategies as st

from reconciler.kube.objects import ObjectKey
from reconciler.repo.config.drift import DriftAction, DriftPolicy, DriftRule, drift_violations

KEY = ObjectKey(group="apps", kind="Deployment", namespace="a", name="web")
RULE = DriftRule(
    action=DriftAction.IGNORE,
    kind="Deployment",
    fields=("spec.replicas", "spec.template.spec.containers"),
    manager="hpa",
    reason="it scales",
    expires="2026-12-31",
)


@pytest.mark.parametrize(
    ("field", "manager", "day", "action"),
    [
        ("spec.replicas", "hpa", "2026-12-31", DriftAction.IGNORE),
        ("spec.template.spec.containers[name=web].image", "hpa", "", DriftAction.IGNORE),
        ("spec.replicas", "hpa", "2027-01-01", DriftAction.REVERT),
        ("spec.replicas", "kubectl-edit", "2026-12-31", DriftAction.REVERT),
        ("spec.replicasMax", "hpa", "2026-12-31", DriftAction.REVERT),
        ("spec", "hpa", "2026-12-31", DriftAction.REVERT),
    ],
)
def test_a_rule_covers_its_fields_until_its_last_day(field: str, manager: str, day: str, action: DriftAction) -> None:
    """F-143: a field covers what is below it, and nothing whose name only begins alike."""
    policy = DriftPolicy(rules=(RULE,))
    assert policy.rule_for(KEY, field, (manager,), day).action is action


def test_the_first_rule_decides() -> None:
    """F-143."""
    adopt = DriftRule(action=DriftAction.ADOPT, kind="Deployment")
    policy = DriftPolicy(action=DriftAction.IGNORE, rules=(RULE, adopt))
    assert policy.rule_for(KEY, "spec.replicas", ("hpa",), "2026-01-01") is RULE
    assert policy.rule_for(KEY, "spec.paused", ("hpa",), "2026-01-01") is adopt
    other = ObjectKey(group="", kind="ConfigMap", namespace="a", name="web")
    assert policy.rule_for(other, "data.a", (), "2026-01-01").action is DriftAction.IGNORE


def test_only_a_policy_that_may_leave_something_is_asked_for_fields() -> None:
    assert not DriftPolicy().may_leave(KEY, "2026-01-01")
    assert DriftPolicy(rules=(RULE,)).may_leave(KEY, "2026-01-01")
    assert not DriftPolicy(rules=(RULE,)).may_leave(KEY, "2027-01-01")


def test_a_rule_that_ignores_says_why_and_until_when() -> None:
    rules = [{"action": "ignore"}, {"action": "ignore", "reason": "x", "expires": "soon"}, {"action": "revert"}]
    found = [(one.path, one.message) for one in drift_violations({"drift": {"rules": rules}})]
    assert found == [
        (("spec", "drift", "rules", 0), "a rule that ignores drift needs reason and expires"),
        (("spec", "drift", "rules", 1, "expires"), "'soon' is not a date"),
    ]


_trees = st.recursive(
    st.integers(),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=3),
)
