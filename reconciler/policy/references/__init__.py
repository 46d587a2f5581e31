"""Cross-document rules: an object must agree with the objects it refers to, and with the evidence.

They work on summaries alone, so that a warm plan parses nothing again.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from reconciler.kinds.summary import ObjectSummary
from reconciler.policy.references.admission import check_admission, placed_here
from reconciler.policy.references.age import evaluate_age, evaluate_expiry, evidence_ages, utc_date
from reconciler.policy.references.capacity import check_overcommit, evaluate_shrinks
from reconciler.policy.references.counting import check_counted
from reconciler.policy.references.dispatch import check_dispatch
from reconciler.policy.references.existence import ReferenceTargets, check_existence, check_references
from reconciler.policy.references.identity import check_identity
from reconciler.policy.references.products import check_products, count_stock
from reconciler.policy.references.quotas import check_queues, check_quotas
from reconciler.policy.references.rules import ALWAYS, COLLECTIVE, RULES, Rule, RuleScope
from reconciler.policy.verdict import Verdict
from reconciler.queues.queues import QueueUsage, usage_by_cluster

__all__ = [
    "ALWAYS",
    "COLLECTIVE",
    "RULES",
    "Rule",
    "RuleScope",
    "evaluate_age",
    "evaluate_amounts",
    "evaluate_change",
    "evaluate_expiry",
    "evaluate_links",
    "evaluate_shrinks",
    "evidence_ages",
    "has_plain_path",
    "has_references",
    "utc_date",
]


def evaluate_links(scope: RuleScope, rows: Sequence[ObjectSummary]) -> tuple[Verdict, ...]:
    """Evaluate the rules about the identity of objects, their paths, and their references.

    rows: every rendered object of the cluster, also two with one path, which the identity rules report.
    """
    evaluation = scope.evaluation()
    check_identity(evaluation, rows)
    check_existence(evaluation, rows)
    return tuple(evaluation.verdicts)


def evaluate_amounts(
    scope: RuleScope, rows: Sequence[ObjectSummary], usage: QueueUsage | None = None
) -> tuple[Verdict, ...]:
    """Evaluate the rules about GPUs and queues. usage: that of the same objects, if it was added up already."""
    evaluation = scope.evaluation()
    if usage is None:
        usage = usage_by_cluster(rows).get(scope.cluster.name, QueueUsage())
    rows = [_as_started(usage.resolve(row)) for row in rows]
    check_queues(evaluation, usage)
    check_counted(evaluation, rows)
    check_quotas(evaluation, rows, usage)
    check_admission(evaluation, rows, usage, scope.inventory)
    check_products(evaluation, placed_here(check_dispatch(evaluation, rows, usage), usage), scope.inventory)
    check_overcommit(evaluation, rows, usage, scope.inventory)
    return tuple(evaluation.verdicts)


def _as_started(row: ObjectSummary) -> ObjectSummary:
    """Return a workload with the pods that it starts with: an elastic one runs where not all of them fit."""
    if not any(demand.spare for demand in row.demands):
        return row
    demands = (replace(demand, pods=demand.pods - demand.spare, spare=0) for demand in row.demands)
    return replace(row, demands=tuple(demands))


def evaluate_change(
    scope: RuleScope,
    before: Sequence[ObjectSummary],
    after: Sequence[ObjectSummary],
    usages: tuple[QueueUsage, QueueUsage],
) -> tuple[Verdict, ...] | None:
    """Evaluate the rules about GPUs for the workloads that changed: return the verdicts on each of them.

    None if a verdict on several workloads may have changed: then `evaluate_amounts` has to see all of them. Such a
    verdict depends on a sum, which `usages` has, on a number, and on the first or the largest. While the changed
    workloads by themselves have the same ones before and after, so do all workloads.
    """
    if any(row.on_nodes for row in (*before, *after)):
        return None  # what DaemonSets take is not there for queues
    verdicts: list[list[Verdict]] = []
    stock = count_stock(scope.inventory.nodes) if scope.inventory is not None else None
    for rows, usage in zip((before, after), usages, strict=True):
        evaluation = scope.evaluation()
        resolved = [_as_started(usage.resolve(row)) for row in rows]
        check_counted(evaluation, resolved)
        check_quotas(evaluation, resolved, usage)
        check_admission(evaluation, resolved, usage, scope.inventory)
        here = placed_here(check_dispatch(evaluation, resolved, usage), usage)
        check_products(evaluation, here, scope.inventory, stock)
        verdicts.append(evaluation.verdicts)
    old, new = ([verdict for verdict in side if verdict.rule in COLLECTIVE] for side in verdicts)
    return tuple(verdict for verdict in verdicts[1] if verdict.rule not in COLLECTIVE) if old == new else None


def has_plain_path(scope: RuleScope, row: ObjectSummary) -> bool:
    """Return whether the rules about paths accept that of an object, and no other path differs from it only in case."""
    evaluation = scope.evaluation()
    check_identity(evaluation, [row])
    return not evaluation.verdicts and row.path.islower()


def has_references(scope: RuleScope, row: ObjectSummary, targets: Iterable[ObjectSummary]) -> bool:
    """Return whether the rules find everything that an object refers to, among `targets` or outside the repository."""
    evaluation = scope.evaluation()
    check_references(evaluation, [row], ReferenceTargets(scope.kinds, targets))
    return not evaluation.verdicts
