"""`ObjectSummary`: the values that the rest of a plan needs to know of one rendered object."""

import msgspec

from reconciler.core.objects import ObjectKey, SourceRef


class Quota(msgspec.Struct, frozen=True, array_like=True):
    """GPUs a queue grants, per product (`""`: any). `None` means unlimited, as KAI's -1 does.

    Kueue grants per ResourceFlavor: there `product` is the flavor's name, and the flavor's own row tells its product.
    """

    product: str
    guaranteed: float | None
    limit: float | None


class Reference(msgspec.Struct, frozen=True, array_like=True):
    """Another object by kind and name, and the field that names it (in the rendered object)."""

    kind: str
    namespace: str
    name: str
    field: str


class Demand(msgspec.Struct, frozen=True, array_like=True):
    """`pods` pods that each ask for `gpus_per_pod` of one extended resource, on one product (`""`: any).

    Slices (`nvidia.com/mig-1g.10gb`, `nvidia.com/gpu.shared`) are counted as devices of their own: `product` is then
    the resource key, so that they never add up with whole GPUs.
    """

    resource: str
    product: str
    gpus_per_pod: int
    pods: int

    @property
    def gpus(self) -> int:
        """GPUs of all its pods."""
        return self.gpus_per_pod * self.pods


class ObjectSummary(msgspec.Struct, frozen=True, array_like=True):
    """What the rest of the plan needs to know of one rendered object."""

    cluster: str
    group: str
    kind: str
    namespace: str
    name: str
    path: str  # below the rendered folder
    digest: str  # of the written bytes: the Git blob id
    source: str  # path of the source file; empty for a row read from `rendered/`
    line: int
    column: int
    gpus: int = 0  # pods x GPUs a pod, when it runs
    gpus_per_pod: int = 0
    pods: int = 0
    product: str = ""  # the one GPU product its pods select; empty: any. Of a ResourceFlavor: what its nodes have
    vendor: str = ""  # resource key: nvidia.com/gpu, amd.com/gpu
    queue: str = ""  # KAI queue or Kueue LocalQueue its pods name
    suspended: bool = False
    parent: str = ""  # of a queue: KAI parent or Kueue cohort; of a LocalQueue: its ClusterQueue
    quotas: tuple[Quota, ...] = ()
    references: tuple[Reference, ...] = ()
    queue_kind: str = ""  # of `queue`: Queue (KAI) or LocalQueue (Kueue)
    demands: tuple[Demand, ...] = ()  # one for each shape of pod that asks for GPUs
    is_workload: bool = False  # it runs pods, now or when it is resumed

    @property
    def key(self) -> ObjectKey:
        """The object's identity."""
        return ObjectKey(group=self.group, kind=self.kind, namespace=self.namespace, name=self.name)

    @property
    def place(self) -> SourceRef:
        """Where the object was asked for."""
        return SourceRef(path=self.source or self.path, line=self.line, column=self.column)
