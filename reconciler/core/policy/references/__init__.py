"""Cross-document rules: what one object says must fit what the others are, and what the evidence counted.

They work on rows alone, so that a warm plan pays for what refers, asks for GPUs or grants them, and not for the rest.
"""

from collections.abc import Mapping, Sequence

from reconciler.core.config import Cluster, RuleSetting
from reconciler.core.inventory import Inventory
from reconciler.core.policy.references.existence import judge_existence
from reconciler.core.policy.references.identity import judge_identity
from reconciler.core.policy.references.products import judge_products
from reconciler.core.policy.references.quotas import judge_quotas
from reconciler.core.policy.references.rules import ALWAYS, RULES, Bench, Rule
from reconciler.core.policy.verdict import Verdict
from reconciler.core.queues import Ledger, ledgers
from reconciler.core.summary import ObjectSummary

__all__ = ["ALWAYS", "RULES", "Rule", "judge", "judge_amounts", "judge_links"]


def judge(
    rows: Sequence[ObjectSummary],
    cluster: Cluster,
    inventory: Inventory | None,
    settings: Mapping[str, RuleSetting],
    ledger: Ledger | None = None,
) -> tuple[Verdict, ...]:
    """Judge all rows of one cluster by every rule of `RULES` that `settings` leave on, in the order of their places.

    `rows` holds every rendered object, also two with one path: that is what the identity rules look for.
    Without an inventory nothing is known of the cluster's GPUs, and the rules that need it say so. `ledger` is that of
    the same rows, where the caller has it.
    """
    found = (*judge_links(rows, cluster, settings), *judge_amounts(rows, cluster, inventory, settings, ledger))
    return tuple(sorted(found, key=lambda verdict: verdict.sort_key))


def judge_links(
    rows: Sequence[ObjectSummary], cluster: Cluster, settings: Mapping[str, RuleSetting]
) -> tuple[Verdict, ...]:
    """Judge by those rules that look at who the objects are, where they stand and what they refer to."""
    bench = Bench(cluster=cluster, settings=settings)
    judge_identity(bench, rows)
    judge_existence(bench, rows)
    return tuple(bench.verdicts)


def judge_amounts(
    rows: Sequence[ObjectSummary],
    cluster: Cluster,
    inventory: Inventory | None,
    settings: Mapping[str, RuleSetting],
    ledger: Ledger | None = None,
) -> tuple[Verdict, ...]:
    """Judge by those rules that look at GPUs and queues."""
    bench = Bench(cluster=cluster, settings=settings)
    judge_quotas(bench, rows, ledgers(rows).get(cluster.name) or Ledger() if ledger is None else ledger)
    judge_products(bench, rows, inventory)
    return tuple(bench.verdicts)
