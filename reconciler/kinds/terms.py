"""The terms on which Kueue admits workloads, as summaries keep them: those of pods, queues, flavors and namespaces."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.values import mapping, sequence, text

Toleration = tuple[str, str, str, str]
"""Key, operator, value and effect."""

Amounts = tuple[tuple[str, str], ...]
"""Resources, each with a quantity."""


class LabelRequirement(Struct, frozen=True, array_like=True):
    """A requirement on labels, as selectors and affinities write it."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class TopologyRequest(Struct, frozen=True, array_like=True):
    """The annotations of pods about the topology.

    mode: `required`, `preferred` or `unconstrained`; empty where only slices are requested. level: the label of it.
    slices: levels and sizes, from the outermost; all pods of a slice are in one domain of its level.
    is_off: `unconstrained: "false"`, which requests a topology without a level.
    """

    mode: str = ""
    level: str = ""
    slices: tuple[tuple[str, int], ...] = ()
    is_off: bool = False


class ContainerRequest(Struct, frozen=True, array_like=True):
    """The resources of a container; those of all its pod have the field `resources`."""

    field: str
    requests: Amounts = ()
    limits: Amounts = ()
    is_first: bool = False  # an init container that ends before the others start


class PodRequest(Struct, frozen=True, array_like=True):
    """The pods of one template in a workload, in a queue that grants GPUs by flavor.

    devices: extended resources and their number, of all first pods together. pods: how many there are at first, and
    `spare` how many more it wants.
    selector: labels that nodes need; terms: alternatives of requirements on them. field: the prefix of the template.
    """

    devices: tuple[tuple[str, int], ...] = ()
    pods: int = 0
    field: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[LabelRequirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: TopologyRequest | None = None
    containers: tuple[ContainerRequest, ...] = ()
    overhead: Amounts = ()
    spare: int = 0


class Refused(Struct, frozen=True, array_like=True):
    """A field for which a webhook of Kueue refuses a new workload: why, and in which versions (`0.since` to `0.until`).

    hint: what to change.
    """

    field: str
    message: str
    hint: str
    since: int = 0
    until: int = 99


class ResourceGroup(Struct, frozen=True, array_like=True):
    """Resources of a ClusterQueue that come from the same flavor, and these flavors in the order of the attempts."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class CellQuota(Struct, frozen=True, array_like=True):
    """The quota of a flavor for any resource, as it is written; an empty limit is none."""

    flavor: str
    resource: str
    nominal: str
    borrowing: str = ""
    lending: str = ""


class QueuePolicies(Struct, frozen=True, array_like=True):
    """The policies of a ClusterQueue: its order, whom it preempts, and how it chooses flavors. Empty: the default.

    threshold: the greatest priority that is preempted while borrowing; None: any. by_usage: the past usage of
    LocalQueues decides on the order (admission fair sharing).
    """

    strategy: str = ""
    within: str = ""
    reclaim: str = ""
    borrow: str = ""
    threshold: int | None = None
    can_borrow: str = ""
    can_preempt: str = ""
    preference: str = ""
    by_usage: bool = False


class QueueTerms(Struct, frozen=True, array_like=True, tag="queue"):
    """The terms of a ClusterQueue or LocalQueue.

    stop: its `stopPolicy`, unless it admits workloads. namespaces: requirements on their labels; None: no namespace.
    checks: admission checks, each with the flavors that it is for; empty: all of them.
    quotas: of all resources. weight: that of fair sharing; empty: 1.
    """

    stop: str = ""
    namespaces: tuple[LabelRequirement, ...] | None = ()
    groups: tuple[ResourceGroup, ...] = ()
    checks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    quotas: tuple[CellQuota, ...] = ()
    policies: QueuePolicies = QueuePolicies()
    weight: str = ""


class CohortTerms(Struct, frozen=True, array_like=True, tag="cohort"):
    """The terms of a cohort: its own quotas, and its weight in fair sharing."""

    quotas: tuple[CellQuota, ...] = ()
    weight: str = ""


class TreeTerms(Struct, frozen=True, array_like=True, tag="tree"):
    """The terms of a queue of KAI: its weight beyond its quota, and its priority among its siblings."""

    weight: float = 0.0
    priority: int = 100


class PriorityTerms(Struct, frozen=True, array_like=True, tag="priority"):
    """The value of a WorkloadPriorityClass."""

    value: int


class FlavorTerms(Struct, frozen=True, array_like=True, tag="flavor"):
    """The terms of a ResourceFlavor: labels and taints of its nodes, what Kueue lets pods tolerate, its Topology."""

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()  # key, value, effect
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""


class TopologyTerms(Struct, frozen=True, array_like=True, tag="topology"):
    """The levels of a Topology, from the widest: labels of nodes."""

    levels: tuple[str, ...]


class CheckTerms(Struct, frozen=True, array_like=True, tag="check"):
    """The controller of an AdmissionCheck."""

    controller: str


class NamespaceTerms(Struct, frozen=True, array_like=True, tag="namespace"):
    """The labels of a Namespace."""

    labels: tuple[tuple[str, str], ...]


class LimitTerms(Struct, frozen=True, array_like=True, tag="limits"):
    """The items of a LimitRange: type, field, resource and amount."""

    items: tuple[tuple[str, str, str, str], ...]


Terms = (
    QueueTerms
    | CohortTerms
    | TreeTerms
    | PriorityTerms
    | FlavorTerms
    | TopologyTerms
    | CheckTerms
    | NamespaceTerms
    | LimitTerms
)


def texts(values: Any) -> tuple[tuple[str, str], ...]:
    """Return a mapping of texts as pairs, sorted by key."""
    return tuple(sorted((key, value) for key, value in mapping(values).items() if type(key) is type(value) is str))


def tolerations(values: Any) -> tuple[Toleration, ...]:
    """Return a list of tolerations."""
    found = (tuple(text(one.get(name)) for name in _TOLERATION) for one in map(mapping, sequence(values)))
    return tuple((key, operator, value, effect) for key, operator, value, effect in found)


_TOLERATION = ("key", "operator", "value", "effect")


def requirements(values: Any) -> Iterator[LabelRequirement]:
    """Yield `matchExpressions`."""
    for one in map(mapping, sequence(values)):
        allowed = tuple(text(value) for value in sequence(one.get("values")))
        yield LabelRequirement(text(one.get("key")), text(one.get("operator")), allowed)


def selector(value: Any) -> tuple[LabelRequirement, ...] | None:
    """Return the requirements of a label selector; None if there is none, which selects nothing."""
    if type(value) is not dict:
        return None
    named = (LabelRequirement(key, "In", (allowed,)) for key, allowed in texts(value.get("matchLabels")))
    return (*named, *requirements(value.get("matchExpressions")))


def satisfies(one: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy a requirement of a label selector or a node affinity."""
    value = labels.get(one.key)
    if one.operator == "In":
        return value in one.values
    if one.operator == "NotIn":
        return value is None or value not in one.values
    if one.operator in ("Gt", "Lt"):
        numbers = [_number(each) for each in (value, *one.values)]
        if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:  # noqa: PLR2004 - a value and its bound
            return False
        return numbers[0] > numbers[1] if one.operator == "Gt" else numbers[0] < numbers[1]
    return (value is not None) == (one.operator == "Exists")


def _number(value: str | None) -> int | None:
    try:
        return int(value or "")
    except ValueError:
        return None


def tolerates(one: Toleration, taint: tuple[str, str, str]) -> bool:
    """Return whether a toleration tolerates a taint: key, value, effect."""
    key, operator, value, effect = one
    is_meant = effect in ("", taint[2]) and (key == taint[0] or (not key and operator == "Exists"))
    if operator in ("Gt", "Lt"):
        return is_meant and satisfies(LabelRequirement(key, operator, (value,)), {key: taint[1]})
    return is_meant and (operator == "Exists" or value == taint[1])
