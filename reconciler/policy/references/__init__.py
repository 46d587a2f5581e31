"""Cross-document rules: an object must agree with the objects it refers to, and with the evidence.

They work on summaries alone, so that a warm plan parses nothing again.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from reconciler.kinds.kind import Kinds
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
from reconciler.policy.references.rules import ALWAYS, COLLECTIVE, RULES, Evaluation, Rule
from reconciler.policy.verdict import Verdict
from reconciler.queues.flavors import NEWEST, Version
from reconciler.queues.queues import QueueUsage, usage_by_cluster
from reconciler.repo.config import Cluster, RuleSetting
from reconciler.sizing.inventory import Inventory

__all__ = [
    "ALWAYS",
    "COLLECTIVE",
    "RULES",
    "Rule",
    "evaluate",
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


def evaluate(  # noqa: PLR0917 - the parts of a cluster
    kinds: Kinds,
    rows: Sequence[ObjectSummary],
    cluster: Cluster,
    inventory: Inventory | None,
    settings: Mapping[str, RuleSetting],
    usage: QueueUsage | None = None,
    kueue: Version = NEWEST,
) -> tuple[Verdict, ...]:
    """Evaluate every rule of `RULES` that `settings` enable over all objects of one cluster, in the order of places.

    `rows` holds every rendered object, also two with one path, which the identity rules report. Without an inventory
    the GPUs of the cluster are unknown, and the rules that need it say so. `usage` is that of the same objects, `kueue`
    the version that the cluster runs.
    """
    verdicts = (
        *evaluate_links(kinds, rows, cluster, settings),
        *evaluate_amounts(kinds, rows, cluster, inventory, settings, usage, kueue),
    )
    return tuple(sorted(verdicts, key=lambda verdict: verdict.sort_key))


def evaluate_links(
    kinds: Kinds, rows: Sequence[ObjectSummary], cluster: Cluster, settings: Mapping[str, RuleSetting]
) -> tuple[Verdict, ...]:
    """Evaluate the rules about the identity of objects, their paths, and their references."""
    evaluation = Evaluation(kinds=kinds, cluster=cluster, settings=settings)
    check_identity(evaluation, rows)
    check_existence(evaluation, rows)
    return tuple(evaluation.verdicts)


def evaluate_amounts(  # noqa: PLR0917 - the parts of a cluster
    kinds: Kinds,
    rows: Sequence[ObjectSummary],
    cluster: Cluster,
    inventory: Inventory | None,
    settings: Mapping[str, RuleSetting],
    usage: QueueUsage | None = None,
    kueue: Version = NEWEST,
) -> tuple[Verdict, ...]:
    """Evaluate the rules about GPUs and queues."""
    evaluation = Evaluation(kinds=kinds, cluster=cluster, settings=settings, kueue=kueue)
    if usage is None:
        usage = usage_by_cluster(rows).get(cluster.name, QueueUsage())
    rows = [_as_started(usage.resolve(row)) for row in rows]
    check_queues(evaluation, usage)
    check_counted(evaluation, rows)
    check_quotas(evaluation, rows, usage)
    check_admission(evaluation, rows, usage, inventory)
    check_products(evaluation, placed_here(check_dispatch(evaluation, rows, usage), usage), inventory)
    check_overcommit(evaluation, rows, usage, inventory)
    return tuple(evaluation.verdicts)


def _as_started(row: ObjectSummary) -> ObjectSummary:
    """Return a workload with the pods that it starts with: an elastic one runs where not all of them fit."""
    if not any(demand.spare for demand in row.demands):
        return row
    demands = (replace(demand, pods=demand.pods - demand.spare, spare=0) for demand in row.demands)
    return replace(row, demands=tuple(demands))


def evaluate_change(  # noqa: PLR0917 - the parts of a cluster
    kinds: Kinds,
    before: Sequence[ObjectSummary],
    after: Sequence[ObjectSummary],
    cluster: Cluster,
    inventory: Inventory | None,
    settings: Mapping[str, RuleSetting],
    usages: tuple[QueueUsage, QueueUsage],
    kueue: Version = NEWEST,
) -> tuple[Verdict, ...] | None:
    """Evaluate the rules about GPUs for the workloads that changed: return the verdicts on each of them.

    None if a verdict on several workloads may have changed: then `evaluate_amounts` has to see all of them. Such a
    verdict depends on a sum, which `usages` has, on a number, and on the first or the largest. While the changed
    workloads by themselves have the same ones before and after, so do all workloads.
    """
    if any(row.on_nodes for row in (*before, *after)):
        return None  # what DaemonSets take is not there for queues
    verdicts: list[list[Verdict]] = []
    stock = count_stock(inventory.nodes) if inventory is not None else None
    for rows, usage in zip((before, after), usages, strict=True):
        evaluation = Evaluation(kinds=kinds, cluster=cluster, settings=settings, kueue=kueue)
        resolved = [_as_started(usage.resolve(row)) for row in rows]
        check_counted(evaluation, resolved)
        check_quotas(evaluation, resolved, usage)
        check_admission(evaluation, resolved, usage, inventory)
        here = placed_here(check_dispatch(evaluation, resolved, usage), usage)
        check_products(evaluation, here, inventory, stock)
        verdicts.append(evaluation.verdicts)
    old, new = ([verdict for verdict in side if verdict.rule in COLLECTIVE] for side in verdicts)
    return tuple(verdict for verdict in verdicts[1] if verdict.rule not in COLLECTIVE) if old == new else None


def has_plain_path(kinds: Kinds, row: ObjectSummary, cluster: Cluster, settings: Mapping[str, RuleSetting]) -> bool:
    """Return whether the rules about paths accept that of an object, and no other path differs from it only in case."""
    evaluation = Evaluation(kinds=kinds, cluster=cluster, settings=settings)
    check_identity(evaluation, [row])
    return not evaluation.verdicts and row.path.islower()


def has_references(
    kinds: Kinds,
    row: ObjectSummary,
    targets: Iterable[ObjectSummary],
    cluster: Cluster,
    settings: Mapping[str, RuleSetting],
) -> bool:
    """Return whether the rules find everything that an object refers to, among `targets` or outside the repository."""
    evaluation = Evaluation(kinds=kinds, cluster=cluster, settings=settings)
    check_references(evaluation, [row], ReferenceTargets(kinds, targets))
    return not evaluation.verdicts
