"""Evidence has a date, which is compared with that of the head commit, never with a clock."""

from datetime import date

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.yaml import read
from reconciler.policy.references import evaluate_age, utc_date
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import Cluster, RuleSetting
from reconciler.sizing.inventory import Inventory, parse_inventory

TODAY = date(2026, 11, 15)


def inventory(taken_at: str) -> Inventory:
    text = (
        "apiVersion: gpureconciler.io/v1alpha1\nkind: NodeInventory\nmetadata: {name: main}\n"
        f'spec:\n  takenAt: "{taken_at}"\n  nodes: []\n'
    )
    (document,) = read("evidence/main/nodes.yaml", text.encode()).documents
    (value, problems) = parse_inventory(document, "main")
    assert value is not None
    assert problems == ()
    return value


def evaluate(
    taken_at: str, *, limit: int | None = None, action: str = "", committed: bool = True
) -> tuple[Verdict, ...]:
    settings = {"evidence.age": RuleSetting(action=action)} if action else {}
    clusters, inventories = (Cluster(name="main"),), {"main": inventory(taken_at)}
    return evaluate_age(BUILT_IN, clusters, inventories, settings, TODAY, limit, is_committed=committed)


@pytest.mark.parametrize(
    ("taken_at", "limit", "message"),
    [
        ("1970-01-01T00:00:00Z", None, "is dated 1970-01-01, so the clock of the machine was wrong"),
        ("2026-11-17T00:00:00Z", None, "is dated 2026-11-17, after the date of the plan"),
        ("2026-10-31T23:00:00Z", 14, "is dated 2026-10-31; spec.evidence.maxAge allows an age of 14 days"),
    ],
)
def test_wrong_and_old_dates_are_reported(taken_at: str, limit: int | None, message: str) -> None:
    (verdict,) = evaluate(taken_at, limit=limit)
    assert (verdict.rule, verdict.result, verdict.message) == ("evidence.age", Result.WARN, message)
    assert (str(verdict.place), verdict.field) == ("evidence/main/nodes.yaml:5:12", "spec.takenAt")
    assert evaluate(taken_at, limit=limit, action="deny")[0].result is Result.DENY


@pytest.mark.parametrize(
    ("taken_at", "limit"),
    [
        ("2020-01-01T00:00:00Z", None),
        ("2026-11-01T00:00:00Z", 14),
        ("2026-11-16T01:00:00+02:00", None),  # 2026-11-15 in UTC
        ("2026-11-15T23:59:60Z", 1),
    ],
)
def test_recent_evidence_has_no_verdict(taken_at: str, limit: int | None) -> None:
    assert evaluate(taken_at, limit=limit) == ()


def test_evidence_of_the_working_tree_may_be_newer_than_the_last_commit() -> None:
    assert evaluate("2026-11-17T00:00:00Z", committed=False) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("2026-11-02", date(2026, 11, 2)),
        ("2026-11-02t23:30:00.5-05:00", date(2026, 11, 3)),
        ("0001-01-01T00:00:00+10:00", date.min),
    ],
)
def test_dates_are_in_utc(text: str, expected: date | None) -> None:
    assert utc_date(text) == expected
