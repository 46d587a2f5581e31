"""A GPUWorkload as a Job: its GPUs, the nodes that it may use, its queue and its priority."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import Struct

from reconciler.kinds.agentaflow.nodes import FittingNodes, NodeWish, Requirement, fitting_nodes
from reconciler.kinds.agentaflow.wishes import MEMORY, PREFIX, PRIORITY, PRIORITY_LABELS, STRATEGY
from reconciler.kinds.agentaflow.workload import COUNT, FAMILY, LEAST, POD, TEMPLATE, GpuWorkloadIntent
from reconciler.kinds.aspects import Lookup
from reconciler.kinds.fields import Fields, Tree
from reconciler.kinds.kai import QUEUE_LABELS, SCHEDULER
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from reconciler.kinds.kueue.labels import QUEUE_LABEL
from reconciler.kinds.pods import SUSPEND
from reconciler.kinds.rendered import Rendered
from reconciler.kinds.summary.summarize import ESTIMATE
from reconciler.kinds.torchrun import QUEUE
from reconciler.kinds.translated import (
    default,
    has_local_queue,
    local_queue,
    name_of,
    node_affinity,
    own_annotations,
    pods_and_gpus,
    render_trees,
    spread,
)
from reconciler.kube.objects import FieldPath, ObjectKey
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Traced
from reconciler.kube.values import plural
from reconciler.repo.config import Backend
from reconciler.repo.config.external import External
from reconciler.sizing.devices import Vendor, vendor_in
from reconciler.sizing.inventory import Inventory

_TYPE: FieldPath = ("spec", "gpuRequirements", "preferredGPUType")
_MEMORY: FieldPath = ("spec", "gpuMemoryRequired")
_SHARED: FieldPath = ("spec", "gpuRequirements", "exclusiveAccess")
_UNMEASURED_NODE = 8
_WEIGHT = 100
_KEPT = (SUSPEND, ESTIMATE)


_default = partial(default, FAMILY)
_ONE = _default(1, "gpuCount defaults to 1")
_NEVER = _default("Never", "a pod that fails is replaced by another one")
_TTL = _default(3600, "its end is recorded, so that it is not created again")
_KAI = _default(SCHEDULER, "the cluster uses KAI")
_INDEXED = _default("Indexed", "pods on several nodes have numbers")


class _JobContext(Struct, frozen=True, kw_only=True, eq=False):
    """The parts that the pods of a workload are made of. labels: those of its queue and its priority."""

    work: GpuWorkloadIntent
    lookup: Lookup
    gpus: Traced
    wish: NodeWish
    nodes: FittingNodes
    labels: Tree
    problems: list[Problem]

    @property
    def fields(self) -> Fields:
        """The fields of the document."""
        return self.work.fields


def render_workload(work: GpuWorkloadIntent, lookup: Lookup) -> Rendered:
    """Render a workload for one cluster."""
    problems: list[Problem] = []
    return render_trees(work.fields, lookup, "workload", _trees(work, lookup, problems), problems)


def _trees(work: GpuWorkloadIntent, lookup: Lookup, problems: list[Problem]) -> Iterator[Tree]:
    fields, cluster = work.fields, lookup.cluster
    inventory = lookup.inventory()
    wish = _wish(work, cluster.placement.is_type_required, cluster.vendor, inventory)
    nodes = fitting_nodes(inventory, wish)
    problems += _misfit(fields, wish, nodes)
    count = _count(work)
    pods, each = _spread(fields, count, nodes, problems)
    namespace = fields.plain("metadata", "namespace") or cluster.namespace
    queue, brought = workload_queue(fields, lookup, namespace, problems)
    labels = queue | _priority(fields, lookup)
    context = _JobContext(work=work, lookup=lookup, gpus=each, wish=wish, nodes=nodes, labels=labels, problems=problems)
    yield from brought
    yield {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(work, lookup, namespace, labels),
        "spec": {
            **_limits(fields, lookup),
            **({} if pods is None else {"completionMode": _INDEXED, "completions": pods, "parallelism": pods}),
            "template": _template(context),
        },
    }


def _limits(fields: Fields, lookup: Lookup) -> Tree:
    """Return the fields that end a Job: the deadline that its pods have, and its removal once its end is recorded."""
    deadline = fields.get(*POD, "activeDeadlineSeconds")
    found: Tree = {"activeDeadlineSeconds": deadline} if deadline is not None else {}
    return found | ({"ttlSecondsAfterFinished": _TTL} if lookup.has_runs() else {})


def _wish(work: GpuWorkloadIntent, is_required: bool, vendor: Vendor, inventory: Inventory | None) -> NodeWish:  # noqa: FBT001
    """Return what is asked of nodes. The resource is that of the container, else that of the vendor of the nodes."""
    measured = vendor_in(inventory.gpus_by_product) if inventory else None
    named = next(iter(work.devices), "")
    vendor = next((one for one in Vendor if one.resource == named), measured or vendor)
    kind = work.fields.plain(*_TYPE) or ""
    return NodeWish(
        resource=named or vendor.resource,
        vendor=vendor,
        memory_mib=work.memory_mib,
        type=kind,
        is_type_required=bool(kind) and is_required,
    )


def _count(work: GpuWorkloadIntent) -> Traced:
    """Return the GPUs of the workload: as it says, else those of its container, else one."""
    path: FieldPath = (*POD, "containers", work.main, "resources")
    if (written := work.fields.get(*COUNT)) is not None:
        return written
    amount = next(iter(work.devices.values()), 0)
    return work.fields.made(amount, "gpus", "the GPUs of its main container", path) if amount else _ONE


def _misfit(fields: Fields, wish: NodeWish, nodes: FittingNodes) -> Iterator[Problem]:
    """Yield what the nodes lack: the type, or the memory."""
    if wish.type and nodes.type is None:
        message = f"no GPU is a {wish.type!r}; there are {', '.join(nodes.products) or 'none'}"
        if wish.is_type_required:
            yield fields.problem("type", _TYPE, message, "choose one of them, or set placement.preferredType: prefer")
        else:
            yield fields.warning("type", _TYPE, f"{message}, and any of them is taken", "choose one of them")
    if nodes.all == ():
        path = LEAST if (fields.plain(*LEAST) or 0) > fields.plain(*_MEMORY) else _MEMORY
        if not nodes.largest:
            yield fields.problem("memory", path, f"no node has a {wish.resource} of known memory")
        elif nodes.largest < wish.memory_mib:
            message = f"no GPU has {wish.memory_mib} MiB: the largest has {nodes.largest}"
            yield fields.problem("memory", path, message, f"request {nodes.largest} or less")
        elif nodes.type is not None:
            message = f"no {wish.type} has {wish.memory_mib} MiB"
            yield fields.problem("memory", path, message, "request less, or another type")


def _spread(
    fields: Fields, count: Traced, nodes: FittingNodes, problems: list[Problem]
) -> tuple[Traced | None, Traced]:
    """Return the pods of the workload, None for one, and the GPUs of each."""
    if nodes.all is None or nodes.free is None:
        problems += _unmeasured(fields, count)
        return None, count
    if not nodes.all:
        return None, count
    found = spread(fields, COUNT, count, nodes.free, nodes.all, problems)
    if found is None or found.nodes == 1:
        return None, count
    message = f"the pods run once on each of {found.nodes} nodes, and do not know each other"
    hint = "use a TorchrunJob if they are to work together; JOB_COMPLETION_INDEX is their number"
    problems.append(fields.warning("separate-pods", COUNT, message, hint))
    return pods_and_gpus(fields, found, count)


def _unmeasured(fields: Fields, count: Traced) -> Iterator[Problem]:
    hint = "commit an inventory of the nodes to evidence/: `reconciler observe`"
    if count.value > _UNMEASURED_NODE:
        message = f"the number of GPUs per node is unknown, so {count.value} cannot be spread over nodes"
        yield fields.problem("node-size-unknown", COUNT, message, hint)
    elif count.value > 1:
        message = f"nodes are not measured: nothing says that one of them has {plural(count.value, 'GPU')}"
        yield fields.warning("node-size-unknown", COUNT, message, hint)


# --- the object ----------------------------------------------------------------------------------------------------


def _priority(fields: Fields, lookup: Lookup) -> Tree:
    """Return the label with the class of the priority, as the scheduler of the cluster reads it."""
    label, written = PRIORITY_LABELS.get(lookup.cluster.backend), fields.plain("spec", "priority")
    name = lookup.cluster.placement.class_of(written) if written is not None else ""
    if not label or not name or fields.plain("metadata", "labels", label) is not None:
        return {}
    return {label: fields.made(name, "priority", f"the class of priority {written}", ("spec", "priority"))}


def _metadata(work: GpuWorkloadIntent, lookup: Lookup, namespace: str, labels: Tree) -> Tree:
    fields = work.fields
    key = ObjectKey(group="batch", kind="Job", namespace=namespace, name=fields.plain("metadata", "name"))
    annotations = own_annotations(fields, *_KEPT)
    said = {STRATEGY: ("spec", "schedulingStrategy"), PRIORITY: ("spec", "priority")}
    for annotation, path in {**said, ESTIMATE: ("spec", "estimatedDuration")}.items():
        value = fields.plain(*path)
        if value is not None:
            annotations[annotation] = fields.made(str(value), "wish", "for the placement of the job", path)
    annotations[MEMORY] = fields.made(str(work.memory_mib), "wish", "MiB of each GPU", _MEMORY, LEAST)
    metadata = {"name": name_of(fields, lookup, key), "namespace": namespace}
    all_labels = fields.entries("metadata", "labels") | labels
    return metadata | {part: found for part, found in (("labels", all_labels), ("annotations", annotations)) if found}


def _template(own: _JobContext) -> Tree:
    fields, cluster, at = own.fields, own.lookup.cluster, (*TEMPLATE, "metadata")
    is_kai = cluster.backend is Backend.KAI
    share = _share(own) if own.work.is_shared else {}
    spec = fields.entries(*POD, without=("containers", "affinity", "nodeSelector"))
    spec.setdefault("restartPolicy", _NEVER)
    if is_kai:
        spec.setdefault("schedulerName", _KAI)
    spec["containers"] = _containers(own, is_shared=bool(share))
    spec["affinity"] = _affinity(fields, own.wish, own.nodes)
    if selector := node_selector(fields, own.wish.vendor, own.lookup.inventory(), own.problems):
        spec["nodeSelector"] = selector
    labels = fields.entries(*at, "labels") | (own.labels if is_kai else {})
    labels |= _marks(fields) if cluster.placement.annotate else {}
    metadata = fields.entries(*at, without=("labels", "annotations"))
    parts = {"labels": labels, "annotations": fields.entries(*at, "annotations") | share}
    metadata |= {part: found for part, found in parts.items() if found}
    return {**({"metadata": metadata} if metadata else {}), "spec": spec}


def _marks(fields: Fields) -> Tree:
    name = fields.get("metadata", "name")
    return {f"{PREFIX}workload": name, f"{PREFIX}managed": _default("true", "placement.annotate is true")}


def _share(own: _JobContext) -> Tree:
    """Return the annotations by which KAI gives a part of a GPU; nothing where only whole ones can be had."""
    fields, work, gpus, problems = own.fields, own.work, own.gpus, own.problems
    if own.lookup.cluster.backend is not Backend.KAI:
        message = "is not followed: the device plugin gives whole GPUs, so nothing else runs on them"
        hint = "remove it, or use KAI, which can share them"
        problems.append(fields.warning("whole-gpu", _SHARED, message, hint))
        return {}
    if work.devices:
        message = f"its container has a part of a GPU instead of {own.wish.resource}"
        path: FieldPath = (*POD, "containers", work.main, "resources")
        problems.append(fields.warning("shared-gpu", path, message, f"remove {own.wish.resource}"))
    memory = fields.made(str(fields.plain(*_MEMORY)), "share", "MiB of a GPU", _MEMORY, _SHARED)
    devices = Traced(str(gpus.value), gpus.reason)
    return {"gpu-memory": memory, **({"gpu-fraction-num-devices": devices} if gpus.value > 1 else {})}


def _containers(own: _JobContext, *, is_shared: bool) -> list[Tree]:
    """Return the containers. The main one gets the GPUs, as requests and limits alike, and no other does."""
    fields, work, gpus = own.fields, own.work, own.gpus
    found = [fields.entries(*POD, "containers", index) for index in range(len(work.containers))]
    at = (*POD, "containers", work.main, "resources")
    amounts = {part: fields.entries(*at, part, without=tuple(work.devices)) for part in ("requests", "limits")}
    if not is_shared:
        for part in amounts.values():
            part[own.wish.resource] = Traced(str(gpus.value), gpus.reason)
    resources = fields.entries(*at, without=("requests", "limits")) | {k: v for k, v in amounts.items() if v}
    found[work.main] = {**found[work.main], **({"resources": resources} if resources else {})}
    if not resources:
        found[work.main].pop("resources", None)
    return found


def _affinity(fields: Fields, wish: NodeWish, nodes: FittingNodes) -> Tree:
    """Return the affinity as it is written, in which each alternative requires the memory, and perhaps the type."""
    needed = [fields.made(_expression(nodes.memory), "memory", f"a GPU with {wish.memory_mib} MiB", _MEMORY, LEAST)]
    liked: list[Tree] = []
    if nodes.type is not None:
        kind = fields.made(_expression(nodes.type), "type", f"a {wish.type}", _TYPE)
        if wish.is_type_required:
            needed.append(kind)
        else:
            liked.append({"weight": _WEIGHT, "preference": {"matchExpressions": [kind]}})
    return node_affinity(fields, (*POD, "affinity"), needed, liked)


def _expression(required: Requirement) -> dict[str, Any]:
    label, operator, values = required
    return {"key": label, "operator": operator, "values": list(values)}


_PRESENT = "nvidia.com/gpu.present"
"""Label of nodes with a GPU, of NVIDIA's feature discovery."""

_INSTEAD = {
    "enabled": "its GPUs choose nodes that have some",
    "schedulable": "schedulers know which nodes take new work",
    "count": "its GPUs choose nodes that have as many",
    "utilization-tier": "the placement of plans knows how busy nodes are",
}


def node_selector(fields: Fields, vendor: Vendor, inventory: Inventory | None, problems: list[Problem]) -> Tree:
    """Return the node selector: without labels that no node has, each of which is reported."""
    at = (*POD, "nodeSelector")
    selector = fields.entries(*at)
    for key in [key for key in selector if key.startswith(PREFIX)]:
        value = selector[key].value
        if inventory is not None and any(node.labels.get(key) == value for node in inventory.nodes):
            continue
        del selector[key]
        name = key.removeprefix(PREFIX)
        if name == "enabled" and value == "true" and vendor is Vendor.NVIDIA:
            reason = "nodes with GPUs have this label"
            selector[_PRESENT] = fields.made("true", "node-label", reason, (*at, key))
            message = f"is rendered as {_PRESENT}: no node is known to have {key}"
        else:
            message = f"is left out: no node is known to have it, and {_INSTEAD.get(name, 'a pod would wait for ever')}"
        problems.append(fields.warning("node-label", (*at, key), message, "remove it"))
    return selector


_NAME: FieldPath = ("metadata", "name")
_DEFAULT = "default"
"""The LocalQueue of workloads that name none: Kueue 0.19, pkg/controller/jobframework/defaults.go."""


def workload_queue(fields: Fields, lookup: Lookup, namespace: str, problems: list[Problem]) -> tuple[Tree, list[Tree]]:
    """Return the label that names the queue, and the LocalQueue that the workload brings."""
    backend = lookup.cluster.backend
    labels = {Backend.KUEUE: (QUEUE_LABEL,), Backend.KAI: QUEUE_LABELS}.get(backend, ())
    written = next((label for label in labels if fields.plain("metadata", "labels", label) is not None), "")
    if written or not labels:
        found = fields.get("metadata", "labels", written) if written else None
        return ({written: found} if found is not None else {}), []
    known = [*lookup.defined_names(QUEUE, namespace)]
    if backend is Backend.KUEUE:
        known += lookup.defined_names(LOCAL_QUEUE, namespace)
        known += External(lookup.cluster).names_in(LOCAL_QUEUE[1], namespace)
    known = sorted(set(known))
    if backend is Backend.KUEUE and not known:
        clusters = lookup.defined_names(CLUSTER_QUEUE, "")
        if len(clusters) == 1:
            only = fields.made(clusters[0], "queue", "the only ClusterQueue there is", _NAME)
            brought = [] if has_local_queue(lookup, namespace, only.value) else [local_queue(only, namespace)]
            return {QUEUE_LABEL: only}, brought
    if len(known) == 1 or (_DEFAULT in known and backend is Backend.KUEUE):
        name = known[0] if len(known) == 1 else _DEFAULT
        return {labels[0]: _queue_name(fields, lookup, namespace, name)}, []
    message = f"names none of the queues of namespace {namespace}: {', '.join(known)}" if known else "names no queue"
    hint = f"set the label {labels[0]}"
    problems.append(fields.warning("queue", ("metadata",), message, hint))
    return {}, []


def _queue_name(fields: Fields, lookup: Lookup, namespace: str, name: str) -> Traced:
    found: Any = lookup.defined(QUEUE, namespace, name)
    if lookup.cluster.backend is Backend.KAI and found is not None:
        return fields.made(found.queue_name.value, "queue", f"the queue of TorchrunQueue {name}", _NAME)
    return fields.made(name, "queue", f"the queue of namespace {namespace}", _NAME)
