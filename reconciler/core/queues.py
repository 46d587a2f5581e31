"""`Ledger`: the queues of one cluster as a forest, and what its workloads ask of each.

KAI queues and Kueue cohorts are trees; a LocalQueue is only a name for its ClusterQueue. Rules and the summary of a
plan both count by this ledger, so that they never disagree.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.summary.object_summary import Demand, ObjectSummary, Quota
from reconciler.core.summary.queues import KAI_GROUP, KUEUE_GROUP

QueueKey = tuple[str, str]
"""Kind (Queue, ClusterQueue, Cohort, or LocalQueue where nothing tells its ClusterQueue) and name."""

NO_QUEUE: QueueKey = ("", "")

_QUEUE_KINDS = {(KAI_GROUP, "Queue"), (KUEUE_GROUP, "ClusterQueue"), (KUEUE_GROUP, "Cohort")}


def is_slice(product: str) -> bool:
    """Tell whether a product is a slice of GPUs (a resource key) and no whole GPU."""
    return "/" in product


class Ledger(Struct, kw_only=True):
    """Queues, flavors and demands of one cluster."""

    queues: dict[QueueKey, ObjectSummary] = field(default_factory=dict)
    local: dict[tuple[str, str], str] = field(default_factory=dict)  # namespace, LocalQueue -> ClusterQueue
    flavors: dict[str, str] = field(default_factory=dict)  # ResourceFlavor -> product; empty: any
    asked: dict[tuple[QueueKey, str], int] = field(default_factory=dict)  # queue, product -> GPUs of running workloads

    def queue_of(self, row: ObjectSummary) -> QueueKey:
        """Return the queue that a workload's GPUs are counted in."""
        if row.queue_kind != "LocalQueue":
            return ("Queue", row.queue) if row.queue else NO_QUEUE
        owner = self.local.get((row.namespace, row.queue))
        return ("ClusterQueue", owner) if owner else ("LocalQueue", f"{row.namespace}/{row.queue}")

    def product_of(self, queue: QueueKey, demand: Demand) -> str:
        """Return the product of a demand: what its pods select, or the only one that their ClusterQueue has."""
        if demand.product or queue[0] != "ClusterQueue":
            return demand.product
        products = {quota.product for quota in self.quotas(queue) if not is_slice(quota.product)}
        return products.pop() if len(products) == 1 else ""

    def parent_of(self, queue: QueueKey) -> QueueKey | None:
        """Return the queue above, whether or not this repository has it."""
        row = self.queues.get(queue)
        if row is None or not row.parent:
            return None
        return ("Queue" if queue[0] == "Queue" else "Cohort", row.parent)

    def above(self, queue: QueueKey) -> Iterator[QueueKey]:
        """Yield the queues above, nearest first; a cycle ends where it began."""
        seen = {queue}
        here = self.parent_of(queue)
        while here is not None and here not in seen:
            yield here
            seen.add(here)
            here = self.parent_of(here)

    def quotas(self, queue: QueueKey) -> tuple[Quota, ...]:
        """Return a queue's quotas by product: Kueue's by flavor are added up by what the flavors' nodes have."""
        row = self.queues.get(queue)
        if row is None:
            return ()
        if queue[0] == "Queue":
            return row.quotas
        by_product: dict[str, Quota] = {}
        for quota in row.quotas:
            product = quota.product if is_slice(quota.product) else self.flavors.get(quota.product, quota.product)
            so_far = by_product.get(product)
            by_product[product] = Quota(
                product,
                added(so_far.guaranteed, quota.guaranteed) if so_far else quota.guaranteed,
                added(so_far.limit, quota.limit) if so_far else quota.limit,
            )
        return tuple(by_product.values())

    def requested(self) -> dict[QueueKey, dict[str, int]]:
        """Return GPUs asked of every queue by product, with those of the queues below it."""
        totals: dict[QueueKey, dict[str, int]] = {}
        for (queue, product), gpus in self.asked.items():
            for place in (queue, *self.above(queue)):
                products = totals.setdefault(place, {})
                products[product] = products.get(product, 0) + gpus
        return totals

    def children(self) -> dict[QueueKey, list[QueueKey]]:
        """Return the queues right below every queue that has some."""
        below: dict[QueueKey, list[QueueKey]] = {}
        for queue in self.queues:
            parent = self.parent_of(queue)
            if parent is not None:
                below.setdefault(parent, []).append(queue)
        return below


def added(one: float | None, other: float | None) -> float | None:
    """Add two amounts of which None is unlimited."""
    return None if one is None or other is None else one + other


def ledgers(rows: Iterable[ObjectSummary], *, on: "Mapping[str, Ledger] | None" = None) -> dict[str, Ledger]:
    """Make the ledger of every cluster that has a queue or a workload with GPUs.

    `on` holds ledgers of other rows, which these are added to. Then no row may be one that `shapes_queues`: what was
    counted before could have been counted elsewhere.
    """
    found: dict[str, Ledger] = {cluster: _copy(ledger) for cluster, ledger in (on or {}).items()}
    asking: list[ObjectSummary] = []
    for row in rows:
        if row.gpus:
            if not row.suspended:
                asking.append(row)
        elif row.group in _GROUPS:
            _enter(found, row)
    for row in asking:
        _count(found, row)
    return found


_GROUPS = frozenset((KAI_GROUP, KUEUE_GROUP))


def shapes_queues(row: ObjectSummary) -> bool:
    """Whether a row is a queue, a flavor or the like, which decide where the GPUs of workloads are counted."""
    return row.group in _GROUPS and not row.gpus


def without(whole: Mapping[str, Ledger], rows: Iterable[ObjectSummary]) -> dict[str, Ledger]:
    """Take rows out of the ledgers that they were counted in; none may be one that `shapes_queues`."""
    left = {cluster: _copy(ledger) for cluster, ledger in whole.items()}
    for cluster, ledger in ledgers(rows, on={name: replace(one, asked={}) for name, one in whole.items()}).items():
        asked = left[cluster].asked
        for entry, gpus in ledger.asked.items():
            asked[entry] -= gpus
            if not asked[entry]:
                del asked[entry]
    return left


def _copy(ledger: Ledger) -> Ledger:
    return Ledger(queues={**ledger.queues}, local={**ledger.local}, flavors={**ledger.flavors}, asked={**ledger.asked})


def _enter(found: dict[str, Ledger], row: ObjectSummary) -> None:
    ledger = found.get(row.cluster)
    if ledger is None:
        ledger = found[row.cluster] = Ledger()
    if (row.group, row.kind) in _QUEUE_KINDS:
        ledger.queues[(row.kind, row.name)] = row
    elif row.kind == "LocalQueue":
        ledger.local[(row.namespace, row.name)] = row.parent
    elif row.kind == "ResourceFlavor":
        ledger.flavors[row.name] = row.product


def _count(found: dict[str, Ledger], row: ObjectSummary) -> None:
    ledger = found.get(row.cluster)
    if ledger is None:
        ledger = found[row.cluster] = Ledger()
    queue = ledger.queue_of(row)
    asked = ledger.asked
    for demand in row.demands:
        entry = (queue, demand.product or ledger.product_of(queue, demand))
        asked[entry] = asked.get(entry, 0) + demand.gpus_per_pod * demand.pods


def matching(products: Mapping[str, int], product: str, named: Iterable[str]) -> int:
    """GPUs asked of a quota: of its product; of a quota for any, all whole GPUs that no other quota names."""
    if product:
        return products.get(product, 0)
    others = set(named) - {""}
    return sum(gpus for name, gpus in products.items() if name not in others and not is_slice(name))
