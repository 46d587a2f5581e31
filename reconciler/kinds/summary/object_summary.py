"""`ObjectSummary`: the values that the rest of a plan needs to know of one rendered object."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from reconciler.kinds.facts import NO_KIND, KindId, QueueRole, Quota, Reference, Scale
from reconciler.kinds.quantities import Gpus, exact, total
from reconciler.kinds.terms import PodRequest, Refused, Terms
from reconciler.kube.objects import ObjectKey, SourceRef


class Demand(msgspec.Struct, frozen=True, array_like=True):
    """`pods` pods that each request `gpus_per_pod` of one extended resource, on one product (`""`: any).

    Slices (`nvidia.com/mig-1g.10gb`, `nvidia.com/gpu.shared`) are devices of their own: `product` is then the resource
    key, so that they are never added to whole GPUs. An elastic workload starts without `spare` of the pods. `least` and
    `most` are how few and how many of them may run; None: as many as `pods`.
    """

    resource: str
    product: str
    gpus_per_pod: Gpus
    pods: int
    spare: int = 0
    least: int | None = None
    most: int | None = None

    @property
    def gpus(self) -> Gpus:
        """GPUs of all its pods."""
        return exact(self.gpus_per_pod * self.pods)

    @property
    def least_gpus(self) -> Gpus:
        """GPUs of the pods that it starts with."""
        return exact(self.gpus_per_pod * (self.pods - self.spare))

    @property
    def bounds(self) -> tuple[Gpus, Gpus]:
        """GPUs of the fewest and of the most pods that may run."""
        least, most = (self.pods if pods is None else pods for pods in (self.least, self.most))
        fewest = min(least, self.pods - self.spare)
        return exact(self.gpus_per_pod * fewest), exact(self.gpus_per_pod * most)


def add_demands(demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Return one demand for each shape of pod, with the pods of all demands of this shape."""
    shapes: dict[tuple[str, str, Gpus], Demand] = {}
    for one in demands:
        shape = (one.resource, one.product, one.gpus_per_pod)
        other = shapes.get(shape)
        shapes[shape] = one if other is None else _sum(other, one)
    return tuple(shapes.values())


def _sum(one: Demand, other: Demand) -> Demand:
    def both(first: int | None, second: int | None) -> int | None:
        if first is None and second is None:
            return None
        return (one.pods if first is None else first) + (other.pods if second is None else second)

    return replace(
        one,
        pods=one.pods + other.pods,
        spare=one.spare + other.spare,
        least=both(one.least, other.least),
        most=both(one.most, other.most),
    )


class Need(msgspec.Struct, frozen=True, array_like=True):
    """Devices that another object says (`kinds.summary.providers`): `pods` pods request what it provides.

    kinds: what it may be, in order; field: the field that names it.
    adds: its devices are added to those of the pods; else they count instead of `own`, if these are none.
    sets_pods: it says how many pods there are. is_optional: nothing is missing from the count without it.
    each: how many of what it provides each pod requests.
    own: what each of the pods requests itself: resource, product, devices.
    least, most: how few and how many of the pods may run; None: as many as `pods`.
    """

    kinds: tuple[KindId, ...]
    namespace: str
    name: str
    field: str
    pods: int
    adds: bool = False
    sets_pods: bool = False
    is_optional: bool = False
    own: tuple[tuple[str, str, Gpus], ...] = ()
    least: int | None = None
    most: int | None = None
    each: int = 1


class Bare(msgspec.Struct, frozen=True, array_like=True):
    """Pods of one template as far as a LimitRange adds devices to them: to each container that names none.

    stated: devices that containers name, and how many of them. product: the GPU product that the pods select.
    """

    pods: int
    containers: int
    product: str = ""
    stated: tuple[tuple[str, int], ...] = ()
    least: int | None = None
    most: int | None = None


class Uncounted(msgspec.Struct, frozen=True, array_like=True):
    """Pods or devices that no figure includes: the field, and what is not known."""

    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.what} at {self.field or 'the object'}"


class NodeMatch(msgspec.Struct, frozen=True, array_like=True):
    """The nodes that pods may run on: labels with the values allowed; tolerations as key, operator, value, effect."""

    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()


class ObjectSummary(msgspec.Struct, frozen=True, array_like=True):
    """The record of one rendered object in a plan."""

    cluster: str
    group: str
    kind: str
    namespace: str
    name: str
    path: str  # below the rendered folder
    digest: str  # of the written bytes: the Git blob id
    source: str  # path of the source file; empty for an object read from `rendered/`
    line: int
    column: int
    gpus: Gpus = 0  # pods x GPUs per pod, when it runs
    gpus_per_pod: Gpus = 0
    pods: int = 0
    product: str = ""  # the GPU product that all its pods select; empty: any. Of a flavor: that of its nodes
    vendor: str = ""  # resource key: nvidia.com/gpu, amd.com/gpu
    queue: str = ""  # name of the queue that its pods name
    suspended: bool = False
    parent: str = ""  # of a queue: the queue above it; of an alias: the queue it stands for
    quotas: tuple[Quota, ...] = ()
    references: tuple[Reference, ...] = ()
    queue_kind: KindId = NO_KIND  # of `queue`
    demands: tuple[Demand, ...] = ()  # one for each shape of pod that requests GPUs
    is_workload: bool = False  # it runs pods, now or once it is resumed
    queue_role: QueueRole = QueueRole.NONE  # of a queue or flavor: its own; of a workload: that of `queue`
    parent_kind: KindId = NO_KIND  # of `parent`
    finished: bool = False  # a job that has ended: it requests nothing, and is never applied
    needs: tuple[Need, ...] = ()
    uncounted: tuple[Uncounted, ...] = ()
    provides: bool = False  # it runs no pods: `demands` are those of each object that names it, `pods` their pods
    pod_requests: tuple[PodRequest, ...] = ()  # of one workload whose queue grants GPUs by flavor
    workloads: int = 1  # that such a queue makes of it, all alike
    on_nodes: NodeMatch | None = None  # of a DaemonSet: where it runs a pod
    priority: int | None = None  # of a priority class: its value
    priority_class: str = ""  # of a workload in a queue of KAI: what decides its priority
    preemptibility: str = ""  # of a workload in a queue of KAI: what it says itself
    gpu_hours: float = 0.0  # of a sized job whose whole run is known: what it takes; 0: unknown
    requests: tuple[str, ...] = ()  # resources of which the pods of a workload in a queue by flavor request any amount
    stated: tuple[str, ...] | None = None  # those that all containers of these pods state; None: it starts none
    resources: tuple[str, ...] = ()  # of a queue by flavor: what it covers; of a LimitRange: what containers request
    refused: tuple[Refused, ...] = ()  # of a workload in such a queue: why the webhooks of Kueue refuse it
    pod_sets: int = 0  # how many templates such a workload has there
    terms: Terms | None = None  # of what decides whether such workloads are admitted
    provided_as: str = ""  # what pods name it by, if not by its name
    defaults: tuple[tuple[str, int], ...] = ()  # of a LimitRange: devices that it adds to a container without any
    bare: tuple[Bare, ...] = ()  # of a workload: pods to which a LimitRange may add devices
    given: tuple[str, ...] = ()  # of a workload: what a LimitRange adds, in words
    scale: Scale | None = None  # of an autoscaler
    offered_again: tuple[tuple[str, int], ...] = ()  # of a device plugin's configuration: resources, and how often
    replicas: int = 1  # of a workload that an autoscaler may scale: how many copies it says
    labels: tuple[tuple[str, str], ...] = ()  # of a workload with GPUs, and of its first pods: who is charged
    spot: bool = False  # all its pods ask for nodes that a cloud may take back
    hours: float = 0.0  # that it runs, as `length` says; 0: unknown
    length: str = ""  # the field that says so: an estimate, or a limit
    volume: tuple[str, int] | None = None  # of a claim: its storage class, empty: the default; and the bytes
    queued_as: tuple[str, str] = ("", "")  # of a workload in a queue by flavor: its priority class, that of its pods

    @property
    def key(self) -> ObjectKey:
        """The object's identity."""
        return ObjectKey(group=self.group, kind=self.kind, namespace=self.namespace, name=self.name)

    @property
    def least_gpus(self) -> Gpus:
        """GPUs that it starts with: all of them, unless it is elastic."""
        return total(demand.least_gpus for demand in self.demands)

    @property
    def gpu_range(self) -> tuple[Gpus, Gpus] | None:
        """The fewest and the most GPUs that its pods may request; None where these are `gpus`."""
        bounds = [demand.bounds for demand in self.demands]
        found = total(least for least, _ in bounds), total(most for _, most in bounds)
        return None if self.provides or found == (self.gpus, self.gpus) else found

    @property
    def place(self) -> SourceRef:
        """The place in the source that the object is rendered from."""
        return SourceRef(path=self.source or self.path, line=self.line, column=self.column)
