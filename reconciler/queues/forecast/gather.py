"""From the queues of a plan and the evidence of use to the values of a forecast."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil

from msgspec.structs import replace

from reconciler.kinds.facts import QueueRole
from reconciler.kinds.kueue import PRIORITY_CLASS
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.terms import (
    CellQuota,
    CohortTerms,
    LimitTerms,
    PodRequest,
    PriorityTerms,
    QueuePolicies,
    QueueTerms,
)
from reconciler.kube.objects import ObjectKey
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.times import unix_time
from reconciler.queues.flavors import Flavors, Version
from reconciler.queues.forecast.values import (
    NEVER,
    TRY_NEXT,
    AdmissionPolicies,
    Cell,
    CellLimits,
    FairSharing,
    FlavorGroup,
    HeldQuota,
    PodSetAsk,
    QueuedWorkload,
    QueueNodeSpec,
)
from reconciler.queues.limit_ranges import LimitBounds, pod_total
from reconciler.queues.queues import QueueUsage
from reconciler.repo.evidence.usage import ADMITTED, RUNNING, WAITING, Usage, UsedPodSet, UsedWorkload

_STRICT = "StrictFIFO"
_MOST_COPIES = 100  # of one object that are forecast each by itself
Specs = tuple[list[QueueNodeSpec], list[QueueNodeSpec]]
"""Cohorts and ClusterQueues."""


def specs(usage: QueueUsage) -> Specs:
    """Return the cohorts and ClusterQueues of a cluster."""
    cohorts: list[QueueNodeSpec] = []
    queues: list[QueueNodeSpec] = []
    for key, row in usage.queues.items():
        terms = row.terms
        if isinstance(terms, CohortTerms):
            limits = _limits(terms.quotas, borrows=bool(row.parent))
            cohorts.append(QueueNodeSpec(name=key.name, parent=row.parent, limits=limits, weight=_weight(terms.weight)))
        elif row.queue_role is QueueRole.FLAVORED and isinstance(terms, QueueTerms):
            queues.append(
                QueueNodeSpec(
                    name=key.name,
                    parent=row.parent,
                    limits=_limits(terms.quotas, borrows=bool(row.parent)),
                    groups=tuple(FlavorGroup(frozenset(group.resources), group.flavors) for group in terms.groups),
                    policies=_policies(terms.policies),
                    weight=_weight(terms.weight),
                    is_stopped=bool(terms.stop),
                )
            )
    return cohorts, queues


def fair_sharing(usage: QueueUsage) -> FairSharing | None:
    """Return the fair sharing of a cluster: that by default, if a queue has a weight, which is for it alone."""
    rows = (row.terms for row in usage.queues.values())
    return FairSharing() if any(isinstance(one, QueueTerms | CohortTerms) and one.weight for one in rows) else None


def _limits(quotas: Iterable[CellQuota], *, borrows: bool) -> dict[Cell, CellLimits]:
    def amount(name: str, written: str) -> int | None:
        return whole(name, parse_quantity(written) or Fraction(0)) if written and borrows else None

    return {
        (one.flavor, one.resource): CellLimits(
            whole(one.resource, parse_quantity(one.nominal) or Fraction(0)),
            amount(one.resource, one.borrowing),
            amount(one.resource, one.lending),
        )
        for one in quotas
    }


def whole(resource: str, amount: Fraction) -> int:
    """Return an amount as Kueue counts it."""
    return ceil(amount * 1000) if resource == "cpu" else ceil(amount)


def _weight(written: str) -> float:
    return float(parse_quantity(written) or 0) if written else 1.0


def _policies(one: QueuePolicies) -> AdmissionPolicies:
    return AdmissionPolicies(
        within=one.within or NEVER,
        reclaim=one.reclaim or NEVER,
        borrow=one.borrow or NEVER,
        threshold=one.threshold,
        can_borrow=one.can_borrow,
        can_preempt=one.can_preempt or TRY_NEXT,
        preference=one.preference,
        is_strict=one.strategy == _STRICT,
    )


class Gatherer:
    """Turns workloads of one cluster into those of a forecast."""

    def __init__(self, usage: QueueUsage, version: Version) -> None:
        self._usage = usage
        self._flavors = Flavors(usage, version)
        ranges: dict[str, list[LimitTerms]] = {}
        for row in usage.deciding.values():
            if isinstance(row.terms, LimitTerms):
                ranges.setdefault(row.namespace, []).append(row.terms)
        self._bounds = {namespace: LimitBounds(found) for namespace, found in ranges.items()}

    def asked(self, row: ObjectSummary, name: str, created: float) -> Iterator[QueuedWorkload]:
        """Yield the workloads that Kueue makes of an object; none if its queue is no known ClusterQueue."""
        queue = self._usage.queue_of(row)
        known = self._usage.queues.get(queue)
        if known is None or not isinstance(known.terms, QueueTerms) or known.queue_role is not QueueRole.FLAVORED:
            return
        sets = tuple(
            self._pod_set(str(index), row.namespace, pods, known.terms)
            for index, pods in enumerate(row.pod_requests)
            if pods.pods + pods.spare
        )
        one = QueuedWorkload(name=name, queue=queue.name, priority=self.priority(row), created=created, sets=sets)
        yield one
        for copy in range(1, min(row.workloads, _MOST_COPIES)):
            yield replace(one, name=f"{name}#{copy}", created=created + copy / 1000)

    def priority(self, row: ObjectSummary) -> int:
        """Return the priority of a workload: that of its class, else that of its pods."""
        own, of_pods = row.queued_as
        found = self._usage.deciding.get((PRIORITY_CLASS, "", own)) if own else None
        if found is not None and isinstance(found.terms, PriorityTerms):
            return found.terms.value
        return 0 if own else self._usage.priorities.get(of_pods, 0)

    def _pod_set(self, name: str, namespace: str, pods: PodRequest, terms: QueueTerms) -> PodSetAsk:
        bounds = self._bounds.get(namespace)
        containers = [(one, (bounds or _NO_BOUNDS).requests(one)[0]) for one in pods.containers]
        each = pod_total(pods.overhead, containers)
        excluded = {
            flavor: reason.details or reason.reason
            for group in terms.groups
            for flavor in group.flavors
            if (reason := self._flavors.exclusion(flavor, group, pods, terms.groups)) is not None
        }
        requests = tuple((resource, whole(resource, amount)) for resource, amount in sorted(each.items()))
        total = pods.pods + pods.spare
        return PodSetAsk(name, total, requests, pods.pods if pods.spare else 0, tuple(excluded.items()))


_NO_BOUNDS = LimitBounds(())


def used(found: Usage, usage: QueueUsage) -> Iterator[tuple[UsedWorkload, QueuedWorkload]]:
    """Yield the workloads of the evidence that run, or wait, in a ClusterQueue of the repository."""
    queues = {key.name for key, row in usage.queues.items() if row.queue_role is QueueRole.FLAVORED}
    for one in found.workloads:
        queue = one.cluster_queue or _cluster_queue(one, usage)
        if queue in queues and one.state in (RUNNING, ADMITTED, WAITING):
            yield one, _asked(one, queue, found.observed_at)


def _cluster_queue(one: UsedWorkload, usage: QueueUsage) -> str:
    for (_, namespace, name), key in usage.aliases.items():
        if (namespace, name) == (one.namespace, one.queue):
            return key.name
    return ""


def _asked(one: UsedWorkload, queue: str, now: str) -> QueuedWorkload:
    sets = tuple(
        PodSetAsk(pods.name, pods.count, tuple(_requests(pods).items()), pods.min_count) for pods in one.pod_sets
    )
    running = None
    if one.state != WAITING:
        usage: dict[Cell, int] = {}
        for pods in one.pod_sets:
            for resource, amount in _requests(pods).items():
                flavor = pods.flavors.get(resource)
                if flavor is not None:
                    usage[flavor, resource] = usage.get((flavor, resource), 0) + amount * pods.count
        running = HeldQuota(tuple(usage.items()), unix_time(one.admitted_at or one.started_at or now))
    return QueuedWorkload(
        name=name_of(one.key),
        queue=queue,
        priority=one.priority,
        created=unix_time(one.created_at or now),
        sets=sets,
        running=running,
    )


def name_of(key: ObjectKey) -> str:
    """Return the name of a workload in a forecast: its identity."""
    return f"{key.namespace}/{key.kind}/{key.name}"


def _requests(pods: UsedPodSet) -> Mapping[str, int]:
    return {name: whole(name, parse_quantity(amount) or Fraction(0)) for name, amount in sorted(pods.requests.items())}
