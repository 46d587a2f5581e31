"""`Borrowing`: the largest workload that each queue by flavor could admit if nothing else ran, as Kueue computes it.

A cohort pools what it and its members have, less what each of them does not lend. A member gets what it keeps to itself
and what the pool has, up to its borrowing limit (Kueue 0.16, pkg/cache/scheduler/resource_node.go, potentialAvailable).
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from reconciler.kinds.facts import Quota
from reconciler.kinds.kueue import CLUSTER_QUEUE, COHORT
from reconciler.kinds.terms import PodRequest, QueueTerms, ResourceGroup
from reconciler.queues.flavors import LABELS, NEWEST, Exclusion, Flavors, Version
from reconciler.queues.queues import QueueKey, QueueUsage
from reconciler.repo.config import Cluster

Cell = tuple[str, str]
"""A flavor and a resource."""

Amounts = dict[Cell, float]

_MAX_WORKLOADS = 1000  # of one object that are compared: further ones cost time


class Shortage(NamedTuple):
    """The reason for which pods fit no flavor of a queue.

    resource, gpus: what they request. flavor, largest: the flavor that has most of it; no flavor at all if it is empty.
    taken: what other pods of the workload take of it. excluded: why each of its flavors takes no such pods.
    """

    resource: str
    gpus: int
    flavor: str = ""
    largest: float = 0.0
    taken: float = 0.0
    excluded: tuple[Exclusion, ...] = ()

    @property
    def mismatches(self) -> tuple[str, ...]:
        """The flavors, if the nodes of all of them lack labels that the pods require."""
        is_all = all(one.reason == LABELS for one in self.excluded)
        return tuple(one.flavor for one in self.excluded) if is_all else ()


class Borrowing:
    """Computes limits; those of all queues are computed once.

    If the cluster has queues or cohorts that this repository lacks, only its own limit bounds a queue in a cohort.
    """

    def __init__(self, usage: QueueUsage, cluster: Cluster, version: Version = NEWEST) -> None:
        self._usage = usage
        self._flavors = Flavors(usage, version)
        self._is_complete = not any(cluster.has_external(kind) for _, kind in (CLUSTER_QUEUE, COHORT))

    def largest(self, queue: QueueKey) -> Amounts:
        """Return the most of each flavor and resource that a queue can use; empty in a cycle of cohorts.

        That of a cohort is what it can add to the quotas of its members.
        """
        quotas = self._quotas(queue)
        if not self._is_complete and self._usage.parent_of(queue) is not None:
            return {cell: inf if quota.limit is None else quota.limit for cell, quota in quotas.items()}
        available = self._available.get(queue)
        if available is None:
            return {}
        own = self._subtrees[queue]  # of a queue without members: its quota
        return {cell: (quota.guaranteed or 0.0) + available[cell] - own[cell] for cell, quota in quotas.items()}

    def quotas(self, queue: QueueKey) -> tuple[Quota, ...]:
        """Return the quotas of a queue by product. The limit of a queue by flavor is the most that it can use."""
        found = self._usage.quotas(queue)
        if self._usage.is_tree(queue):
            return found
        quotas = self._quotas(queue)
        limits = {quota.product: 0.0 for quota in found}
        for cell, amount in self.largest(queue).items():
            limits[self._usage.product_of_quota(quotas[cell])] += amount
        return tuple(replace(each, limit=_unless_infinite(limits[each.product])) for each in found)

    def shortage(self, queue: QueueKey, requests: Sequence[PodRequest], workloads: int = 1) -> Shortage | None:
        """Return why a queue never admits all of some equal workloads; None if it does.

        Pods of one template take one flavor. As Kueue's flavor assigner does, takes for each template the first flavor
        of a resource group that has enough.
        """
        largest, quotas = self.largest(queue), self._quotas(queue)
        offered = self._groups(queue)
        taken: Amounts = {}
        for request in (request for _ in range(min(workloads, _MAX_WORKLOADS)) for request in requests):
            groups: dict[int, dict[str, int]] = {}
            for resource, gpus in request.devices:
                group = next((quota.group for (_, name), quota in quotas.items() if name == resource), None)
                if group is None:
                    return Shortage(resource, gpus)
                groups.setdefault(group, {})[resource] = gpus
            for group, devices in groups.items():
                every, flavors = offered[group], offered[group].flavors
                excluded = [self._flavors.exclusion(flavor, every, request, offered) for flavor in flavors]
                matching = [flavor for flavor, reason in zip(flavors, excluded, strict=True) if reason is None]
                chosen = next((flavor for flavor in matching if _fits(flavor, devices, largest, taken)), None)
                if chosen is None:
                    return _shortage(devices, tuple(filter(None, excluded)), matching, largest, taken)
                for resource, gpus in devices.items():
                    taken[chosen, resource] = taken.get((chosen, resource), 0.0) + gpus
        return None

    def _groups(self, queue: QueueKey) -> tuple[ResourceGroup, ...]:
        row = self._usage.queues.get(queue)
        return row.terms.groups if row is not None and isinstance(row.terms, QueueTerms) else ()

    def _quotas(self, queue: QueueKey) -> dict[Cell, Quota]:
        row = self._usage.queues.get(queue)
        return {(quota.product, quota.resource): quota for quota in row.quotas} if row is not None else {}

    @cached_property
    def _subtrees(self) -> dict[QueueKey, Amounts]:
        """Return the quota of each queue or cohort with the members below it, less what these do not lend."""
        subtrees: dict[QueueKey, Amounts] = {}
        children = self._usage.children()
        for place in reversed(self._usage.from_roots()):
            subtrees[place] = self._pooled(place, {child: subtrees.get(child, {}) for child in children.get(place, ())})
        return subtrees

    @cached_property
    def _available(self) -> dict[QueueKey, Amounts | None]:
        """Return the quota that each queue or cohort could use; None in a cycle, and below one."""

        def available(place: QueueKey, above: Amounts | None) -> Amounts | None:
            if above is None:
                return self._subtrees[place] if self._usage.parent_of(place) is None else None
            return self._below(place, self._subtrees[place], above)

        return self._usage.from_above(available)

    def _pooled(self, place: QueueKey, members: Mapping[QueueKey, Amounts]) -> Amounts:
        """Add up what a queue or cohort has with the members below it, less what they do not lend."""
        amounts = {cell: quota.guaranteed or 0.0 for cell, quota in self._quotas(place).items()}
        for member, subtree in members.items():
            quotas = self._quotas(member)
            for cell, own in subtree.items():
                amounts[cell] = amounts.get(cell, 0.0) + own - _kept(quotas.get(cell), own)
        return amounts

    def _below(self, place: QueueKey, subtree: Amounts, above: Amounts) -> Amounts:
        """Return what a member could use of a cohort that could use `above`."""
        quotas = self._quotas(place)
        available: Amounts = {}
        for cell in {**above, **subtree}:
            quota, own = quotas.get(cell), subtree.get(cell, 0.0)
            available[cell] = _kept(quota, own) + above.get(cell, 0.0)
            if quota is not None and quota.limit is not None and quota.guaranteed is not None:
                available[cell] = min(own + quota.limit - quota.guaranteed, available[cell])
        return available


def _unless_infinite(amount: float) -> float | None:
    return None if amount == inf else amount


def _kept(quota: Quota | None, own: float) -> float:
    """Return what a member keeps to itself of what it has with the members below it."""
    return max(0.0, own - quota.lending) if quota is not None and quota.lending is not None else 0.0


def _fits(flavor: str, devices: Mapping[str, int], largest: Amounts, taken: Amounts) -> bool:
    return all(
        gpus + taken.get((flavor, resource), 0.0) <= largest.get((flavor, resource), 0.0)
        for resource, gpus in devices.items()
    )


def _shortage(
    devices: Mapping[str, int],
    excluded: tuple[Exclusion, ...],
    matching: Sequence[str],
    largest: Amounts,
    taken: Amounts,
) -> Shortage:
    """Describe a shortage by the resource that is short in the flavor that has most of it."""

    def missing(flavor: str) -> tuple[float, str]:
        left = {name: largest.get((flavor, name), 0.0) - taken.get((flavor, name), 0.0) for name in devices}
        return max((gpus - left[name], name) for name, gpus in devices.items())

    if not matching:
        resource, gpus = next(iter(devices.items()))
        return Shortage(resource, gpus, excluded=excluded)
    best = min(matching, key=missing)
    _, resource = missing(best)
    cell = (best, resource)
    return Shortage(resource, devices[resource], best, largest.get(cell, 0.0), taken.get(cell, 0.0))
