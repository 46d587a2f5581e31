"""`ActiveQueues` (`evidence/<cluster>/queues.yaml`): the queues that running or waiting workloads use."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from reconciler.core.documents import Document, write
from reconciler.core.objects import ObjectKey, format_path
from reconciler.core.problems import Problem

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
    problems = tuple(_problems(document, spec, cluster))
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


def _problems(document: Document, spec: dict[str, Any], cluster: str) -> Iterator[Problem]:
    if spec.get("cluster", cluster) != cluster:
        yield Problem(
            rule="evidence.cluster",
            place=document.at(("spec", "cluster")),
            field=format_path(("spec", "cluster")),
            message=f"is {spec['cluster']!r}, but the file is in the folder of cluster {cluster!r}",
            hint="move the file or correct the name",
        )
