"""One row per rendered object: who it is, what GPUs it asks for, what it provides and what it refers to.

Cross-document rules and the GPU summary of a plan work on these rows alone, so that an unchanged object costs a row
and not a parse. The same function reads rows from what we render now and from what `rendered/` held before.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from reconciler.core.objects import ObjectKey, SourceRef


class Quota(msgspec.Struct, frozen=True, array_like=True):
    """GPUs a queue grants, per product (`""`: any). `None` means unlimited, as KAI's -1 does."""

    product: str
    guaranteed: float | None
    limit: float | None


class Reference(msgspec.Struct, frozen=True, array_like=True):
    """Another object by kind and name, and the field that names it (in the rendered object)."""

    kind: str
    namespace: str
    name: str
    field: str


class Row(msgspec.Struct, frozen=True, array_like=True):
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
    product: str = ""  # the one GPU product its pods select; empty: any
    vendor: str = ""  # resource key: nvidia.com/gpu, amd.com/gpu
    queue: str = ""  # KAI queue or Kueue LocalQueue its pods name
    suspended: bool = False
    parent: str = ""  # of a queue: KAI parent or Kueue cohort; of a LocalQueue: its ClusterQueue
    quotas: tuple[Quota, ...] = ()
    references: tuple[Reference, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """The object's identity."""
        return ObjectKey(group=self.group, kind=self.kind, namespace=self.namespace, name=self.name)

    @property
    def place(self) -> SourceRef:
        """Where the object was asked for."""
        return SourceRef(path=self.source or self.path, line=self.line, column=self.column)


def row(*, cluster: str, body: Mapping[str, Any], path: str, digest: str, source: SourceRef | None = None) -> Row:
    """Read the row of an object from its body alone, so that before and after are measured the same way."""
    raise NotImplementedError
