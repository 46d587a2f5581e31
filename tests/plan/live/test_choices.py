"""Which objects become ours, by name and by pattern; and who changed a field, in words."""

import pytest

from reconciler.kube.objects import ObjectKey
from reconciler.plan import Drift
from reconciler.plan.live.choices import LiveChoices

KEY = ObjectKey(group="apps", kind="Deployment", namespace="team-a", name="web")


@pytest.mark.parametrize(
    ("word", "equal", "changed"),
    [
        ("Deployment/team-a/web", True, True),
        ("all", True, False),
        ("Deployment/team-a/*", True, False),
        ("Deployment/*", True, False),
        ("*/web", True, False),
        ("Deployment/team-b/*", False, False),
        ("deployment/team-a/*", False, False),
        ("Deployment/team-a/we", False, False),
    ],
)
def test_a_pattern_adopts_what_does_not_change_and_a_name_adopts_all_the_same(
    word: str, equal: bool, changed: bool
) -> None:
    choices = LiveChoices(adopt=frozenset({word}))
    assert (choices.adopts(KEY, is_equal=True), choices.adopts(KEY, is_equal=False)) == (equal, changed)


@pytest.mark.parametrize(
    ("managers", "has_live", "words"),
    [
        (("kubectl-edit (Update)", "helm (Update)"), True, "kubectl-edit (Update), helm (Update)"),
        ((), False, "somebody who removed it"),
        ((), True, "somebody unknown"),
    ],
)
def test_only_what_is_missing_was_removed_by_somebody(managers: tuple[str, ...], has_live: bool, words: str) -> None:
    drift = Drift(cluster="main", key=KEY, path="a", field="spec.replicas", managers=managers, has_live=has_live)
    assert drift.who == words
