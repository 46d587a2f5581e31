"""The GPUs of queues and nodes, from the objects of a live cluster or from what the repository has recorded."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from statistics import fmean
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.agentaflow.gpu_node import GpuIssue, GpuNode, graded
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from reconciler.kinds.progress import holds
from reconciler.kinds.quantities import Gpus, exact
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import count, mapping, metadata_text, sequence, text
from reconciler.live.observe.placed import pod_amounts, pod_gpus
from reconciler.queues.queues import QueueUsage
from reconciler.repo.evidence.usage import ADMITTED, RUNNING, WAITING, Usage, UsedWorkload
from reconciler.repo.evidence.utilisation import GpuUtilisation
from reconciler.sizing.devices import Vendor, is_gpu, product_label, vendor_in
from reconciler.sizing.inventory import Inventory

Body = Mapping[str, Any]

_ENDED = ("Succeeded", "Failed")
_GIB = 1 << 30


class QueueCapacity(Struct, frozen=True, kw_only=True):
    """One queue: its quota, the GPUs of its unfinished workloads, of those admitted and pending, and their number.

    None: not known. `namespace` is empty for a queue of the whole cluster.
    """

    kind: str
    namespace: str
    name: str
    quota: Gpus | None = None
    requested: Gpus
    admitted: Gpus | None = None
    pending: Gpus | None = None
    workloads: int | None = None


class NodeLoad(Struct, frozen=True, kw_only=True):
    """The mean utilisation of the GPUs of a node in percent, and how many of them it is of. Memory in MiB, if known."""

    percent: float
    gpus: int
    used_mib: int | None = None
    total_mib: int | None = None


class NodeCapacity(Struct, frozen=True, kw_only=True):
    """One node with GPUs of a vendor: what it offers, and what its pods request of it (None: not known)."""

    name: str
    model: str
    gpus: int
    used_gpus: int | None = None
    cpus: float | None = None
    used_cpus: float | None = None
    memory_gib: float | None = None
    used_memory_gib: float | None = None
    pods: int | None = None
    is_open: bool = True
    load: NodeLoad | None = None
    issues: tuple[str, ...] = ()  # of its GPUs, as a GPUNode says


# Queues.


def live_queues(
    cluster_queues: Sequence[Body], local_queues: Sequence[Body], workloads: Sequence[Body]
) -> tuple[QueueCapacity, ...]:
    """Return the queues of Kueue in a cluster: each ClusterQueue, and the LocalQueues that name it after it."""
    unfinished = [body for body in workloads if holds(body, "Finished") is None]
    targets = {
        (metadata_text(body, "namespace"), metadata_text(body, "name")): text(
            mapping(body.get("spec")).get("clusterQueue")
        )
        for body in local_queues
    }
    rows: list[QueueCapacity] = []
    for body in sorted(cluster_queues, key=lambda one: metadata_text(one, "name")):
        name = metadata_text(body, "name")
        own = [one for one in unfinished if targets.get(_local(one)) == name]
        rows.append(_queue(CLUSTER_QUEUE[1], "", name, own, quota=_quota(body)))
        for namespace, local in sorted(key for key, target in targets.items() if target == name):
            rows.append(
                _queue(LOCAL_QUEUE[1], namespace, local, [one for one in own if _local(one) == (namespace, local)])
            )
    return tuple(rows)


def _local(workload: Body) -> tuple[str, str]:
    return metadata_text(workload, "namespace"), text(mapping(workload.get("spec")).get("queueName"))


def _queue(
    kind: str, namespace: str, name: str, workloads: Sequence[Body], *, quota: Gpus | None = None
) -> QueueCapacity:
    admitted = exact(float(_sum(_admitted_gpus(one) for one in workloads if holds(one, "Admitted") is not None)))
    pending = sum(_requested_gpus(one) for one in workloads if holds(one, "Admitted") is None)
    return QueueCapacity(
        kind=kind,
        namespace=namespace,
        name=name,
        quota=quota,
        requested=exact(admitted + pending),
        admitted=admitted,
        pending=pending,
        workloads=len(workloads),
    )


def _quota(queue: Body) -> Gpus:
    resources = (
        mapping(resource)
        for group in sequence(mapping(queue.get("spec")).get("resourceGroups"))
        for flavor in sequence(mapping(group).get("flavors"))
        for resource in sequence(mapping(flavor).get("resources"))
    )
    return exact(float(_sum(_amount(one.get("nominalQuota")) for one in resources if is_gpu(one.get("name")))))


def _admitted_gpus(workload: Body) -> Fraction:
    admission = mapping(mapping(workload.get("status")).get("admission"))
    usages = (mapping(mapping(one).get("resourceUsage")) for one in sequence(admission.get("podSetAssignments")))
    return _sum(_gpus(usage) for usage in usages)


def _requested_gpus(workload: Body) -> int:
    sets = (mapping(one) for one in sequence(mapping(workload.get("spec")).get("podSets")))
    return sum(count(one.get("count"), 1) * _pod_gpus(mapping(one.get("template"))) for one in sets)


def recorded_queues(usage: QueueUsage, used: Usage | None) -> tuple[QueueCapacity, ...]:
    """Return the queues of the repository: their quotas, and the GPUs that its workloads request of them.

    used: what ran and waited when it was observed; None: not known. A cohort holds what its members hold.
    """
    rows, requested = [], usage.requested_by_queue()
    for key, row in sorted(usage.queues.items()):
        found = QueueCapacity(
            kind=row.kind,
            namespace=row.namespace,
            name=row.name,
            quota=usage.quota(key),
            requested=requested.get(key, 0),
        )
        if used is not None and not usage.is_cohort(key):
            there = [one for one in used.workloads if one.gpus and _is_in(one, row.namespace, row.name)]
            admitted = [one.gpus for one in there if one.state in (RUNNING, ADMITTED)]
            pending = [one.gpus for one in there if one.state == WAITING]
            found = replace(found, admitted=sum(admitted), pending=sum(pending), workloads=len(admitted) + len(pending))
        rows.append(found)
    return tuple(rows)


def _is_in(workload: UsedWorkload, namespace: str, name: str) -> bool:
    """Return whether a workload is in a queue of its namespace, or in one of the whole cluster."""
    if namespace:
        return (workload.namespace, workload.queue) == (namespace, name)
    return name == (workload.cluster_queue or workload.queue)


# Nodes.


def node_loads(utilisation: GpuUtilisation | None, gpu_nodes: Iterable[GpuNode]) -> dict[str, NodeLoad]:
    """Return how busy the GPUs of nodes are: those of which something is known, and no others."""
    measured: dict[str, list[float]] = {}
    for pod in (one for workload in (utilisation.workloads if utilisation else ()) for one in workload.pods):
        measured.setdefault(pod.node, []).extend(one.mean for one in pod.busiest())
    found = {name: NodeLoad(percent=fmean(values), gpus=len(values)) for name, values in measured.items() if values}
    for node in gpu_nodes:
        values = [one.utilization for one in node.states if one.utilization is not None]
        memories = [one.memory_used for one in node.states if one.memory_used is not None]
        if values:
            found[node.name] = NodeLoad(
                percent=fmean(values),
                gpus=len(values),
                used_mib=sum(memories) if memories else None,
                total_mib=sum(one.memory_mib for one in node.devices) if memories else None,
            )
    return found


def gpu_issues(node: GpuNode) -> tuple[str, ...]:
    """Return what is wrong with the GPUs of a node by AgentaFlow's rules. Heat is never hidden by load."""
    memory = {one.id: one.memory_mib for one in node.devices}
    issues = []
    for state in node.states:
        issue = graded(state, memory.get(state.id, 0))
        if issue in (GpuIssue.WARNING, GpuIssue.UNHEALTHY):
            issues.append(f"{state.id} {issue.value} ({state.temperature:g} °C)")
    return tuple(issues)


def live_nodes(nodes: Iterable[Body], pods: Iterable[Body], vendor: Vendor) -> tuple[NodeCapacity, ...]:
    """Return the nodes with GPUs of a vendor, with what the pods on them request."""
    on_node: dict[str, list[Body]] = {}
    for pod in pods:
        if text(mapping(pod.get("status")).get("phase")) not in _ENDED:
            on_node.setdefault(text(mapping(pod.get("spec")).get("nodeName")), []).append(pod)
    rows = (_node(body, on_node.get(metadata_text(body, "name"), []), vendor) for body in nodes)
    return tuple(sorted((row for row in rows if row.gpus), key=lambda row: row.name))


def _node(body: Body, pods: Sequence[Body], vendor: Vendor) -> NodeCapacity:
    offered = mapping(mapping(body.get("status")).get("allocatable"))
    requests = [pod_amounts(mapping(pod.get("spec"))) for pod in pods]

    def used(name: str) -> Fraction:
        return _sum(one.get(name, Fraction()) for one in requests)

    return NodeCapacity(
        name=metadata_text(body, "name"),
        model=product_label(mapping(mapping(body.get("metadata")).get("labels"))),
        gpus=int(_amount(offered.get(vendor.resource))),
        used_gpus=int(used(vendor.resource)),
        cpus=float(_amount(offered.get("cpu"))),
        used_cpus=float(used("cpu")),
        memory_gib=round(float(_amount(offered.get("memory")) / _GIB), 1),
        used_memory_gib=round(float(used("memory") / _GIB), 1),
        pods=len(pods),
        is_open=mapping(body.get("spec")).get("unschedulable") is not True,
    )


def recorded_nodes(inventory: Inventory | None, vendor: Vendor, usage: Usage | None = None) -> tuple[NodeCapacity, ...]:
    """Return the nodes of recorded evidence whose product is one of a vendor.

    What is used is not known without usage, nor where a part of it could not be read.
    """
    used = usage.held_gpus() if usage is not None and not usage.coverage else None
    found = inventory.nodes if inventory is not None else ()
    return tuple(
        NodeCapacity(
            name=node.name,
            model=node.product,
            gpus=node.allocatable_gpus or node.gpus,
            used_gpus=None if used is None else used.get(node.name, 0),
            cpus=float(node.allocatable_cpus or node.cpus) or None,
            memory_gib=float(node.allocatable_memory_gib) or None,
            is_open=node.is_open,
        )
        for node in sorted(found, key=lambda one: one.name)
        if node.gpus and (vendor_in([node.product]) or vendor_in(node.labels) or Vendor.NVIDIA) is vendor
    )


# Amounts.


def _pod_gpus(template: Body) -> int:
    return sum(pod_gpus(mapping(template.get("spec"))).values())


def _gpus(amounts: Mapping[str, Any]) -> Fraction:
    return _sum(_amount(value) for name, value in amounts.items() if is_gpu(name))


def _sum(amounts: Iterable[Fraction]) -> Fraction:
    return sum(amounts, Fraction())


def _amount(value: Any) -> Fraction:
    return (parse_quantity(value) if isinstance(value, str | int | float) else None) or Fraction()


def shares(rows: Iterable[NodeCapacity]) -> Iterator[tuple[str, int, int | None]]:
    """Yield the GPUs of each model and how many of them are used (None: not known)."""
    models: dict[str, list[NodeCapacity]] = {}
    for row in rows:
        models.setdefault(row.model, []).append(row)
    for model, found in sorted(models.items()):
        used = [row.used_gpus for row in found]
        yield model, sum(row.gpus for row in found), None if None in used else sum(filter(None, used))
