"""One row per rendered object: who it is, what GPUs it asks for, what it provides and what it refers to.

Cross-document rules and the GPU summary of a plan work on these rows alone, so that an unchanged object costs a row
and not a parse. The same function reads rows from what we render now and from what `rendered/` held before.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.core.objects import SourceRef, split_api_version
from reconciler.core.summary.object_summary import Demand, ObjectSummary, Quota, Reference
from reconciler.core.summary.pods import KAI_QUEUE_LABELS, KUEUE_QUEUE_LABEL, PodReading, mapping, read_pod, text
from reconciler.core.summary.queues import CAPACITY_KINDS, read_capacity
from reconciler.core.summary.workloads import Workload, read_workload

__all__ = ["Demand", "ObjectSummary", "Quota", "Reference", "summarize"]

_KUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


def summarize(
    *, cluster: str, body: Mapping[str, Any], path: str, digest: str, source: SourceRef | None = None
) -> ObjectSummary:
    """Read the row of an object from its body alone, so that before and after are measured the same way.

    Never raises: what is missing or of a wrong type counts as absent, because the schemas report it elsewhere.
    """
    metadata = mapping(body.get("metadata"))
    group, _ = split_api_version(text(body.get("apiVersion")))
    kind, namespace = text(body.get("kind")), text(metadata.get("namespace"))
    identity: dict[str, Any] = {
        "cluster": cluster,
        "group": group,
        "kind": kind,
        "namespace": namespace,
        "name": text(metadata.get("name")),
        "path": path,
        "digest": digest,
        "source": source.path if source else "",
        "line": source.line if source else 0,
        "column": source.column if source else 0,
    }
    spec = mapping(body.get("spec"))
    if (group, kind) in CAPACITY_KINDS:
        return ObjectSummary(**identity, **read_capacity(group, kind, namespace, spec))
    workload = read_workload(group, kind, body, spec)
    if workload is None:
        return ObjectSummary(**identity)
    return ObjectSummary(**identity, **_workload(workload, mapping(metadata.get("labels")), namespace))


def _workload(workload: Workload, labels: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    pods = [read_pod(template, prefix, namespace) for _, template, prefix in workload.groups]
    demands: dict[tuple[str, str, int], int] = {}
    for (count, _, _), pod in zip(workload.groups, pods, strict=True):
        for resource, gpus in pod.devices.items():
            shape = (resource, pod.product_of(resource), gpus)
            demands[shape] = demands.get(shape, 0) + count
    products = {product for _, product, _ in demands}
    kind, queue, field = _queue(labels, workload, pods)
    references = {}
    if queue:
        references[(kind, queue)] = Reference(kind, namespace if kind == "LocalQueue" else "", queue, field)
    priority = text(labels.get(_KUEUE_PRIORITY_LABEL))
    if priority:
        found = Reference("WorkloadPriorityClass", "", priority, f'metadata.labels["{_KUEUE_PRIORITY_LABEL}"]')
        references[(found.kind, priority)] = found
    for pod in pods:
        for reference in pod.references:
            references.setdefault((reference.kind, reference.name), reference)
    return {
        "gpus": sum(count * gpus for (_, _, gpus), count in demands.items()),
        "gpus_per_pod": max((sum(pod.devices.values()) for pod in pods), default=0),
        "pods": sum(count for count, _, _ in workload.groups),
        "product": products.pop() if len(products) == 1 else "",
        "vendor": max(demands, key=lambda shape: (demands[shape] * shape[2], shape))[0] if demands else "",
        "queue": queue,
        "queue_kind": kind,
        # What Kueue queues is written as suspended: Kueue itself resumes it when there is room.
        "suspended": workload.suspended and kind != "LocalQueue",
        "references": tuple(found for key, found in references.items() if key not in workload.brings),
        "demands": tuple(Demand(*shape, count) for shape, count in demands.items()),
        "is_workload": True,
    }


def _queue(labels: Mapping[str, Any], workload: Workload, pods: list[PodReading]) -> tuple[str, str, str]:
    """Return kind, name and field of the queue: the object's own labels win over those of its pods."""
    places = [(labels, "metadata.labels")]
    places += [(inner, f"{prefix}.metadata.labels") for inner, prefix in workload.labels]
    places += [
        (pod.labels, f"{prefix}.metadata.labels")
        for pod, (_, _, prefix) in zip(pods, workload.groups, strict=True)
        if pod.labels
    ]
    for place, field in places:
        name = place.get(KUEUE_QUEUE_LABEL)
        if name and type(name) is str:
            return "LocalQueue", name, f'{field}["{KUEUE_QUEUE_LABEL}"]'
        for label in KAI_QUEUE_LABELS:
            name = place.get(label)
            if name and type(name) is str:
                return "Queue", name, f'{field}["{label}"]'
    return "", "", ""
