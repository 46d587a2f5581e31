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
from reconciler.kinds.summary import PodRequest
from reconciler.queues.queues import QueueKey, QueueUsage
from reconciler.repo.config import Cluster

Cell = tuple[str, str]
"""A flavor and a resource."""

Amounts = dict[Cell, float]

_MAX_WORKLOADS = 1000  # of one object that are compared: further ones cost time


class Shortage(NamedTuple):
    """The reason for which pods fit no flavor of a queue.

    resource, gpus: what they request. flavor, largest: the flavor that has most of it; no flavor at all if it is empty.
    taken: what other pods of the workload take of it. mismatches: flavors that have it, on nodes with other labels.
    """

    resource: str
    gpus: int
    flavor: str = ""
    largest: float = 0.0
    taken: float = 0.0
    mismatches: tuple[str, ...] = ()


class Borrowing:
    """Computes limits; those of all queues are computed once.

    If the cluster has queues or cohorts that this repository lacks, only its own limit bounds a queue in a cohort.
    """

    def __init__(self, usage: QueueUsage, cluster: Cluster) -> None:
        self._usage = usage
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
        taken: Amounts = {}
        for request in (request for _ in range(min(workloads, _MAX_WORKLOADS)) for request in requests):
            groups: dict[int, dict[str, int]] = {}
            for resource, gpus in request.devices:
                group = next((quota.group for (_, name), quota in quotas.items() if name == resource), None)
                if group is None:
                    return Shortage(resource, gpus)
                groups.setdefault(group, {})[resource] = gpus
            for group, devices in groups.items():
                flavors = dict.fromkeys(flavor for (flavor, _), quota in quotas.items() if quota.group == group)
                matching = self._matching(flavors, request.labels)
                chosen = next((flavor for flavor in matching if _fits(flavor, devices, largest, taken)), None)
                if chosen is None:
                    return _shortage(devices, flavors, matching, largest, taken)
                for resource, gpus in devices.items():
                    taken[chosen, resource] = taken.get((chosen, resource), 0.0) + gpus
        return None

    def _matching(self, flavors: Mapping[str, None], required: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
        """Return the flavors whose nodes have the labels that pods require.

        Kueue compares only labels that a flavor of the group has, and only those of flavors that exist.
        """
        nodes = {flavor: dict(self._usage.node_labels.get(flavor, ())) for flavor in flavors}
        keys = {key for labels in nodes.values() for key in labels}
        needs = [(key, values) for key, values in required if key in keys]
        return [flavor for flavor, labels in nodes.items() if all(labels.get(key) in values for key, values in needs)]

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
    devices: Mapping[str, int], flavors: Mapping[str, None], matching: Sequence[str], largest: Amounts, taken: Amounts
) -> Shortage:
    """Describe a shortage by the resource that is short in the flavor that has most of it."""

    def missing(flavor: str) -> tuple[float, str]:
        left = {name: largest.get((flavor, name), 0.0) - taken.get((flavor, name), 0.0) for name in devices}
        return max((gpus - left[name], name) for name, gpus in devices.items())

    if not matching:
        resource, gpus = next(iter(devices.items()))
        return Shortage(resource, gpus, mismatches=tuple(flavors))
    best = min(matching, key=missing)
    _, resource = missing(best)
    cell = (best, resource)
    return Shortage(resource, devices[resource], best, largest.get(cell, 0.0), taken.get(cell, 0.0))
