"""What the change means in GPUs: by queue and product, against quotas, and against what the evidence counted."""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.core.inventory import Inventory
from reconciler.core.plan.plan import CapacityLine, GpuLine, QueueLine
from reconciler.core.queues import Ledger, QueueKey, added, is_slice, matching
from reconciler.core.summary.object_summary import Quota

Ledgers = Mapping[str, Ledger]

_EMPTY = Ledger()


def gpu_lines(before: Ledgers, after: Ledgers) -> tuple[GpuLine, ...]:
    """Return GPUs asked for by workloads that run, before and after, in every queue and product that has some."""
    lines = []
    for cluster in sorted({*before, *after}):
        left, right = before.get(cluster, _EMPTY).asked, after.get(cluster, _EMPTY).asked
        totals: dict[tuple[str, str], list[int]] = {}
        for side, asked in enumerate((left, right)):
            for ((_, queue), product), gpus in asked.items():
                totals.setdefault((queue, product), [0, 0])[side] += gpus
        for (queue, product), (was, now) in sorted(totals.items()):
            lines.append(GpuLine(cluster=cluster, queue=queue, product=product, before=was, after=now))
    return tuple(lines)


def queue_lines(before: Ledgers, after: Ledgers) -> tuple[QueueLine, ...]:
    """Return every quota before and after, with what the workloads of the queue and those below it ask."""
    lines: list[QueueLine] = []
    for cluster in sorted({*before, *after}):
        left, right = before.get(cluster, _EMPTY), after.get(cluster, _EMPTY)
        requested = right.requested()
        for queue in sorted({*left.queues, *right.queues}, key=lambda key: (key[1], key[0])):
            lines += _queue(cluster, queue, left, right, requested.get(queue, {}))
    return tuple(lines)


def _queue(
    cluster: str, queue: QueueKey, left: Ledger, right: Ledger, requested: Mapping[str, int]
) -> Iterator[QueueLine]:
    was = {quota.product: quota for quota in left.quotas(queue)}
    now = {quota.product: quota for quota in right.quotas(queue)}
    existed, exists = queue in left.queues, queue in right.queues
    missing = Quota("", 0.0, 0.0)
    products = {*was, *now}
    unnamed = {product for product in requested if product not in products and not is_slice(product)}
    if unnamed and products and "" not in products:
        # Some workloads do not say which of the queue's products they want: only the queue as a whole can be compared.
        was[""], now[""] = _whole(was.values()), _whole(now.values())
        products.add("")
        requested = {**requested, "": sum(gpus for name, gpus in requested.items() if not is_slice(name))}
        named: set[str] = set(requested) - {""}
    else:
        named = products
    for product in sorted(products):
        yield QueueLine(
            cluster=cluster,
            queue=queue[1],
            product=product,
            before=was.get(product, missing).guaranteed if existed else 0.0,
            after=now.get(product, missing).guaranteed if exists else 0.0,
            limit=now.get(product, missing).limit if exists else 0.0,
            requested=matching(requested, product, named),
            exists_before=existed,
            exists_after=exists,
        )


def _whole(quotas: Iterable[Quota]) -> Quota:
    total = Quota("", 0.0, 0.0)
    for quota in quotas:
        if not is_slice(quota.product):
            total = Quota("", added(total.guaranteed, quota.guaranteed), added(total.limit, quota.limit))
    return total


def capacity_lines(after: Ledgers, inventories: Mapping[str, Inventory]) -> tuple[CapacityLine, ...]:
    """Return what the evidence counted against what queues guarantee and workloads ask; nothing where none was counted.

    Queues below a parent share what the parent has, so only roots count. Kueue adds a cohort's own quota to those of
    its members, so there every quota counts. A quota for any product is compared with the cluster as a whole.
    """
    lines: list[CapacityLine] = []
    for cluster in sorted(inventories):
        lines += _capacity(cluster, after.get(cluster, _EMPTY), counted(inventories[cluster]))
    return tuple(lines)


def counted(inventory: Inventory) -> dict[str, int]:
    """GPUs by product on the nodes that take new pods."""
    capacity: dict[str, int] = {}
    for node in inventory.nodes:
        if node.gpus:
            capacity[node.product] = capacity.get(node.product, 0) + (0 if node.unschedulable else node.gpus)
    return capacity


def _capacity(cluster: str, ledger: Ledger, capacity: Mapping[str, int]) -> Iterator[CapacityLine]:
    guaranteed = guaranteed_at_roots(ledger)
    requested: dict[str, int] = {}
    for (_, product), gpus in ledger.asked.items():
        requested[product] = requested.get(product, 0) + gpus
    whole = {product for product in (*capacity, *guaranteed, *requested) if product and not is_slice(product)}
    open_to_any = "" in guaranteed or "" in requested
    if open_to_any and len(whole) == 1:
        # With one product in the cluster, any is that one.
        (only,) = whole
        guaranteed = {only: added(guaranteed.get("", 0.0), guaranteed.get(only, 0.0))}
        requested = {only: requested.get("", 0) + requested.get(only, 0)}
        open_to_any = False
    for product in sorted(whole):
        yield CapacityLine(
            cluster=cluster,
            product=product,
            capacity=capacity.get(product, 0),
            guaranteed=guaranteed.get(product, 0.0),
            requested=requested.get(product, 0),
        )
    if open_to_any:
        total: float | None = 0.0
        for product, amount in guaranteed.items():
            if not is_slice(product):
                total = added(total, amount)
        yield CapacityLine(
            cluster=cluster,
            product="",
            capacity=sum(capacity.values()),
            guaranteed=total,
            requested=sum(gpus for product, gpus in requested.items() if not is_slice(product)),
        )


def guaranteed_at_roots(ledger: Ledger) -> dict[str, float | None]:
    """Return what all queues together are guaranteed, by product, each GPU counted once."""
    totals: dict[str, float | None] = {}
    children = ledger.children()
    for queue in ledger.queues:
        if queue[0] == "Queue":
            parent = ledger.parent_of(queue)
            if parent is None or parent not in ledger.queues:
                totals[""] = added(totals.get("", 0.0), _promised(ledger, queue, children, frozenset()))
        else:
            for quota in ledger.quotas(queue):
                totals[quota.product] = added(totals.get(quota.product, 0.0), quota.guaranteed)
    return totals


def _promised(
    ledger: Ledger, queue: QueueKey, children: Mapping[QueueKey, list[QueueKey]], seen: frozenset[QueueKey]
) -> float | None:
    """Return a KAI queue's quota; an unlimited one is as large as what its children are promised, if it has any."""
    own = ledger.queues[queue].quotas[0].guaranteed
    below = [child for child in children.get(queue, ()) if child not in seen]
    if own is not None or not below:
        return own
    total: float | None = 0.0
    for child in below:
        total = added(total, _promised(ledger, child, children, seen | {queue}))
    return total
