"""`ActiveQueues` (`evidence/<cluster>/queues.yaml`): the queues that running or waiting workloads use."""

from typing import Any

from msgspec import Struct

from reconciler.kube.objects import ObjectKey
from reconciler.kube.problems import Problem
from reconciler.kube.violations import foreign_cluster
from reconciler.kube.yaml import Document, write

KIND = "ActiveQueues"
_HEADER = b"# Queues that running or waiting workloads use. `reconciler observe` writes this file.\n"


class ActiveQueues(Struct, frozen=True, kw_only=True):
    """The queues of one cluster that are in use, sorted."""

    cluster: str
    queues: tuple[ObjectKey, ...] = ()
    document: Document | None = None


def parse_active_queues(document: Document, cluster: str) -> tuple[ActiveQueues | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted, for `cluster` (the folder it lies in)."""
    spec = document.data["spec"]
    problems = document.problems(foreign_cluster(spec, cluster))
    if problems:
        return None, problems
    queues = [
        ObjectKey(group=row["group"], kind=row["kind"], namespace=row.get("namespace", ""), name=row["name"])
        for row in spec.get("queues", ())
    ]
    return ActiveQueues(cluster=cluster, queues=tuple(sorted(queues)), document=document), ()


def write_active_queues(queues: ActiveQueues) -> bytes:
    """Write the evidence file. Equal queues give equal bytes."""
    entries = [
        {
            name: value
            for name, value in (("group", key.group), ("kind", key.kind), ("namespace", key.namespace))
            if value
        }
        | {"name": key.name}
        for key in queues.queues
    ]
    spec: dict[str, Any] = {"cluster": queues.cluster, "queues": entries}
    api_version = "gpureconciler.io/v1alpha1"
    return _HEADER + write(
        {"apiVersion": api_version, "kind": KIND, "metadata": {"name": queues.cluster}, "spec": spec}
    )
