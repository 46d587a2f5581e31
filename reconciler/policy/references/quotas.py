"""Quotas that agree with each other, and workloads that fit their quotas."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil, inf
from typing import Any

from reconciler.kinds.facts import Quota
from reconciler.kinds.kai import is_preemptible, priority_of
from reconciler.kinds.quantities import Gpus, exact, total
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.workloads import NAMESPACE
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import enumerated, plural
from reconciler.policy.references.rules import Evaluation
from reconciler.policy.verdict import Result
from reconciler.queues.borrowing import Borrowing, Shortage
from reconciler.queues.queues import NO_QUEUE, QueueKey, QueueUsage
from reconciler.repo.config.config import CONFIG
from reconciler.sizing.devices import WHOLE_GPUS, is_gpu, is_slice

# Workloads that request a resource that their ClusterQueue does not cover: Kueue never admits them.


_RULE = "quota.not-covered"

_PREFIXES = "excludeResourcePrefixes"
"""Parameter of the rule with the name of the field in Kueue's configuration, which no repository has."""


def check_coverage(evaluation: Evaluation, rows: Sequence[ObjectSummary], usage: QueueUsage) -> None:
    """Check workloads in queues by flavor. GPUs that pods request themselves are for `quota.queue-limit`."""
    prefixes = _excluded(evaluation)
    if prefixes is None:
        return
    for row in rows:
        if row.finished or (not row.requests and row.namespace not in usage.limit_ranges):
            continue
        queue = usage.queue_of(row)
        if not row.is_workload or not usage.is_flavored(queue):
            continue
        covered = usage.queues[queue].resources
        requested = {name for name in row.requests if not is_gpu(name)}
        given = _given(row, usage) - {*row.requests}
        missing = sorted(name for name in requested | given if name not in covered and not name.startswith(prefixes))
        if missing:
            _report(evaluation, row, queue.name, missing, given)


def _given(row: ObjectSummary, usage: QueueUsage) -> set[str]:
    """Return the requests that a LimitRange adds to the containers of a workload."""
    return set() if row.stated is None else {*usage.limit_ranges.get(row.namespace, ())} - {*row.stated}


def _report(evaluation: Evaluation, row: ObjectSummary, queue: str, missing: Sequence[str], given: set[str]) -> None:
    by_default = [name for name in missing if name in given]
    message = f"requests {enumerated(missing)}, but ClusterQueue {queue} does not cover {_them(missing)}"
    if by_default:
        message += f" (a LimitRange of namespace {row.namespace} sets {enumerated(by_default)})"
    hint = f"add {_them(missing)} to coveredResources of a resource group, with a quota in each flavor, or use another"
    hint += f" queue; if Kueue's configuration excludes {_them(missing)} or replaces {_them(missing)} by other"
    hint += f" resources, add {_them(missing)} to spec.rules.{_RULE}.parameters.{_PREFIXES}"
    evaluation.report(_RULE, row, message, hint=hint, field=row.references[0].field)


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _excluded(evaluation: Evaluation) -> tuple[str, ...] | None:
    """Return the prefixes of resources that Kueue does not count; None if the rule is disabled, or they are wrong."""
    if not evaluation.is_enabled(_RULE):
        return None
    setting = evaluation.settings.get(_RULE)
    if setting is None:
        return ()
    prefixes = setting.parameters.get(_PREFIXES, ())
    if isinstance(prefixes, list | tuple) and all(isinstance(prefix, str) and prefix for prefix in prefixes):
        return tuple(prefixes)
    evaluation.report_object(
        _RULE,
        ObjectKey(group=CONFIG[0], kind=CONFIG[1], namespace="", name=evaluation.cluster.name),
        setting.place,
        f"cannot be evaluated: its parameter {_PREFIXES} is not a list of prefixes",
        hint=f"write {_PREFIXES}: [cpu, memory], as in the configuration of Kueue",
        field=f"spec.rules.{_RULE}.parameters",
        result=Result.ERROR,
    )
    return None


# Workloads against queues that grant GPUs by flavor: a queue that never admits one is an error.


_FLAVOR_RULE = "quota.queue-limit"


def check_flavors(
    evaluation: Evaluation, by_queue: Mapping[QueueKey, Sequence[ObjectSummary]], usage: QueueUsage
) -> None:
    """Check that the queue of each workload could admit it if nothing else ran."""
    queues = [queue for queue in by_queue if usage.is_flavored(queue)]
    if not queues or not evaluation.is_enabled(_FLAVOR_RULE):
        return
    borrowing = Borrowing(usage, evaluation.cluster, evaluation.kueue)
    for queue in queues:
        for row in by_queue[queue]:
            shortage = borrowing.shortage(queue, row.pod_requests, row.workloads)
            if shortage is not None and (shortage.mismatches or not shortage.excluded):
                is_only = len(usage.queues[queue].quotas) == 1
                message, hint = _words(queue.name, shortage, usage, is_only=is_only, workloads=row.workloads)
                evaluation.report(_FLAVOR_RULE, row, message, hint=hint, field=row.references[0].field)
            elif (most := _most(row)) > row.gpus > 0:
                workloads = ceil(row.workloads * most / row.gpus)
                if borrowing.shortage(queue, row.pod_requests, workloads) is not None:
                    _report_growth(evaluation, row, most, f"queue {queue.name} never grants so many")


def _words(queue: str, shortage: Shortage, usage: QueueUsage, *, is_only: bool, workloads: int) -> tuple[str, str]:
    """Return message and hint."""
    if not shortage.flavor and not shortage.mismatches:
        message = f"requests {shortage.resource}, but queue {queue} grants none"
        return message, "use a queue that grants it, or add it to a flavor of the queue"
    if shortage.mismatches:
        message = f"requires node labels that no flavor of queue {queue} has ({', '.join(shortage.mismatches)})"
        return message, "change the node selector of the pods, or add a flavor with these labels to the queue"
    product = usage.flavors.get(shortage.flavor) if shortage.resource in WHOLE_GPUS else shortage.resource
    requested = f"requests {plural(shortage.gpus, f'{product} GPU' if product else 'GPU')}"
    limit = f"{shortage.largest:g}"
    hint = f"request at most {limit}, raise the queue's limit, or use another queue"
    if is_only and not shortage.taken:
        return f"{requested}, but the limit of queue {queue} is {limit}", hint
    requested += f" {workloads} times" if workloads > 1 else " in pods that share a flavor"
    message = f"{requested}, but flavor {shortage.flavor} of queue {queue} has at most {limit}"
    if shortage.taken:
        message += f", of which other pods of the workload take {shortage.taken:g}"
    return message, hint


def _most(row: ObjectSummary) -> Gpus:
    """Return the most GPUs that the pods of a workload may request."""
    return row.gpu_range[1] if row.gpu_range else row.gpus


def _report_growth(evaluation: Evaluation, row: ObjectSummary, gpus: Gpus, but: str) -> None:
    hint = "lower the maximum of its autoscaler, raise the queue's limit, or use another queue"
    message = f"may grow to {plural(gpus, 'GPU')}, but {but}"
    evaluation.report("quota.growth", row, message, hint=hint, field=row.references[0].field)


_Workloads = Mapping[QueueKey, Sequence[ObjectSummary]]
"""Workloads with GPUs, by the queue that they are counted in."""

_Limit = tuple[float, str]
"""An amount, and the name of the queue that sets it."""

_MAX_NAMES = 3  # queues that a message names

_MAX_DIGITS = 9  # of a number of GPUs


def check_queues(evaluation: Evaluation, usage: QueueUsage) -> None:
    """Check queues against their parents."""
    _check_cycles(evaluation, usage)
    _check_children(evaluation, usage)
    _check_tree_limits(evaluation, usage)
    _check_child_limits(evaluation, usage)
    _check_cohorts(evaluation, usage)


def check_quotas(evaluation: Evaluation, rows: Sequence[ObjectSummary], usage: QueueUsage) -> None:
    """Check workloads against their queues and the settings' maxima. `usage` may count further workloads."""
    workloads = [row for row in rows if row.gpus]
    by_queue = _by_queue(workloads, usage)
    _check_leaves(evaluation, by_queue, usage)
    _check_bottom(evaluation, by_queue, usage)
    _check_limits(evaluation, by_queue, usage)
    _check_preemption(evaluation, by_queue, usage)
    check_flavors(evaluation, by_queue, usage)
    check_coverage(evaluation, rows, usage)
    _check_namespace_maximum(evaluation, workloads, usage)
    _check_queue_maximum(evaluation, by_queue, usage)


def _by_queue(workloads: Sequence[ObjectSummary], usage: QueueUsage) -> _Workloads:
    """Group workloads by queue; a queue is resolved once per name."""
    by_name: dict[tuple[Any, str, str], list[ObjectSummary]] = {}
    for row in workloads:
        by_name.setdefault((row.queue_kind, row.namespace, row.queue), []).append(row)
    by_queue: dict[QueueKey, list[ObjectSummary]] = {}
    for named in by_name.values():
        by_queue.setdefault(usage.queue_of(named[0]), []).extend(named)
    return by_queue


def _check_cycles(evaluation: Evaluation, usage: QueueUsage) -> None:
    visited: set[QueueKey] = set()
    for queue in sorted(usage.queues):
        if cycle := _cycle(usage, queue, visited):
            start = cycle.index(min(cycle))
            names = [key.name for key in (*cycle[start:], *cycle[:start], cycle[start])]
            if (others := len(names) - 2 * _MAX_NAMES) > 1:
                names[_MAX_NAMES:-_MAX_NAMES] = [f"{others} more"]
            message = f"is its own ancestor: {' < '.join(names)}"
            hint = "change or remove the parent of one of them"
            evaluation.report("reference.parent-cycle", usage.queues[min(cycle)], message, hint=hint)


def _cycle(usage: QueueUsage, queue: QueueKey, visited: set[QueueKey]) -> list[QueueKey]:
    """Return the cycle that the ancestors of a queue run into; empty if they end at a root or were visited before."""
    order: dict[QueueKey, int] = {}
    here: QueueKey | None = queue
    while here is not None and here not in visited:
        order[here] = len(order)
        visited.add(here)
        here = usage.parent_of(here)
    return list(order)[order[here] :] if here in order else []


def _check_children(evaluation: Evaluation, usage: QueueUsage) -> None:
    """Check trees of queues; a cohort adds to the quotas of its members and never bounds them."""
    for parent, children in sorted(usage.children().items()):
        if not usage.is_tree(parent):
            continue
        row = usage.queues[parent]
        guaranteed = row.quotas[0].guaranteed
        if guaranteed is None:
            continue
        field, _ = _quota_fields(evaluation, parent)
        pairs = [(child.name, usage.queues[child].quotas[0]) for child in sorted(children)]
        quotas = [(name, quota) for name, quota in pairs if _is_comparable(row.quotas[0], quota)]
        total = sum(quota.guaranteed or 0.0 for _, quota in quotas)
        if total > guaranteed:
            shares = ", ".join(f"{name} {quota.guaranteed:g}" for name, quota in quotas if quota.guaranteed)
            message = f"has a quota of {plural(guaranteed, 'GPU')}, but those of its children are {total:g} ({shares})"
            hint = f"raise {_short(field) or 'the quota'} to at least {total:g}, or lower the children's"
            # Releases of Volcano disagree about a parent without a quota of its own.
            is_open = bool(not guaranteed and _root(evaluation, parent)) and not _exceeds(total, row.quotas[0].limit)
            result = Result.WARN if is_open else None
            evaluation.report_object(
                "quota.children", row.key, row.place, message, hint=hint, field=field, result=result
            )
        _check_unlimited(evaluation, row, guaranteed, [usage.queues[child] for child in sorted(children)])


def _is_comparable(left: Quota, right: Quota) -> bool:
    """Return whether two quotas of a tree may be of the same GPUs: of any, or of one resource."""
    return not left.resource or not right.resource or left.resource == right.resource


def _exceeds(amount: float, limit: float | None) -> bool:
    return limit is not None and amount > limit


def _check_unlimited(
    evaluation: Evaluation, parent: ObjectSummary, guaranteed: float, children: Sequence[ObjectSummary]
) -> None:
    """Warn of children with an unlimited quota below a parent with a limited one."""
    for child in children:
        if child.quotas[0].guaranteed is None:
            evaluation.report_object(
                "quota.children",
                child.key,
                child.place,
                f"has an unlimited quota, but that of its parent {parent.name} is {guaranteed:g}",
                hint="set a number: nothing beyond the quota of the parent is granted",
                field=_quota_fields(evaluation, child.key)[0],
                result=Result.WARN,
            )


def _check_tree_limits(evaluation: Evaluation, usage: QueueUsage) -> None:
    """Check the limits of queues in a tree. Kueue's is what may be borrowed, on top of the quota."""
    for queue in sorted(filter(usage.is_tree, usage.queues)):
        quota = usage.queues[queue].quotas[0]
        if quota.limit is not None and quota.guaranteed is not None and quota.limit < quota.guaranteed:
            message = f"has a quota of {plural(quota.guaranteed, 'GPU')}, but its limit is {quota.limit:g}"
            _, field = _quota_fields(evaluation, queue)
            hint = f"raise {_short(field) or 'the limit'}, or lower the quota"
            row = usage.queues[queue]
            evaluation.report("quota.limit-below-quota", row, message, hint=hint, field=field)


def _check_child_limits(evaluation: Evaluation, usage: QueueUsage) -> None:
    """Check the limits of queues in Volcano's tree against the next limit above (validateChildAgainstAncestor).

    Source: pkg/webhooks/admission/queues/validate/validate_queue.go.
    """

    def above(queue: QueueKey, higher: _Above) -> _Above:
        row = usage.queues.get(queue)
        quota = row.quotas[0] if row is not None and usage.is_tree(queue) else None
        return higher if quota is None or quota.limit is None else (quota, queue.name)

    limits = usage.from_above(above)
    for queue in sorted(usage.queues):
        parent = usage.parent_of(queue)
        higher = limits.get(parent) if parent is not None and _root(evaluation, queue) else None
        quota = usage.queues[queue].quotas[0] if higher else None
        if higher is None or quota is None or quota.limit is None or not _is_comparable(quota, higher[0]):
            continue
        if _exceeds(quota.limit, higher[0].limit):
            _, field = _quota_fields(evaluation, queue)
            message = f"has a limit of {plural(quota.limit, 'GPU')}, but that of queue {higher[1]} above it is"
            message += f" {higher[0].limit:g}"
            hint = f"lower {_short(field)} to at most {higher[0].limit:g}, or raise it in {higher[1]}"
            evaluation.report("quota.child-limit", usage.queues[queue], message, hint=hint, field=field)


_Above = tuple[Quota, str] | None
"""The quota with the next limit above a queue, and the name of its queue."""


def _root(evaluation: Evaluation, queue: QueueKey) -> str:
    """Return the queue above all others of a tree that accepts workloads only at the bottom; empty for other trees."""
    return evaluation.kinds.find(queue.group, queue.kind).queueing.root


def _quota_fields(evaluation: Evaluation, queue: QueueKey | ObjectKey) -> tuple[str, str]:
    """Return the fields with the guarantee and the limit of a queue; empty where its kind does not name them."""
    return evaluation.kinds.find(queue.group, queue.kind).queueing.quota_fields


def _short(field: str) -> str:
    return field.removeprefix("spec.")


def _check_leaves(evaluation: Evaluation, by_queue: _Workloads, usage: QueueUsage) -> None:
    """Check that workloads are at the bottom of KAI's tree, once per queue that this repository has."""
    children = usage.children() if by_queue else {}
    for queue in sorted(by_queue):
        if not _follows_kai(evaluation, usage, queue):
            continue
        rows = by_queue[queue]
        below = sorted(child.name for child in children.get(queue, ()))
        rule, hint = "quota.leaf-queue", "use a queue below it, and create a child queue for its own workloads"
        if not usage.queues[queue].parent:
            rule, hint = "quota.root-queue", "use a queue below it, or give it a parent"
            message = f"is in queue {queue.name}, which has no parent, so KAI schedules nothing from it"
        elif below:
            message = f"is in queue {queue.name}, which has children ({_names(below)})"
        else:
            continue
        others = len(rows) - 1
        if others:
            message += f"; so {'is' if others == 1 else 'are'} {others} more"
        first = min(rows, key=lambda row: row.place)
        evaluation.report(rule, first, message, hint=hint, field=first.references[0].field)


def _check_bottom(evaluation: Evaluation, by_queue: _Workloads, usage: QueueUsage) -> None:
    """Check that Volcano accepts workloads in their queues (validateJobCreate), once per queue.

    Source: pkg/webhooks/admission/jobs/validate/admit_job.go of the releases after 1.10.
    """
    children = usage.children() if any(_root(evaluation, queue) for queue in by_queue) else {}
    for queue in sorted(by_queue):
        root = _root(evaluation, queue)
        below = sorted(child.name for child in children.get(queue, ()))
        if not root or not (below or queue.name == root):
            continue
        rows = by_queue[queue]
        has = "which is above all others" if queue.name == root else f"which has children ({_names(below)})"
        message = f"is in queue {queue.name}, {has}, so Volcano refuses it"
        if others := len(rows) - 1:
            message += f"; so {'is' if others == 1 else 'are'} {others} more"
        first = min(rows, key=lambda row: row.place)
        hint = "use a queue without children, and create a child queue for its own workloads"
        evaluation.report("quota.bottom-queue", first, message, hint=hint, field=first.references[0].field)


def _follows_kai(evaluation: Evaluation, usage: QueueUsage, queue: QueueKey) -> bool:
    """Return whether this repository has a queue, and its workloads run as in KAI's."""
    return usage.is_tree(queue) and evaluation.kinds.find(queue.group, queue.kind).queueing.follows_kai


def _names(names: Sequence[str]) -> str:
    return ", ".join((*names[:_MAX_NAMES], *(("…",) if len(names) > _MAX_NAMES else ())))


def _check_cohorts(evaluation: Evaluation, usage: QueueUsage) -> None:
    """Warn of queues that have the name of a cohort, as if they were its parent, but are not in it."""
    by_name = {queue.name: queue for queue in usage.queues if usage.is_flavored(queue)}
    for cohort, children in sorted(usage.children().items()):
        queue = by_name.get(cohort.name)
        if queue is None or usage.is_tree(children[0]) or usage.queues[queue].parent == cohort.name:
            continue
        names = sorted(child.name for child in children)
        row = usage.queues[queue]
        inside = f"cohort {row.parent}" if row.parent else "no cohort"
        message = f"is in {inside}, not in cohort {cohort.name} with {', '.join(names[:_MAX_NAMES])}, so they share"
        message += " nothing, and its quota is added to theirs"
        hint = f"change the parent of {names[0]}, or set no quota in {cohort.name} and all of it in its children"
        evaluation.report("quota.cohort", row, message, hint=hint, field="spec.cohortName")


def _check_limits(evaluation: Evaluation, by_queue: _Workloads, usage: QueueUsage) -> None:
    is_limited = usage.from_above(
        lambda queue, above: bool(above) or any(quota.limit is not None for quota in usage.quotas(queue))
    )
    limits: dict[_Devices, dict[QueueKey, _Limit | None]] = {}
    for queue, rows in by_queue.items():
        if usage.is_flavored(queue) or not is_limited.get(queue):
            continue
        for row in rows:
            for devices, (gpus, most) in _gpus_by_product(usage, queue, row).items():
                if devices not in limits:
                    limits[devices] = usage.from_above(partial(_lowest_limit, usage, devices))
                limit, product = limits[devices][queue], devices[1]
                if limit is not None and gpus > limit[0]:
                    _report_limit(evaluation, row, plural(gpus, f"{product} GPU" if product else "GPU"), *limit)
                elif limit is not None and most > limit[0]:
                    _report_growth(evaluation, row, most, f"the limit of queue {limit[1]} is {limit[0]:g}")


def _check_preemption(evaluation: Evaluation, by_queue: _Workloads, usage: QueueUsage) -> None:
    """Check workloads that KAI never preempts: they get the quota of their queue and of those above it."""
    least = usage.from_above(partial(_least_guarantee, usage))
    for queue, rows in by_queue.items():
        if not _follows_kai(evaluation, usage, queue):
            continue
        guaranteed, name = least[queue]
        for row in rows:
            gpus = total(demand.gpus for demand in row.demands)
            if gpus <= guaranteed:
                continue
            priority = priority_of((row.group, row.kind), row.priority_class, usage.priorities)
            if is_preemptible(row.preemptibility, priority) is not False:
                continue
            message = f"requests {plural(gpus, 'GPU')} and is not preemptible"
            message += "" if row.preemptibility else f" (priority {priority})"
            message += f", but the quota of queue {name} is {guaranteed:g}"
            hint = "use a priority class below 100, or raise the quota: KAI lends GPUs only to preemptible workloads"
            evaluation.report("quota.non-preemptible", row, message, hint=hint, field=row.references[0].field)


def _least_guarantee(usage: QueueUsage, queue: QueueKey, above: _Limit | None) -> _Limit:
    """Return the least quota of a queue in a tree and of those above it, and the name of that queue."""
    own = usage.queues[queue].quotas[0].guaranteed if usage.is_tree(queue) else None
    return min(above or (inf, ""), (inf if own is None else own, "" if own is None else queue.name))


def _report_limit(evaluation: Evaluation, row: ObjectSummary, gpus: str, limit: float, queue: str) -> None:
    message = f"requests {gpus}, but the limit of queue {queue} is {limit:g}"
    hint = f"request at most {limit:g}, raise the queue's limit, or use another queue"
    evaluation.report("quota.queue-limit", row, message, hint=hint, field=row.references[0].field)


_Devices = tuple[str, str]
"""A resource and a product, for quotas of this resource; without a resource, for quotas of any."""


def _gpus_by_product(usage: QueueUsage, queue: QueueKey, row: ObjectSummary) -> dict[_Devices, tuple[Gpus, Gpus]]:
    """Return the GPUs that a workload requests, and may request, for quotas of any resource and for those of one."""
    totals: dict[_Devices, tuple[Gpus, Gpus]] = {}
    for demand in row.demands:
        product = usage.product_of(queue, demand)
        for devices in (("", product), (demand.resource, product)):
            gpus, most = totals.get(devices, (0, 0))
            totals[devices] = exact(gpus + demand.gpus), exact(most + max(demand.gpus, demand.bounds[1]))
    return totals


def _lowest_limit(usage: QueueUsage, devices: _Devices, queue: QueueKey, above: _Limit | None) -> _Limit | None:
    """Return the lowest limit on a product in a queue below others, and the name of the queue that sets it."""
    if usage.is_cohort(queue):
        return None
    resource, product = devices
    quotas = (quota for quota in usage.quotas(queue) if quota.resource == resource)
    amounts = [quota.limit for quota in quotas if _covers(quota.product, product)]
    known = [amount for amount in amounts if amount is not None]
    own = (sum(known), queue.name) if amounts and len(known) == len(amounts) else None
    return min((limit for limit in (own, above) if limit is not None), default=None)


def _covers(quota: str, product: str) -> bool:
    if is_slice(quota) or is_slice(product):
        return quota == product
    return not quota or not product or quota == product


def _maximum(evaluation: Evaluation, rule: str) -> tuple[int | None, Mapping[str, int]] | None:
    """Return a rule's `max` and `overrides`; None if it is disabled, not set, or malformed, which is an error."""
    setting = evaluation.settings.get(rule)
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
        evaluation.report_object(
            rule,
            ObjectKey(group=CONFIG[0], kind=CONFIG[1], namespace="", name=evaluation.cluster.name),
            setting.place,
            f"cannot be evaluated: its parameter {', '.join(wrong) or 'overrides'} is not a whole number of GPUs",
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
    is_number = type(value) is str and value.isascii() and value.isdecimal() and len(value) <= _MAX_DIGITS
    return int(value) if is_number else None


def _check_namespace_maximum(evaluation: Evaluation, workloads: Sequence[ObjectSummary], usage: QueueUsage) -> None:
    rule = "quota.max-gpus-per-namespace"
    maximum = _maximum(evaluation, rule)
    if maximum is None:
        return
    by_namespace: dict[str, list[ObjectSummary]] = {}
    for row in workloads:
        if not row.suspended:
            by_namespace.setdefault(row.namespace, []).append(row)
    for namespace, rows in sorted(by_namespace.items()):
        key = ObjectKey(group=NAMESPACE[0], kind=NAMESPACE[1], namespace="", name=namespace)
        _check_maximum(evaluation, rule, key, rows, usage.namespaces.get(namespace, 0), maximum)


def _check_queue_maximum(evaluation: Evaluation, by_queue: _Workloads, usage: QueueUsage) -> None:
    rule = "quota.max-gpus-per-queue"
    maximum = _maximum(evaluation, rule)
    if maximum is None:
        return
    requested: dict[QueueKey, Gpus] = {}
    for (queue, _), gpus in usage.requested.items():
        requested[queue] = exact(requested.get(queue, 0) + gpus)
    for queue in sorted(by_queue):
        rows = [row for row in by_queue[queue] if not row.suspended]
        if rows and queue != NO_QUEUE:
            key = ObjectKey(group=queue.group, kind=queue.kind, namespace="", name=queue.name)
            _check_maximum(evaluation, rule, key, rows, requested.get(queue, 0), maximum)


def _check_maximum(  # noqa: PLR0917 - the parts of one sum
    evaluation: Evaluation,
    rule: str,
    key: ObjectKey,
    rows: Sequence[ObjectSummary],
    gpus: Gpus,
    maximum: tuple[int | None, Mapping[str, int]],
) -> None:
    allowed = maximum[1].get(key.name, maximum[0])
    if allowed is None or gpus <= allowed:
        return
    largest = min(rows, key=lambda row: (-row.gpus, row.place))
    message = f"its workloads request {plural(gpus, 'GPU')}, but the maximum is {allowed}; the largest is"
    evaluation.report_object(
        rule,
        key,
        largest.place,
        f"{message} {largest.kind}/{largest.name} ({largest.gpus})",
        hint=f"suspend or shrink workloads, or raise spec.rules.{rule}.parameters",
    )
