"""The GPUs that the evidence lists: against the quotas of queues, and against the evidence before."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.kinds.kind import Kinds
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.values import MAX_COUNT
from reconciler.policy.references.products import used_on_each_node
from reconciler.policy.references.rules import Evaluation
from reconciler.policy.verdict import Verdict
from reconciler.queues.queues import QueueUsage, add_amounts, guaranteed_by_product
from reconciler.repo.config import Cluster, RuleSetting
from reconciler.sizing.devices import is_slice
from reconciler.sizing.inventory import Inventory

_NODES = ("spec", "nodes")


def check_overcommit(
    evaluation: Evaluation, rows: Iterable[ObjectSummary], usage: QueueUsage, inventory: Inventory | None
) -> None:
    """Check that the quotas of all queues fit the GPUs of the cluster; an unlimited queue is not compared.

    What DaemonSets take of the nodes no queue can give.
    """
    if inventory is None or inventory.document is None or not evaluation.is_enabled("capacity.overcommit"):
        return
    taken = used_on_each_node(evaluation.kinds, rows, inventory)
    free = {product: gpus - taken[product] for product, gpus in inventory.gpus_by_product.items()}
    for product, quota, capacity in _overcommitted(usage, free):
        gone = taken[product] if product else taken.total()
        left_out = f", not counting the {gone} that DaemonSets use" if gone else ""
        evaluation.report_object(
            "capacity.overcommit",
            inventory.document.key,
            inventory.document.at(_NODES),
            f"the quotas of all queues are {quota:g} {product or 'GPUs'}, but the cluster has {capacity}{left_out}",
            hint="lower the quotas of queues, or add nodes",
            field="spec.nodes",
        )


def _overcommitted(usage: QueueUsage, capacity: Mapping[str, int]) -> Iterator[tuple[str, float, int]]:
    """Compare quotas by product, and all together. What workloads select does not matter: the verdict is on queues.

    A quota of `MAX_COUNT` or more stands for none: Kueue has no other value for it.
    """
    guaranteed = {
        name: None if gpus is None or gpus >= MAX_COUNT else gpus
        for name, gpus in guaranteed_by_product(usage, {}).items()
        if not is_slice(name)
    }
    over = [
        (product, gpus, capacity.get(product, 0))
        for product, gpus in sorted(guaranteed.items())
        if product and gpus is not None and gpus > capacity.get(product, 0)
    ]
    yield from over
    total: float | None = 0.0
    for gpus in guaranteed.values():
        total = add_amounts(total, gpus)
    if not over and total is not None and total > sum(capacity.values()):
        yield "", total, sum(capacity.values())


def evaluate_shrinks(
    kinds: Kinds,
    clusters: Sequence[Cluster],
    before: Mapping[str, Inventory],
    after: Mapping[str, Inventory],
    settings: Mapping[str, RuleSetting],
) -> tuple[Verdict, ...]:
    """Evaluate the rule `evidence.shrinks`: an inventory lists fewer GPUs of a product than the one before."""
    verdicts: list[Verdict] = []
    for cluster in clusters:
        old, new = before.get(cluster.name), after.get(cluster.name)
        document = (new or old or Inventory(cluster="", taken_at="")).document
        if old is None or old is new or document is None:
            continue
        evaluation = Evaluation(kinds=kinds, cluster=cluster, settings=settings)
        counts = new.gpus_by_product if new else {}
        for product, gpus in sorted(old.gpus_by_product.items()):
            if counts.get(product, 0) < gpus:
                message = f"lists {counts.get(product, 0)} instead of {gpus} {product or 'GPUs'}"
                hint = "make sure that the nodes are gone or cordoned, and that the measurement saw all of them"
                evaluation.report_object(
                    "evidence.shrinks", document.key, document.at(_NODES), message, hint=hint, field="spec.nodes"
                )
        verdicts += evaluation.verdicts
    return tuple(verdicts)
