"""A plan in GPUs: requests by queue and product, quotas, capacity, and workloads that change."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.kinds.facts import QueueRole
from reconciler.kinds.quantities import Gpus, exact, total
from reconciler.kinds.summary import ObjectSummary, Quota
from reconciler.plan.edits import Edit, running_gpus, unknown_gpus
from reconciler.plan.plan import (
    CapacityLine,
    EvidenceChange,
    GpuLine,
    JobChange,
    Operation,
    QueueLine,
    UnknownGpus,
)
from reconciler.queues.borrowing import Borrowing
from reconciler.queues.queues import (
    QueueKey,
    QueueUsage,
    add_amounts,
    guaranteed_by_product,
    parents_first,
    requests_of_quota,
)
from reconciler.repo.config import Cluster, Config
from reconciler.sizing.devices import is_slice
from reconciler.sizing.inventory import Inventory, Node, with_quarantined

Usage = Mapping[str, QueueUsage]
"""Queues and requests by cluster."""

_EMPTY = QueueUsage()
_DIGITS = 2  # of GPU hours


def gpu_lines(before: Usage, after: Usage) -> tuple[GpuLine, ...]:
    """Return the GPUs that running workloads request in each queue, by product, before and after."""
    lines = []
    for cluster in sorted({*before, *after}):
        totals: dict[tuple[str, str], list[Gpus]] = {}
        for side, usage in enumerate((before, after)):
            for (queue, product), gpus in usage.get(cluster, _EMPTY).requested.items():
                sides = totals.setdefault((queue.name, product), [0, 0])
                sides[side] = exact(sides[side] + gpus)
        growth = [
            {(queue.name, product): more for (queue, product), more in usage.get(cluster, _EMPTY).growth.items()}
            for usage in (before, after)
        ]
        for key, sides in sorted(totals.items()):
            most = [exact(gpus + more[key]) if key in more else None for gpus, more in zip(sides, growth, strict=True)]
            (name, product), (old, new) = key, sides
            line = GpuLine(cluster=cluster, queue=name, product=product, before=old, after=new)
            lines.append(replace(line, most_before=most[0], most=most[1]))
    return tuple(lines)


def queue_lines(before: Usage, after: Usage, config: Config) -> tuple[QueueLine, ...]:
    """Return each quota before and after, with the requests of the queue and the queues below it."""
    lines: list[QueueLine] = []
    for cluster in sorted({*before, *after}):
        sides = left, right = before.get(cluster, _EMPTY), after.get(cluster, _EMPTY)
        cohorts = {queue for side in sides for queue in filter(side.is_cohort, side.queues)}
        earlier, requested = (side.requested_with_children(cohorts) for side in sides)
        borrowing = Borrowing(right, config.cluster(cluster) or Cluster(name=cluster))
        for queue in sorted({*left.queues, *right.queues}, key=lambda key: (key.name, key)):
            quotas = left.quotas(queue), borrowing.quotas(queue)
            lines += _queue(cluster, queue, sides, quotas, (earlier.get(queue, {}), requested.get(queue, {})))
    return tuple(lines)


def _queue(
    cluster: str,
    queue: QueueKey,
    sides: tuple[QueueUsage, QueueUsage],
    quotas: tuple[Iterable[Quota], Iterable[Quota]],
    requests: tuple[Mapping[str, Gpus], Mapping[str, Gpus]],
) -> Iterator[QueueLine]:
    left, right = sides
    before, after = ({quota.product: quota for quota in side} for side in quotas)
    earlier, requested = requests
    exists_before, exists_after = queue in left.queues, queue in right.queues
    no_quota = Quota("", 0.0, 0.0)
    products = {*before, *after}
    chosen = {*earlier, *requested}
    unnamed = {product for product in chosen if product not in products and not is_slice(product)}
    has_total = bool(unnamed and products and "" not in products)
    if has_total:
        # Some workloads select none of the products of the queue, so only the whole queue can be compared.
        before[""], after[""] = _sum_quotas(before.values()), _sum_quotas(after.values())
        products.add("")
        requested = {**requested, "": total(gpus for name, gpus in requested.items() if not is_slice(name))}
        quota_products: set[str] = set(requested) - {""}
    else:
        quota_products = products
    for product in sorted(products):
        old, new = before.get(product, no_quota), after.get(product, no_quota)
        yield QueueLine(
            cluster=cluster,
            queue=queue.name,
            product=product,
            before=old.guaranteed if exists_before else 0.0,
            after=new.guaranteed if exists_after else 0.0,
            limit=new.limit if exists_after else 0.0,
            requested=requests_of_quota(requested, product, quota_products),
            parent=_parent(right if exists_after else left, queue),
            exists_before=exists_before,
            exists_after=exists_after,
            is_total=has_total and not product,
            is_cohort=(right if exists_after else left).is_cohort(queue),
        )


def sum_of_trees(queues: Iterable[QueueLine], amount: Callable[[QueueLine], float]) -> float:
    """Add up an amount of every queue. In a tree a parent and its children share it: the larger of the two counts."""
    lines: dict[tuple[str, str], list[QueueLine]] = {}
    children: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for line in queues:
        if line.is_total:
            continue
        key = (line.cluster, line.queue)
        lines.setdefault(key, []).append(line)
        if line.parent and len(lines[key]) == 1:
            children.setdefault((line.cluster, line.parent), []).append(key)
    roots = [key for key in lines if not lines[key][0].parent]
    sums: dict[tuple[str, str], float] = {}
    for key in reversed(parents_first((*roots, *lines), children)):  # beside the roots: cycles of parents
        own = sum(amount(line) for line in lines[key])
        sums[key] = max(own, sum(sums.pop(child, 0.0) for child in children.get(key, ())), key=abs)
    return sum(sums.values())


def guarantee_delta(line: QueueLine) -> float:
    """Return by how much the guarantee of a queue changes; to and from unlimited has no number."""
    return 0.0 if line.before is None or line.after is None else line.after - line.before


def _parent(usage: QueueUsage, queue: QueueKey) -> str:
    parent = usage.parent_of(queue) if usage.is_tree(queue) else None
    return parent.name if parent is not None and parent in usage.queues else ""


def _sum_quotas(quotas: Iterable[Quota]) -> Quota:
    total = Quota("", 0.0, 0.0)
    for quota in quotas:
        if not is_slice(quota.product):
            total = Quota("", add_amounts(total.guaranteed, quota.guaranteed), add_amounts(total.limit, quota.limit))
    return total


def capacity_lines(
    after: Usage, before: Mapping[str, Inventory], inventories: Mapping[str, Inventory], ages: Mapping[str, int]
) -> tuple[CapacityLine, ...]:
    """Return the GPUs of each cluster with an inventory, before and after, compared with guarantees and requests.

    A quota for any product is compared with all GPUs of the cluster. `ages` are those of the inventories to show, in
    days.
    """
    lines: list[CapacityLine] = []
    for cluster in sorted({*before, *inventories}):
        old, new = (side[cluster].gpus_by_product if cluster in side else {} for side in (before, inventories))
        own = _capacity(cluster, after.get(cluster, _EMPTY), old, new)
        lines += (replace(line, evidence_days=ages.get(cluster)) for line in own)
    return tuple(lines)


def evidence_changes(before: Mapping[str, Inventory], after: Mapping[str, Inventory]) -> tuple[EvidenceChange, ...]:
    """Return the clusters whose inventory differs."""
    return tuple(
        EvidenceChange(
            cluster=cluster,
            nodes_before=len(before[cluster].nodes) if cluster in before else 0,
            nodes_after=len(after[cluster].nodes) if cluster in after else 0,
            taken_before=before[cluster].taken_at if cluster in before else "",
            taken_after=after[cluster].taken_at if cluster in after else "",
        )
        for cluster in sorted({*before, *after})
        if _measured(before.get(cluster)) != _measured(after.get(cluster))
    )


def _measured(inventory: Inventory | None) -> tuple[str, tuple[Node, ...]] | None:
    """Return what was measured; a quarantine is a decision, and has lines of its own."""
    return None if inventory is None else (inventory.taken_at, with_quarantined(inventory, frozenset()).nodes)


def _capacity(
    cluster: str, usage: QueueUsage, before: Mapping[str, int], capacity: Mapping[str, int]
) -> Iterator[CapacityLine]:
    guaranteed = guaranteed_by_product(usage)
    requested: dict[str, Gpus] = {}
    for (_, product), gpus in usage.requested.items():
        requested[product] = exact(requested.get(product, 0) + gpus)
    products = {
        product for product in (*before, *capacity, *guaranteed, *requested) if product and not is_slice(product)
    }
    has_any = "" in guaranteed or "" in requested
    if has_any and len(products) == 1:
        # The cluster has one product, so any product is this one.
        (only,) = products
        guaranteed = {only: add_amounts(guaranteed.get("", 0.0), guaranteed.get(only, 0.0))}
        requested = {only: exact(requested.get("", 0) + requested.get(only, 0))}
        has_any = False
    for product in sorted(products):
        yield CapacityLine(
            cluster=cluster,
            product=product,
            before=before.get(product, 0),
            capacity=capacity.get(product, 0),
            guaranteed=guaranteed.get(product, 0.0),
            requested=requested.get(product, 0),
        )
    if has_any:
        whole: float | None = 0.0
        for product, amount in guaranteed.items():
            if not is_slice(product):
                whole = add_amounts(whole, amount)
        yield CapacityLine(
            cluster=cluster,
            product="",
            before=sum(before.values()),
            capacity=sum(capacity.values()),
            guaranteed=whole,
            requested=total(gpus for product, gpus in requested.items() if not is_slice(product)),
        )


def with_queue(edit: Edit, before: Usage, after: Usage) -> Edit:
    """Return the edit with the queue of its workload, or the name of the queue that it is."""
    row = edit.row_after or edit.row_before
    if row is None or not (row.is_workload or row.queue_role not in (QueueRole.NONE, QueueRole.CHECK)):
        return edit
    usage = (after if edit.row_after else before).get(row.cluster, _EMPTY)
    queue = usage.queue_of(row).name if row.is_workload else row.name
    return replace(edit, change=replace(edit.change, queue=queue)) if queue else edit


def unknown_lines(edits: Iterable[Edit]) -> tuple[UnknownGpus, ...]:
    """Return the changed objects with GPUs or pods that no figure includes, in the order of the edits."""
    return tuple(_unknown_lines(edits))


def _unknown_lines(edits: Iterable[Edit]) -> Iterator[UnknownGpus]:
    for edit in edits:
        before, after = unknown_gpus(edit.row_before), unknown_gpus(edit.row_after)
        is_same = before == after and edit.comparison is not None and not edit.comparison.fields
        if (before or after) and not is_same:
            yield UnknownGpus(
                cluster=edit.change.cluster,
                key=edit.change.key,
                queue=edit.change.queue,
                before=tuple(map(str, before)),
                after=tuple(map(str, after)),
                source=edit.change.source,
            )


def job_changes(edits: Iterable[Edit]) -> tuple[JobChange, ...]:
    """Return the workloads whose pods or GPUs change, in the order of the edits.

    A job that outgrows one node can become an object of another kind with the same name. This is one resize.
    """
    jobs = []
    for edit in edits:
        row = edit.row_after or edit.row_before
        word = _word(edit)
        if row is not None and row.is_workload and edit.change.operation is Operation.REPLACE:
            new_word = "refused" if edit.change.is_refused else "replaced"
            word = new_word if word in ("", "resized", "changed", "renamed") else word
        if row is None or not word:
            continue
        jobs.append(
            JobChange(
                word=word,
                cluster=row.cluster,
                key=row.key,
                queue=edit.change.queue,
                product=row.product,
                gpus_before=running_gpus(edit.row_before),
                gpus_after=running_gpus(edit.row_after),
                range_after=None if row is not edit.row_after or row.suspended else row.gpu_range,
                source=edit.change.source,
                key_before=edit.row_before.key if edit.row_before and word in _MOVED else None,
                cluster_before=edit.row_before.cluster if edit.row_before and word in _MOVED else "",
                gpu_hours_before=gpu_hours(edit.row_before),
                gpu_hours_after=gpu_hours(edit.row_after),
                length="" if row.gpu_hours else row.length,
                spot=row.spot,
            )
        )
    return tuple(_join_resizes(jobs))


def gpu_hours(row: ObjectSummary | None) -> float | None:
    """Return the GPU hours of a job's whole run; None if they are unknown, or it does not run."""
    if row is None or row.suspended:
        return None
    return row.gpu_hours or round(row.hours * row.gpus, _DIGITS) or None


def _join_resizes(jobs: list[JobChange]) -> Iterator[JobChange]:
    """Yield the jobs with the removal and the addition of one name joined."""
    added = {_name(job): job for job in jobs if job.word == "added"}
    removed = {_name(job): job for job in jobs if job.word == "removed"}
    for job in jobs:
        old, new = removed.get(_name(job)), added.get(_name(job))
        if old is None or new is None or job not in (old, new):
            yield job
        elif job is new:
            yield replace(job, word="resized", gpus_before=old.gpus_before, gpu_hours_before=old.gpu_hours_before)


def _name(job: JobChange) -> tuple[str, str, str]:
    return (job.cluster, job.key.namespace, job.key.name)


_MOVED = ("renamed", "moved")


def _finished_word(edit: Edit, after: ObjectSummary) -> str:
    """Return the word of a job whose end is recorded now, or not any more; one under a new name is a new job."""
    if after.finished:
        return "finished"
    return "added" if edit.change.operation is Operation.MOVE else "run again"


def _word(edit: Edit) -> str:
    before, after = edit.row_before, edit.row_after
    is_new = after is not None and after.is_workload
    if before is None or not before.is_workload:
        return "added" if is_new else ""
    if after is None or not is_new:
        return "removed"
    if before.finished != after.finished:
        return _finished_word(edit, after)
    if edit.change.operation is Operation.MOVE:
        return "renamed" if before.key.name != after.key.name else "moved"
    if before.suspended != after.suspended:
        return "suspended" if after.suspended else "resumed"
    return _resized_word(before, after)


def _resized_word(before: ObjectSummary, after: ObjectSummary) -> str:
    """Return the word of a job by its GPUs: as many of another product, or for other hours, are a change."""
    if _size(before) != _size(after):
        return "resized"
    is_changed = before.demands != after.demands or before.gpu_hours != after.gpu_hours
    return "changed" if is_changed else ""


def _size(row: ObjectSummary) -> tuple[object, ...]:
    return (row.pods, *((one.gpus_per_pod, one.pods, *one.bounds) for one in row.demands))
