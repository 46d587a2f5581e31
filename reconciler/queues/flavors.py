"""The flavors that Kueue tries for pods: their labels, taints and topology (pkg/scheduler/flavorassigner)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reconciler.kinds.kueue import RESOURCE_FLAVOR, TOPOLOGY
from reconciler.kinds.terms import (
    FlavorTerms,
    LabelRequirement,
    PodRequest,
    ResourceGroup,
    TopologyRequest,
    TopologyTerms,
    satisfies,
    tolerates,
)
from reconciler.kube.values import enumerated
from reconciler.queues.queues import QueueUsage

Version = tuple[int, int]
"""Major and minor version of Kueue."""

NEWEST: Version = (0, 19)
_OWN_KEYS: Version = (0, 18)
"""The first version that compares each flavor with the labels that it has itself, not all flavors of its group."""
_QUOTA_ONLY: Version = (0, 17)
"""The first version in which a flavor without a topology may grant what pods with a topology do not request."""
LABELS, TAINT, LEVEL = "labels", "taint", "topology"


def version_of(text: str) -> Version:
    """Return a version such as 0.19.1; the newest known one if the text is none."""
    major, _, rest = text.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else NEWEST


class Exclusion(NamedTuple):
    """The reason for which a flavor does not take pods: `labels`, `taint` or `topology`, and details for people."""

    flavor: str
    reason: str
    details: str = ""


class Flavors:
    """The flavors of a cluster, as a version of Kueue compares them with pods."""

    def __init__(self, usage: QueueUsage, version: Version = NEWEST) -> None:
        self._usage, self._version = usage, version

    def terms(self, flavor: str) -> FlavorTerms | None:
        """Return the terms of a flavor; None if the repository lacks it."""
        row = self._usage.deciding.get((RESOURCE_FLAVOR, "", flavor))
        return row.terms if row is not None and isinstance(row.terms, FlavorTerms) else None

    def levels(self, flavor: str) -> tuple[str, ...] | None:
        """Return the levels of the Topology of a flavor; None if it has none, or the repository lacks it."""
        terms = self.terms(flavor)
        row = self._usage.deciding.get((TOPOLOGY, "", terms.topology)) if terms is not None else None
        return row.terms.levels if row is not None and isinstance(row.terms, TopologyTerms) else None

    def exclusion(
        self, flavor: str, group: ResourceGroup, pods: PodRequest, groups: Sequence[ResourceGroup]
    ) -> Exclusion | None:
        """Return why a flavor of a resource group of a queue with these groups does not take pods; None if it does.

        A flavor that the repository lacks takes them: nothing is known of it.
        """
        terms = self.terms(flavor)
        if terms is None:
            return None
        if details := self._topology(flavor, terms, group, pods, groups):
            return Exclusion(flavor, LEVEL, details)
        allowed = (*pods.tolerations, *terms.tolerations)
        for taint in terms.taints:
            if not any(tolerates(one, taint) for one in allowed):
                key, value, effect = taint
                return Exclusion(flavor, TAINT, f"{key}={value}:{effect}" if value else f"{key}:{effect}")
        labels = dict(terms.labels)
        keys = {*labels} if self._version >= _OWN_KEYS else self._keys(group.flavors)
        if (missing := _missing(pods, labels, keys)) is not None:
            return Exclusion(flavor, LABELS, missing)
        return None

    def uses_topology(self, pods: PodRequest, groups: Sequence[ResourceGroup]) -> bool:
        """Return whether Kueue looks for nodes: pods ask for it, or all flavors of the queue have a topology."""
        return pods.topology is not None or self._is_implied(groups)

    def has_several(self, groups: Sequence[Sequence[str]]) -> bool:
        """Return whether pods that look for nodes need two flavors with a topology, of these flavors by group.

        Before 0.17 they must have one flavor for all their resources.
        """
        if self._version < _QUOTA_ONLY:
            return len(groups) > 1
        terms = [[self.terms(name) for name in names] for names in groups]
        return sum(all(one is not None and bool(one.topology) for one in group) for group in terms) > 1

    def _is_implied(self, groups: Sequence[ResourceGroup]) -> bool:
        names = [flavor for group in groups for flavor in group.flavors]
        found = [self.terms(name) for name in names]
        return bool(found) and all(terms is not None and bool(terms.topology) for terms in found)

    def _topology(
        self,
        flavor: str,
        terms: FlavorTerms,
        group: ResourceGroup,
        pods: PodRequest,
        groups: Sequence[ResourceGroup],
    ) -> str:
        """Return why a flavor does not have the topology that pods request; empty if it does."""
        if pods.topology is None:
            only = bool(terms.topology) and not self._is_implied(groups)
            return "only for pods that request a topology" if only else ""
        if not terms.topology:
            requested = {name for one in pods.containers for name, _ in (*one.requests, *one.limits)}
            is_needed = self._version < _QUOTA_ONLY or not requested.isdisjoint(group.resources)
            return "no topologyName" if is_needed else ""
        levels = self.levels(flavor)
        if levels is None:
            return ""
        wanted = requested_levels(pods.topology, levels)
        if wanted is None:
            return "the pods request no level"
        missing = [level for level in wanted if level not in levels]
        return f"no level {missing[0]} in Topology {terms.topology}" if missing else ""

    def _keys(self, flavors: Iterable[str]) -> set[str]:
        return {key for name in flavors if (terms := self.terms(name)) for key, _ in terms.labels}


def requested_levels(request: TopologyRequest, levels: Sequence[str]) -> tuple[str, ...] | None:
    """Return the levels that pods request: first that of all pods, then those of slices; None if they name none."""
    slices = tuple(level for level, _ in request.slices)
    if request.level:
        return (request.level, *slices)
    if slices:
        return (levels[0], *slices)
    return None if request.is_off else (levels[-1],)


def _missing(pods: PodRequest, labels: Mapping[str, str], keys: set[str]) -> str | None:
    """Return the labels that pods require and a flavor lacks; None if there are none. Only these keys count."""
    wrong = [f"{key}={value}" for key, value in pods.selector if key in keys and labels.get(key) != value]
    if wrong:
        return enumerated(wrong)
    terms = [[one for one in term if one.key in keys] for term in pods.terms]
    if not terms or not all(terms) or any(all(satisfies(one, labels) for one in term) for term in terms):
        return None
    return " or ".join(dict.fromkeys(_words(one) for term in terms for one in term if not satisfies(one, labels)))


def _words(one: LabelRequirement) -> str:
    return f"{one.key} {one.operator} {', '.join(one.values)}".rstrip()
