"""Storage in a plan: which claims count, and what they cost."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.summary.summarize import summarize
from reconciler.kube.objects import ObjectKey
from reconciler.plan import Change, ClaimChange, Operation
from reconciler.plan.edits import Edit
from reconciler.plan.outputs.sections.model import TableBlock, View
from reconciler.plan.outputs.sections.storage import storage
from reconciler.plan.outputs.summary.storage import gib, money, sizes
from reconciler.plan.storage import claim_changes
from reconciler.sizing.prices import Prices
from tests.plan.outputs import plans

KEY = ObjectKey(group="", kind="PersistentVolumeClaim", namespace="ml", name="data")
PRICES = Prices(currency="EUR", storage_months=(("fast", 0.2), ("slow", 0.05)))


def claim(size: object, storage_class: str = "fast") -> ObjectSummary:
    spec: dict[str, Any] = {"storageClassName": storage_class, "resources": {"requests": {"storage": size}}}
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    body = {"apiVersion": "v1", "kind": KEY.kind, "metadata": metadata, "spec": spec}
    return summarize(BUILT_IN, cluster="main", body=body, path="p", digest="d")


def edit(before: ObjectSummary | None, after: ObjectSummary | None, operation: Operation = Operation.UPDATE) -> Edit:
    change = Change(operation=operation, cluster="main", key=KEY, path="p", source=None)
    return Edit(change=change, comparison=None, row_before=before, row_after=after)


@pytest.mark.parametrize(
    ("size", "volume"),
    [
        ("100Gi", ("fast", 100 << 30)),
        ("1500M", ("fast", 1_500_000_000)),
        (5, ("fast", 5)),
        ("1m", ("fast", 1)),
        ("-1Gi", ("fast", 0)),
        (None, None),
        ("much", None),
        (["1Gi"], None),
        (True, None),
    ],
)
def test_what_a_claim_requests(size: object, volume: tuple[str, int] | None) -> None:
    assert claim(size).volume == volume


def test_claims_of_a_plan() -> None:
    """F-008: added, removed and resized ones; a class without a price is unknown, not free."""
    found = claim_changes(
        [
            edit(None, claim("10Gi")),
            edit(claim("10Gi", "slow"), None, Operation.DELETE),
            edit(claim("10Gi"), claim("10240Mi")),
            edit(claim("20Gi"), claim("10Gi"), Operation.REPLACE),  # refused
            edit(claim("10Gi", "other"), claim("20Gi", "other")),
            edit(None, claim("10Gi", "")),
        ],
        {"main": PRICES},
    )
    money = [(one.storage_class, one.per_month_before, one.per_month_after) for one in found]
    assert money == [("fast", 0.0, 2.0), ("slow", 0.5, 0.0), ("other", None, None), ("", 0.0, None)]
    assert Prices(storage_months=(("only", 0.1),)).month("") == 0.1


def test_sizes_in_words() -> None:
    assert [gib(size) for size in (0, 1 << 29, 1600 << 30, 1_500_000_000)] == ["0", "0.5", "1,600", "1.4"]
    assert [gib(size, sign=True) for size in (0, 1 << 30, -(1 << 40))] == ["0", "+1", "-1,024"]
    assert (sizes(1 << 30, 1 << 30), sizes(0, 1 << 30)) == ("1", "0 → 1")


def change(name: str, *, after: int = 10 << 30, price: float | None = 1.0, currency: str = "EUR") -> ClaimChange:
    key = ObjectKey(group="", kind=KEY.kind, namespace="ml", name=name)
    return ClaimChange(
        cluster="main",
        key=key,
        storage_class="fast",
        before=0,
        after=after,
        currency=currency,
        per_month_before=0.0,
        per_month_after=price,
    )


def test_money_of_one_unknown_claim_is_unknown() -> None:
    assert money([change("a"), change("b")]) == "0.00 → 2.00 EUR"
    assert money([change("a"), change("b", price=None)]) == ""


def test_many_equal_claims_are_one_row() -> None:
    claims = (*(change(f"c{number}", currency="") for number in range(4)), change("large", after=1 << 40, currency=""))
    plan = replace(plans.everything(), claims=claims)
    section = storage(View(plan=plan))
    assert section is not None
    (table,) = section.blocks
    assert isinstance(table, TableBlock)
    shown = [[getattr(cell, "text", cell) for cell in row[:5]] for row in table.rows]
    assert shown == [
        ["ml/large", "main", "fast", "0 → 1,024", "+1,024"],
        ["ml/c0 and 3 more", "main", "fast", "0 → 40", "+40"],
    ]
    assert "per month" not in [column.title for column in table.columns]
    full = storage(View(plan=plan, full=True))
    assert full is not None
    assert isinstance(full.blocks[0], TableBlock)
    assert len(full.blocks[0].rows) == 5
