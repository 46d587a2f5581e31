"""`TorchrunQueue`: a queue of the cluster's scheduler, and the template that its jobs are made from.

Two forms are read into one model: the flat one of the documentation (`kaiQueue`, `nodeResources`, `image`, `storage`,
`scheduling`) and the one of torchrun-controller's types (`queue`, `podTemplate`, `workspaceStorage`, `resources`).
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from reconciler.kinds.torchrun.intent.fields import Entries, SpecReader, check_labels, duplicates, identity
from reconciler.kinds.torchrun.intent.sections import (
    Distributed,
    NetworkSection,
    Scheduling,
    Storage,
    WorkspaceSection,
    parse_distributed,
    parse_networks,
    parse_scheduling,
    parse_storage,
    parse_workspace,
)
from reconciler.kube.problems import Parsed
from reconciler.kube.reasons import Traced, copied
from reconciler.kube.yaml import Document
from reconciler.sizing.devices import Vendor

TRAINER = "trainer"
"""Name of the container that runs torchrun: the first one of a queue's pod template."""


class Share(Struct, frozen=True, kw_only=True):
    """The share of a queue in one resource, in the units of KAI's Queue; -1 is unlimited.

    GPUs are devices, CPU is millicores, memory is MB (10^6 bytes).
    """

    quota: Traced | None = None
    limit: Traced | None = None
    weight: Traced | None = None


class NodeResources(Struct, frozen=True, kw_only=True):
    """The resources of one node for a pod that uses all of it."""

    gpus: Traced | None = None
    cpus: Traced | None = None
    memory: Traced | None = None
    gpu_type: Traced | None = None


class ExtraResource(Struct, frozen=True, kw_only=True):
    """An object that comes with the queue."""

    name: Traced
    prefixed: bool
    immutable: bool
    template: Traced


class TorchrunQueue(Struct, frozen=True, kw_only=True, eq=False):
    """The intent of a queue. `namespace` is empty if the document names none."""

    document: Document
    name: str
    namespace: str
    queue_name: Traced
    parent: Traced | None = None
    topology: Traced | None = None
    multikueue: Traced | None = None
    shares: tuple[tuple[str, Share], ...] = ()
    node: NodeResources = NodeResources()
    vendor: Vendor | None = None  # by the resource key that the pod template asks for
    image: Traced | None = None
    workload: Traced | None = None
    network: Traced | None = None
    networks: tuple[NetworkSection, ...] = ()
    working_dir: Traced | None = None
    security_context: Traced | None = None
    service_account: Traced | None = None
    distributed: Distributed
    scheduling: Scheduling
    storage: Storage
    workspace: WorkspaceSection
    pod_labels: Entries = ()
    pod_annotations: Entries = ()
    pod_spec: Traced | None = None
    resources: tuple[ExtraResource, ...] = ()
    on_immutable_change: Traced | None = None


def queue_intent(document: Document) -> Parsed[TorchrunQueue]:
    """Read a document that its JSON Schema has accepted. With an error among the problems there is no intent."""
    fields = SpecReader(document)
    name, namespace = identity(fields)
    vendor, pod_gpus = _pod_gpus(fields)
    queue = TorchrunQueue(
        document=document,
        name=name,
        namespace=namespace,
        queue_name=fields.agree(fields.text("kaiQueue"), fields.text("queue", "name"))
        or copied(document, ("metadata", "name"), name),
        parent=fields.agree(fields.text("parentKaiQueue"), fields.text("queue", "parentQueue")),
        topology=fields.text("queue", "topologyName"),
        multikueue=fields.text("queue", "multiKueue"),
        shares=tuple((resource, _share(fields, resource)) for resource in ("cpu", "gpu", "memory")),
        node=_node(fields, pod_gpus),
        vendor=vendor,
        image=fields.agree(fields.text("image"), fields.text(*_TRAINER, "image")),
        workload=fields.text("workload"),
        network=fields.text("network"),
        networks=tuple(parse_networks(fields)),
        working_dir=fields.agree(fields.text("workingDir"), fields.text(*_TRAINER, "workingDir")),
        security_context=fields.agree(fields.mapping("securityContext"), fields.mapping(*_TRAINER, "securityContext")),
        service_account=fields.agree(fields.text("serviceAccountName"), fields.text(*_POD, "serviceAccountName")),
        distributed=parse_distributed(fields),
        scheduling=_scheduling(fields),
        storage=parse_storage(fields),
        workspace=parse_workspace(fields),
        pod_labels=fields.entries("podTemplate", "metadata", "labels"),
        pod_annotations=fields.entries("podTemplate", "metadata", "annotations"),
        pod_spec=fields.mapping(*_POD),
        resources=tuple(_resources(fields)),
        on_immutable_change=fields.text("onImmutableChange"),
    )
    check_labels(fields, queue.pod_labels)
    _check_pod(fields)
    return fields.parsed(queue)


_POD = ("podTemplate", "spec")
_TRAINER = (*_POD, "containers", 0)


def _share(fields: SpecReader, resource: str) -> Share:
    at = ("queue", "resources", resource)
    if not fields.has(at):
        return Share()
    return Share(
        quota=fields.number(*at, "quota"),
        limit=fields.number(*at, "limit"),
        weight=fields.number(*at, "overQuotaWeight"),
    )


def _node(fields: SpecReader, pod_gpus: Traced | None) -> NodeResources:
    at = "nodeResources"
    return NodeResources(
        gpus=fields.agree(fields.whole(at, "gpus"), pod_gpus),
        cpus=fields.quantity(at, "cpus"),
        memory=fields.quantity(at, "memory"),
        gpu_type=fields.text(at, "gpuType"),
    )


def _pod_gpus(fields: SpecReader) -> tuple[Vendor | None, Traced | None]:
    """Return the vendor and the number of GPUs that the trainer of the pod template requests."""
    found: list[tuple[Vendor, Traced]] = []
    for part in ("limits", "requests"):
        for vendor in Vendor:
            path = (*_TRAINER, "resources", part, vendor.resource)
            value = fields.quantity(*path)
            if value is None:
                continue
            if not str(value.value).isdigit():
                fields.problem("torchrun.gpus", ("spec", *path), "is not a whole number of GPUs", "write it as 8")
                continue
            found.append((vendor, Traced(int(value.value), value.reason)))
    if not found:
        return None, None
    vendor, gpus = found[0]
    for other_vendor, other in found[1:]:
        if other_vendor is not vendor or other.value != gpus.value:
            fields.clash(gpus, other)
    return vendor, gpus


def _scheduling(fields: SpecReader) -> Scheduling:
    flat = parse_scheduling(fields)
    for name, value in (
        ("schedulerName", flat.scheduler),
        ("priorityClassName", flat.priority),
    ):
        fields.agree(value, fields.text(*_POD, name) if fields.has(_POD) else None)
    fields.agree(flat.affinity, fields.mapping(*_POD, "affinity"))
    return flat


def _resources(fields: SpecReader) -> Iterator[ExtraResource]:
    items = fields.items("resources")
    for first, second in duplicates(items, "name"):
        fields.clash(first, second)
    for index in range(len(items)):
        at = ("resources", index)
        name, template = fields.text(*at, "name"), fields.mapping(*at, "template")
        if name is None or template is None:
            fields.problem("torchrun.resource", ("spec", *at), "has no name or no template", "set both")
            continue
        if not all(isinstance(template.value.get(key), str) for key in ("apiVersion", "kind")):
            fields.problem("torchrun.resource", ("spec", *at), "is not an object", "set its apiVersion and kind")
            continue
        mode, immutable = fields.text(*at, "nameMode"), fields.flag(*at, "immutable")
        fields.agree(name, fields.text(*at, "template", "metadata", "name"))
        yield ExtraResource(
            name=name,
            prefixed=bool(mode and mode.value == "prefix"),
            immutable=bool(immutable and immutable.value),
            template=template,
        )


def _check_pod(fields: SpecReader) -> None:
    if not fields.has(_POD):
        return
    containers = fields.items(*_POD, "containers")
    names = [container.value.get("name") for container in containers]
    if not names or names[0] != TRAINER or names.count(TRAINER) > 1:
        fields.problem(
            "torchrun.trainer",
            ("spec", *_POD, "containers"),
            f"only the first container must be named `{TRAINER}`",
            f"name the training container `{TRAINER}` and put it first",
        )
    for path, key in ((("containers",), "name"), (("volumes",), "name"), ((*_TRAINER[2:], "env"), "name")):
        for first, second in duplicates(fields.items(*_POD, *path), key):
            fields.clash(first, second)


def trainer_of(queue: TorchrunQueue) -> dict[str, Any]:
    """Return the trainer of the queue's pod template as written, empty if there is none."""
    spec = queue.pod_spec.value if queue.pod_spec else {}
    containers = spec.get("containers") or [{}]
    return containers[0] if isinstance(containers[0], dict) else {}
