"""The facts that the functions of a `Kind` return about an object: pods, quotas, references, its role in queueing."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.kinds.terms import Terms

Body = Mapping[str, Any]
"""A Kubernetes object as plain data."""

KindId = tuple[str, str]
"""API group and kind, e.g. `("batch", "Job")`; the group of the core API is empty."""

NO_KIND: KindId = ("", "")


class PodProvider(NamedTuple):
    """Another object that says what a pod requests, and the field that names it.

    kinds: what it may be, in the order in which the controller looks.
    adds: its devices are added to those of the pod; else they count only if the pod requests none.
    sets_pods: it says how many pods there are, too.
    is_optional: nothing is missing from the count if the repository lacks it.
    each: how many of what it provides a pod requests.
    """

    kinds: tuple[KindId, ...]
    name: str
    field: str
    adds: bool = False
    sets_pods: bool = False
    is_optional: bool = False
    each: int = 1


class PodSet(NamedTuple):
    """Pods of one template. `prefix` is the field path of the template with a trailing dot, or empty for a bare Pod.

    provider: another object that says what the pods request.
    unknown: what the object does not say, so that it cannot be counted.
    least, most: how few and how many pods an autoscaler or the workload itself may run; None: as many as `replicas`.
    spare: how many of the pods an elastic workload starts without.
    """

    replicas: int
    template: dict[str, Any]
    prefix: str
    provider: PodProvider | None = None
    unknown: str = ""
    least: int | None = None
    most: int | None = None
    spare: int = 0

    def times(self, number: int) -> "PodSet":
        """Return the same pods as often as this."""
        least = None if self.least is None else self.least * number
        most = None if self.most is None else self.most * number
        return self._replace(replicas=self.replicas * number, least=least, most=most, spare=self.spare * number)


class Quota(Struct, frozen=True, array_like=True):
    """GPUs that a queue grants for one product (`""`: any). None is unlimited.

    Kueue grants per ResourceFlavor and resource: there `product` is the name of the flavor, whose own summary has the
    product. `lending` is how much of it the other members of a cohort may use, and all pods of a pod set take one
    flavor of each `group`.
    """

    product: str
    guaranteed: float | None
    limit: float | None
    resource: str = ""
    lending: float | None = None
    group: int = 0


class Scale(Struct, frozen=True, array_like=True):
    """The object of the same namespace whose copies an autoscaler sets, and how few and how many it allows.

    starts: whether it also starts copies of an object that has none.
    """

    target: KindId
    name: str
    least: int
    most: int
    starts: bool = False


class Reference(Struct, frozen=True, array_like=True):
    """Another object, and the field of the rendered object that names it. `namespace` is empty for cluster scope.

    writes: the folders of a claim that pods write to, each a `subPath`; an empty one is all of the claim.
    """

    group: str
    kind: str
    namespace: str
    name: str
    field: str
    writes: tuple[str, ...] = ()


class QueueName(NamedTuple):
    """The queue that a workload names by a field of its own: kind and name of the queue, and the field."""

    kind: KindId
    name: str
    field: str


class QueueRole(StrEnum):
    """The part that an object takes in queueing."""

    NONE = ""
    TREE = "tree"  # has one quota, of any product; its parent is of its kind and bounds its children (KAI, Volcano)
    FLAVORED = "flavored"  # grants GPUs by flavor, and shares within a cohort (Kueue's ClusterQueue)
    COHORT = "cohort"  # adds its quota to that of its members, and never bounds them
    ALIAS = "alias"  # a namespaced name for another queue (Kueue's LocalQueue)
    FLAVOR = "flavor"  # nodes of one product
    CHECK = "check"  # decides besides the quota; with a parent, it sends workloads to other clusters (MultiKueue)


class Relations(Struct, frozen=True, kw_only=True):
    """The grants and references of an object without pods.

    `parent` is the name of a queue above it, of `parent_kind`. `product` is the GPU product of a flavor's nodes.
    `priority` is the value of a priority class. `resources` are those that a queue by flavor covers, or that a
    LimitRange lets containers request by default, and `defaults` the devices among the latter. `scale` is what an
    autoscaler sets. `terms` decide whether workloads in such a queue are admitted.
    `offered_again` are resources that nodes offer several times for each device, and how often. `volume` is the
    storage class of a claim, empty for the default, and the bytes that it requests.
    """

    parent_kind: KindId = NO_KIND
    parent: str = ""
    quotas: tuple[Quota, ...] = ()
    references: tuple[Reference, ...] = ()
    product: str = ""
    priority: int | None = None
    resources: tuple[str, ...] = ()
    terms: Terms | None = None
    defaults: tuple[tuple[str, int], ...] = ()
    scale: Scale | None = None
    offered_again: tuple[tuple[str, int], ...] = ()
    volume: tuple[str, int] | None = None


class Users(Struct, frozen=True, kw_only=True):
    """The live objects that run in an object, such as the pods of a queue: it must not be deleted while there are any.

    labels: selectors, each of which finds some of them; empty: all objects of the kind in the namespace.
    runs: whether one of these objects runs in it.
    """

    kind: KindId
    namespace: str = ""
    labels: tuple[str, ...] = ("",)
    runs: Callable[[Body], bool]


class Deletion(Struct, frozen=True, kw_only=True):
    """The risk of deleting an object: rule id, what the object is, what follows, and what to do first.

    names_users: the message counts the objects that still refer to it.
    users: how to find the live objects that run in it, and keep it from being deleted.
    """

    rule: str
    noun: str
    effect: str = ""
    hint: str
    names_users: bool = False
    users: Callable[[Body], Users] | None = None


QUEUE_DELETION = Deletion(
    rule="risk.queue-delete",
    noun="queue",
    hint="drain it first, or move its workloads to another queue",
    names_users=True,
)


class Loss(Struct, frozen=True, kw_only=True):
    """Something that a change or deletion of an object takes from its users, and that a revert does not give back."""

    rule: str
    message: str
    hint: str


class Controlled(Struct, frozen=True, kw_only=True):
    """Fields that a controller writes after people did: an apply leaves their values, and they are never drift.

    path: `*` stands for each key and each item.
    by: the controller. source: where that is written, in words.
    when: the condition in words, and `applies` as a function of the live object; empty: always.
    adds: the controller adds to what people wrote; else the whole value is its own. key: the field by which a server
    merges the items of such a list.
    """

    path: tuple[str, ...]
    by: str
    source: str
    when: str = ""
    applies: Callable[[Body], bool] = lambda _: True
    adds: bool = False
    key: str = ""


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason for which a kind is not accepted among the sources."""

    rule: str
    message: str
    hint: str
