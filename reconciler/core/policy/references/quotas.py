"""Quotas that fit each other, and workloads that fit their quotas."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.core.objects import ObjectKey
from reconciler.core.policy.references.rules import Bench
from reconciler.core.policy.verdict import Result
from reconciler.core.queues import Ledger, QueueKey, is_slice
from reconciler.core.summary import ObjectSummary


def judge_quotas(bench: Bench, rows: Sequence[ObjectSummary], ledger: Ledger) -> None:
    """Judge queues against their parents, workloads against their queues, and both against the settings' maxima."""
    _cycles(bench, ledger)
    _children(bench, ledger)
    asking = [row for row in rows if row.gpus]
    by_queue = _by_queue(asking, ledger)
    _leaves(bench, by_queue, ledger)
    _cohorts(bench, ledger)
    _limits(bench, by_queue, ledger)
    _maximum_by_namespace(bench, asking)
    _maximum_by_queue(bench, by_queue, ledger)


_ByQueue = Mapping[QueueKey, Sequence[ObjectSummary]]
"""Workloads by the queue that they are counted in."""


def _by_queue(asking: Sequence[ObjectSummary], ledger: Ledger) -> _ByQueue:
    """Sort workloads by queue; where a queue is, is looked up once a name."""
    by_name: dict[tuple[str, str, str], list[ObjectSummary]] = {}
    for row in asking:
        name = (row.queue_kind, row.namespace, row.queue)
        named = by_name.get(name)
        if named is None:
            by_name[name] = [row]
        else:
            named.append(row)
    by_queue: dict[QueueKey, list[ObjectSummary]] = {}
    for named in by_name.values():
        by_queue.setdefault(ledger.queue_of(named[0]), []).extend(named)
    return by_queue


def _cycles(bench: Bench, ledger: Ledger) -> None:
    told: set[QueueKey] = set()
    for queue in sorted(ledger.queues):
        if queue in told or not ledger.queues[queue].parent:
            continue
        ring = _ring(ledger, queue)
        if ring and told.isdisjoint(ring):
            told.update(ring)
            start = ring.index(min(ring))
            names = [name for _, name in (*ring[start:], *ring[:start], ring[start])]
            hint = "give one of them another parent, or none"
            bench.rule(
                "reference.parent-cycle", ledger.queues[min(ring)], f"is above itself: {' < '.join(names)}", hint=hint
            )


def _ring(ledger: Ledger, queue: QueueKey) -> list[QueueKey]:
    """Return the ring that the parents of a queue run into, if they do."""
    order: dict[QueueKey, int] = {}
    here: QueueKey | None = queue
    while here is not None:
        if here in order:
            return list(order)[order[here] :]
        order[here] = len(order)
        here = ledger.parent_of(here)
    return []


def _children(bench: Bench, ledger: Ledger) -> None:
    """Judge KAI's tree; in Kueue a cohort adds to what its members have and never bounds it."""
    for parent, children in sorted(ledger.children().items()):
        row = ledger.queues.get(parent)
        if row is None or parent[0] != "Queue":
            continue
        quota = row.quotas[0]
        inner = [(name, ledger.queues[(kind, name)].quotas[0]) for kind, name in sorted(children)]
        if quota.guaranteed is not None:
            total = sum(one.guaranteed or 0.0 for _, one in inner)
            if total > quota.guaranteed:
                shares = ", ".join(f"{name} {one.guaranteed or 0.0:g}" for name, one in inner if one.guaranteed)
                message = f"guarantees {quota.guaranteed:g} GPUs, its children together {total:g} ({shares})"
                hint = f"raise resources.gpu.quota to at least {total:g}, or lower the children's"
                bench.rule("quota.children", row, message, hint=hint, field="spec.resources.gpu.quota")
        _unbounded(bench, row, children, ledger)


def _unbounded(bench: Bench, row: ObjectSummary, children: Sequence[QueueKey], ledger: Ledger) -> None:
    """Warn of children that are promised without end what their parent has only so much of."""
    guaranteed = row.quotas[0].guaranteed
    if guaranteed is None:
        return
    for child in sorted(children):
        below = ledger.queues[child]
        if below.quotas[0].guaranteed is None:
            bench.object(
                "quota.children",
                below.key,
                below.place,
                f"is guaranteed unlimited GPUs below {row.name}, which is guaranteed {guaranteed:g}",
                hint="give it a number: what is promised beyond the parent's quota cannot be kept",
                field="spec.resources.gpu.quota",
                result=Result.WARN,
            )


def _leaves(bench: Bench, by_queue: _ByQueue, ledger: Ledger) -> None:
    """Judge where in KAI's tree workloads are, once a queue; of a queue that is not here nothing is known."""
    children = ledger.children() if by_queue else {}
    for queue in sorted(by_queue):
        if queue[0] != "Queue" or queue not in ledger.queues:
            continue
        rows = by_queue[queue]
        below = sorted(name for _, name in children.get(queue, ()))
        if below:
            message = f"is in queue {queue[1]}, which has children ({', '.join(below[:3])}{', …' * (len(below) > 3)})"  # noqa: PLR2004 - enough to find them
        elif not ledger.queues[queue].parent:
            message = f"is in queue {queue[1]}, which has no parent: KAI schedules nothing from it"
        else:
            continue
        if len(rows) > 1:
            message += f"; so are {len(rows) - 1} more"
        first = min(rows, key=lambda row: row.place)
        hint = "use a queue below it, and give workloads of its own a child of their own"
        bench.rule("quota.leaf-queue", first, message, hint=hint, field=first.references[0].field)


def _cohorts(bench: Bench, ledger: Ledger) -> None:
    """Warn of ClusterQueues that look like parents, as KAI has them, and are none."""
    for (kind, name), children in sorted(ledger.children().items()):
        row = ledger.queues.get(("ClusterQueue", name)) if kind == "Cohort" else None
        if row is None or row.parent == name:
            continue
        names = sorted(child for _, child in children)
        message = f"is in cohort {row.parent or '(none)'}, not in cohort {name} with {', '.join(names[:3])}"
        message += ": they share nothing, and its quota comes on top of theirs"
        hint = f"name another parent in {names[0]}, or guarantee nothing in {name} and give all to its children"
        bench.rule("quota.cohort", row, message, hint=hint, field="spec.cohortName")


def _limits(bench: Bench, by_queue: _ByQueue, ledger: Ledger) -> None:
    for queue, rows in by_queue.items():
        if not _is_bounded(ledger, queue):
            continue
        bounds: dict[str, tuple[float, str] | None] = {}
        for row in rows:
            for product, gpus in _by_product(ledger, queue, row).items():
                if product not in bounds:
                    bounds[product] = _tightest(ledger, queue, product)
                bound = bounds[product]
                if bound is not None and gpus > bound[0]:
                    _over(bench, row, f"{gpus} {product} GPUs" if product else f"{gpus} GPUs", *bound)


def _over(bench: Bench, row: ObjectSummary, what: str, limit: float, queue: str) -> None:
    message = f"asks for {what} at once, and queue {queue} may never have more than {limit:g}"
    hint = f"ask for at most {limit:g}, raise the queue's limit, or use another queue"
    bench.rule("quota.queue-limit", row, message, hint=hint, field=row.references[0].field)


def _is_bounded(ledger: Ledger, queue: QueueKey) -> bool:
    return any(quota.limit is not None for place in (queue, *ledger.above(queue)) for quota in ledger.quotas(place))


def _by_product(ledger: Ledger, queue: QueueKey, row: ObjectSummary) -> dict[str, int]:
    totals: dict[str, int] = {}
    for demand in row.demands:
        product = ledger.product_of(queue, demand)
        totals[product] = totals.get(product, 0) + demand.gpus
    return totals


def _tightest(ledger: Ledger, queue: QueueKey, product: str) -> tuple[float, str] | None:
    """Return the smallest limit that holds for a product in a queue, and whose it is."""
    found: list[tuple[float, str]] = []
    for place in (queue, *ledger.above(queue)):
        if place[0] == "Cohort":
            break
        limits = [quota.limit for quota in ledger.quotas(place) if _covers(quota.product, product)]
        if limits and None not in limits:
            found.append((sum(limit for limit in limits if limit is not None), place[1]))
    return min(found) if found else None


def _covers(quota: str, product: str) -> bool:
    if is_slice(quota) or is_slice(product):
        return quota == product
    return not quota or not product or quota == product


def _maximum(bench: Bench, rule: str) -> tuple[int | None, Mapping[str, int]] | None:
    """Return a rule's `max` and `overrides`; None where it is off, not set, or not a number, which is an error."""
    setting = bench.settings.get(rule)
    if setting is None or not setting.enabled:
        return None
    overrides = setting.parameters.get("overrides", {})
    values = {"max": setting.parameters.get("max")}
    values |= (
        {f"overrides.{name}": value for name, value in overrides.items()} if isinstance(overrides, Mapping) else {}
    )
    numbers = {name: _number(value) for name, value in values.items() if value is not None}
    wrong = [name for name, number in numbers.items() if number is None]
    if wrong or not isinstance(overrides, Mapping):
        bench.object(
            rule,
            ObjectKey(group="gpureconciler.io", kind="ReconcilerConfig", namespace="", name=bench.cluster.name),
            setting.place,
            f"cannot be judged: {', '.join(wrong) or 'overrides'} of its parameters is no whole number of GPUs",
            hint="write max: 64, and overrides as a mapping from names to numbers",
            field=f"spec.rules.{rule}.parameters",
            result=Result.ERROR,
        )
        return None
    named = {name.removeprefix("overrides."): number for name, number in numbers.items() if number is not None}
    return named.pop("max", None), named


def _number(value: Any) -> int | None:
    if type(value) is int and value >= 0:
        return value
    return int(value) if type(value) is str and value.isascii() and value.isdecimal() and len(value) < 10 else None  # noqa: PLR2004 - no cluster has a milliard GPUs


def _maximum_by_namespace(bench: Bench, asking: Sequence[ObjectSummary]) -> None:
    rule = "quota.max-gpus-per-namespace"
    found = _maximum(bench, rule)
    if found is None:
        return
    most, overrides = found
    by_namespace: dict[str, list[ObjectSummary]] = {}
    for row in asking:
        if not row.suspended:
            by_namespace.setdefault(row.namespace, []).append(row)
    for namespace, rows in sorted(by_namespace.items()):
        allowed, gpus = overrides.get(namespace, most), sum(row.gpus for row in rows)
        if allowed is not None and gpus > allowed:
            largest = _largest(rows)
            message = f"its workloads ask for {gpus} GPUs, {allowed} are allowed; most by {largest.kind}/{largest.name}"
            bench.object(
                rule,
                ObjectKey(group="", kind="Namespace", namespace="", name=namespace),
                largest.place,
                f"{message} ({largest.gpus})",
                hint=f"suspend or shrink workloads, or raise spec.rules.{rule}.parameters",
            )


def _maximum_by_queue(bench: Bench, by_queue: _ByQueue, ledger: Ledger) -> None:
    rule = "quota.max-gpus-per-queue"
    found = _maximum(bench, rule)
    if found is None:
        return
    most, overrides = found
    for queue in sorted(by_queue):
        kind, name = queue
        rows = [row for row in by_queue[queue] if row.queue and not row.suspended]
        allowed, gpus = overrides.get(name, most), sum(row.gpus for row in rows)
        if rows and allowed is not None and gpus > allowed:
            largest, own = _largest(rows), ledger.queues.get(queue)
            key = own.key if own else ObjectKey(group="", kind=kind, namespace="", name=name)
            message = f"its workloads ask for {gpus} GPUs, {allowed} are allowed; most by {largest.kind}/{largest.name}"
            bench.object(
                rule,
                key,
                largest.place,
                f"{message} ({largest.gpus})",
                hint=f"suspend or shrink workloads, or raise spec.rules.{rule}.parameters",
            )


def _largest(rows: Sequence[ObjectSummary]) -> ObjectSummary:
    return min(rows, key=lambda row: (-row.gpus, row.place))
