"""What the change means in GPUs: by queue and product, against quotas, and against what the evidence counted."""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.core.devices import is_slice
from reconciler.core.inventory import Inventory
from reconciler.core.plan.plan import CapacityLine, GpuLine, QueueLine
from reconciler.core.queues import QueueKey, QueueUsage, add_amounts, requests_of_quota
from reconciler.core.summary import Quota

Usage = Mapping[str, QueueUsage]

_EMPTY = QueueUsage()


def gpu_lines(before: Usage, after: Usage) -> tuple[GpuLine, ...]:
    """Return GPUs asked for by workloads that run, before and after, in every queue and product that has some."""
    lines = []
    for cluster in sorted({*before, *after}):
        left, right = before.get(cluster, _EMPTY).requested, after.get(cluster, _EMPTY).requested
        totals: dict[tuple[str, str], list[int]] = {}
        for side, asked in enumerate((left, right)):
            for (queue, product), gpus in asked.items():
                totals.setdefault((queue.name, product), [0, 0])[side] += gpus
        for (name, product), (was, now) in sorted(totals.items()):
            lines.append(GpuLine(cluster=cluster, queue=name, product=product, before=was, after=now))
    return tuple(lines)


def queue_lines(before: Usage, after: Usage) -> tuple[QueueLine, ...]:
    """Return every quota before and after, with what the workloads of the queue and those below it ask."""
    lines: list[QueueLine] = []
    for cluster in sorted({*before, *after}):
        left, right = before.get(cluster, _EMPTY), after.get(cluster, _EMPTY)
        requested = right.requested_with_children()
        for queue in sorted({*left.queues, *right.queues}, key=lambda key: (key.name, key)):
            lines += _queue(cluster, queue, left, right, requested.get(queue, {}))
    return tuple(lines)


def _queue(
    cluster: str, queue: QueueKey, left: QueueUsage, right: QueueUsage, requested: Mapping[str, int]
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
            queue=queue.name,
            product=product,
            before=was.get(product, missing).guaranteed if existed else 0.0,
            after=now.get(product, missing).guaranteed if exists else 0.0,
            limit=now.get(product, missing).limit if exists else 0.0,
            requested=requests_of_quota(requested, product, named),
            exists_before=existed,
            exists_after=exists,
        )


def _whole(quotas: Iterable[Quota]) -> Quota:
    total = Quota("", 0.0, 0.0)
    for quota in quotas:
        if not is_slice(quota.product):
            total = Quota("", add_amounts(total.guaranteed, quota.guaranteed), add_amounts(total.limit, quota.limit))
    return total


def capacity_lines(after: Usage, inventories: Mapping[str, Inventory]) -> tuple[CapacityLine, ...]:
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


def _capacity(cluster: str, usage: QueueUsage, capacity: Mapping[str, int]) -> Iterator[CapacityLine]:
    guaranteed = guaranteed_at_roots(usage)
    requested: dict[str, int] = {}
    for (_, product), gpus in usage.requested.items():
        requested[product] = requested.get(product, 0) + gpus
    whole = {product for product in (*capacity, *guaranteed, *requested) if product and not is_slice(product)}
    open_to_any = "" in guaranteed or "" in requested
    if open_to_any and len(whole) == 1:
        # With one product in the cluster, any is that one.
        (only,) = whole
        guaranteed = {only: add_amounts(guaranteed.get("", 0.0), guaranteed.get(only, 0.0))}
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
                total = add_amounts(total, amount)
        yield CapacityLine(
            cluster=cluster,
            product="",
            capacity=sum(capacity.values()),
            guaranteed=total,
            requested=sum(gpus for product, gpus in requested.items() if not is_slice(product)),
        )


def guaranteed_at_roots(usage: QueueUsage) -> dict[str, float | None]:
    """Return what all queues together are guaranteed, by product, each GPU counted once."""
    totals: dict[str, float | None] = {}
    children = usage.children()
    for queue in usage.queues:
        if usage.is_tree(queue):
            parent = usage.parent_of(queue)
            if parent is None or parent not in usage.queues:
                totals[""] = add_amounts(totals.get("", 0.0), _promised(usage, queue, children, frozenset()))
        else:
            for quota in usage.quotas(queue):
                totals[quota.product] = add_amounts(totals.get(quota.product, 0.0), quota.guaranteed)
    return totals


def _promised(
    usage: QueueUsage, queue: QueueKey, children: Mapping[QueueKey, list[QueueKey]], seen: frozenset[QueueKey]
) -> float | None:
    """Return a KAI queue's quota; an unlimited one is as large as what its children are promised, if it has any."""
    own = usage.queues[queue].quotas[0].guaranteed
    below = [child for child in children.get(queue, ()) if child not in seen]
    if own is not None or not below:
        return own
    total: float | None = 0.0
    for child in below:
        total = add_amounts(total, _promised(usage, child, children, seen | {queue}))
    return total
