"""The common part of all jobs of a queue in one cluster, resolved once: GPUs, nodes, the fixed part of their pods."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from reconciler.kinds.distribution import NodeKind, node_kinds
from reconciler.kinds.kai import SCHEDULER
from reconciler.kinds.rendered import problem_at
from reconciler.kinds.torchrun.intent.queue import TorchrunQueue, trainer_of
from reconciler.kinds.torchrun.networks import check_networks
from reconciler.kinds.torchrun.render.amounts import whole_cpus
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin, Reason, Traced, copied
from reconciler.kube.values import plural
from reconciler.repo.config import Backend, Cluster
from reconciler.sizing.devices import Vendor, devices_in, product_words, vendor_in
from reconciler.sizing.inventory import Inventory, Node

PRODUCT_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
"""Node labels that name the GPU: GPU feature discovery of NVIDIA, the node labeller of AMD (two releases)."""

_REPLACED = frozenset(
    {
        "containers",
        "volumes",
        "initContainers",
        "nodeSelector",
        "tolerations",
        "affinity",
        "schedulerName",
        "priorityClassName",
        "serviceAccountName",
    }
)
"""Fields of a pod spec that are merged with other sources, and so are not copied as a whole."""

_OWN_POD = ("restartPolicy", "hostname", "subdomain")  # the job decides on these
_OWN_TRAINER = ("command", "args")
_MERGED_TRAINER = frozenset(
    {"name", "image", "workingDir", "securityContext", "resources", "env", "volumeMounts", *_OWN_TRAINER}
)


class Template(Struct, frozen=True, kw_only=True, eq=False):
    """The shared part. Mappings hold `Traced` values by key; lists hold `Traced` items."""

    queue: TorchrunQueue
    cluster: Cluster
    namespace: str
    gpu_key: str
    kinds: tuple[NodeKind, ...]
    per_node: Traced | None  # GPUs of a whole node; None: nothing says
    per_node_origins: tuple[Origin, ...]
    measured: Traced | None  # GPUs of all nodes that it may use; None: nothing was measured
    gpu_type: Traced | None
    pod: Mapping[str, Traced]
    node_selector: Mapping[str, Traced]
    tolerations: tuple[Traced, ...]
    affinity: Traced | None
    scheduler: Traced | None
    priority: Traced | None
    containers: tuple[Traced, ...]  # beside the trainer
    init_containers: tuple[Traced, ...]
    volumes: tuple[Traced, ...]
    trainer: Mapping[str, Traced]
    env: tuple[Traced, ...]
    mounts: tuple[Traced, ...]
    limits: Mapping[str, Traced]
    requests: Mapping[str, Traced]
    labels: Mapping[str, Traced]
    annotations: Mapping[str, Traced]
    job_queue: Traced
    scheduler_queue: Traced
    problems: tuple[Problem, ...] = ()

    @property
    def names_gpus(self) -> bool:
        """True if the queue names a GPU product, and not other devices, so that a whole node has GPUs."""
        names_product = self.gpu_type is not None or not self.node_selector.keys().isdisjoint(PRODUCT_LABELS)
        return names_product and not devices_in(dict.fromkeys((*self.limits, *self.requests), 1))

    @property
    def multikueue(self) -> Traced | None:
        """The check by which Kueue runs the jobs on worker clusters; None if they run in this one."""
        return self.queue.multikueue if self.cluster.backend is Backend.KUEUE else None


def resolve_template(queue: TorchrunQueue, cluster: Cluster, inventory: Inventory | None) -> Template:
    """Resolve a queue for a cluster."""
    problems: list[Problem] = [*_ignored_fields(queue, cluster), *check_networks(queue)]
    spec = _spec(queue)
    trainer, at = trainer_of(queue), (*_POD, "containers", 0)
    node_selector = _entries(queue, "nodeSelector") | dict(queue.scheduling.node_selector)
    labels = {key: value.value for key, value in node_selector.items()}
    nodes = inventory.gpu_nodes(labels) if inventory else ()
    matching = _of_type(queue, nodes, inventory, problems)
    per_node, kinds, origins = _node_sizes(queue, matching, inventory)
    selected = _product_selector(queue, matching, node_selector, inventory)
    resources: dict[str, Any] = found if isinstance(found := trainer.get("resources"), dict) else {}
    limits, requests = (_amounts(queue, resources, part) for part in ("limits", "requests"))
    problems += _warn_full_node(queue, matching)
    problems += _warn_any_gpu(queue, cluster, matching, {*node_selector, *selected}, inventory)
    problems += _warn_devices(limits | requests)
    return Template(
        queue=queue,
        cluster=cluster,
        namespace=queue.namespace or cluster.namespace,
        gpu_key=_vendor(queue, cluster, node_selector).resource,
        kinds=kinds,
        per_node=per_node,
        per_node_origins=origins,
        measured=None if queue.multikueue else _measured(matching, inventory),  # its jobs run on other nodes
        gpu_type=queue.node.gpu_type,
        pod={key: copied(queue.document, (*_POD, key), value) for key, value in spec.items() if key not in _LEFT_OUT}
        | ({"serviceAccountName": queue.service_account} if queue.service_account else {}),
        node_selector=node_selector | selected,
        tolerations=(*_list(queue, (*_POD, "tolerations"), spec.get("tolerations")), *queue.scheduling.tolerations),
        affinity=queue.scheduling.affinity or _value(queue, "affinity"),
        scheduler=queue.scheduling.scheduler or _value(queue, "schedulerName"),
        priority=queue.scheduling.priority or _value(queue, "priorityClassName"),
        containers=_list(queue, (*_POD, "containers"), spec.get("containers"))[1:],
        init_containers=_list(queue, (*_POD, "initContainers"), spec.get("initContainers")),
        volumes=_list(queue, (*_POD, "volumes"), _prefix_claims(queue, spec.get("volumes"))),
        trainer=_trainer(queue, trainer),
        env=_list(queue, (*at, "env"), trainer.get("env")),
        mounts=_list(queue, (*at, "volumeMounts"), trainer.get("volumeMounts")),
        limits=limits,
        requests=requests,
        labels=dict(queue.pod_labels),
        annotations=dict(queue.pod_annotations),
        job_queue=copied(queue.document, ("metadata", "name"), queue.name),
        scheduler_queue=queue.queue_name,
        problems=tuple(problems),
    )


def _trainer(queue: TorchrunQueue, trainer: Mapping[str, Any]) -> dict[str, Traced]:
    """Return the fields of the trainer that are copied as they are written."""
    at = (*_POD, "containers", 0)
    taken = {key: copied(queue.document, (*at, key), trainer[key]) for key in trainer if key not in _MERGED_TRAINER}
    own = {"workingDir": queue.working_dir, "securityContext": queue.security_context}
    return taken | {key: value for key, value in own.items() if value}


_POD = ("spec", "podTemplate", "spec")
_LEFT_OUT = _REPLACED | frozenset(_OWN_POD)


def _spec(queue: TorchrunQueue) -> dict[str, Any]:
    """Return the pod spec of the queue's template as written."""
    spec: dict[str, Any] = queue.pod_spec.value if queue.pod_spec else {}
    return spec


def _value(queue: TorchrunQueue, key: str) -> Traced | None:
    spec = _spec(queue)
    return copied(queue.document, (*_POD, key), spec[key]) if spec.get(key) else None


def _entries(queue: TorchrunQueue, key: str) -> dict[str, Traced]:
    found = _value(queue, key)
    if found is None or not isinstance(found.value, dict):
        return {}
    return {name: copied(queue.document, (*_POD, key, name), value) for name, value in found.value.items()}


def _list(queue: TorchrunQueue, path: tuple[str | int, ...], items: Any) -> tuple[Traced, ...]:
    items = items if isinstance(items, list) else []
    return tuple(
        item if isinstance(item, Traced) else copied(queue.document, (*path, index), item)
        for index, item in enumerate(items)
        if isinstance(item, dict | Traced)
    )


def _amounts(queue: TorchrunQueue, resources: Mapping[str, Any], part: str) -> dict[str, Traced]:
    """Return the requests of the pod template besides GPUs, which every job requests itself."""
    amounts = resources.get(part)
    at = (*_POD, "containers", 0, "resources", part)
    keys = {vendor.resource for vendor in Vendor}
    return {
        key: copied(queue.document, (*at, key), value)
        for key, value in (amounts.items() if isinstance(amounts, dict) else ())
        if key not in keys
    }


def _prefix_claims(queue: TorchrunQueue, volumes: Any) -> Any:
    """Return the volumes with claims of prefixed queue resources under their rendered names."""
    prefixed = {
        extra.name.value: extra
        for extra in queue.resources
        if extra.prefixed and extra.template.value["kind"] == "PersistentVolumeClaim"
    }
    if not prefixed or not isinstance(volumes, list):
        return volumes
    return [_with_claim(queue, volume, index, prefixed) for index, volume in enumerate(volumes)]


def _with_claim(queue: TorchrunQueue, volume: Any, index: int, prefixed: Mapping[str, Any]) -> Any:
    claim = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
    name = claim.get("claimName") if isinstance(claim, dict) else None
    if claim is None or not isinstance(name, str) or name not in prefixed:
        return volume
    at = (*_POD, "volumes", index)
    tree = {key: copied(queue.document, (*at, key), value) for key, value in volume.items()}
    inner = {key: copied(queue.document, (*at, "persistentVolumeClaim", key), value) for key, value in claim.items()}
    text = f"the queue's resource {name} is rendered with the queue's name before its own (nameMode: prefix)"
    origins = (*inner["claimName"].reason.origins, *prefixed[name].name.reason.origins)
    inner["claimName"] = Traced(f"{queue.name}-{name}", Reason(rule="torchrun.prefix", text=text, origins=origins))
    tree["persistentVolumeClaim"] = Traced(inner, Reason(rule="torchrun.prefix", text=text, origins=origins))
    return Traced(tree, Reason(rule="source", origins=(Origin(document=queue.document, field=at),)))


def _vendor(queue: TorchrunQueue, cluster: Cluster, node_selector: Mapping[str, Traced]) -> Vendor:
    """Return the GPU vendor: by resource key, else by the words of gpuType and nodeSelector, else the cluster's."""
    if queue.vendor:
        return queue.vendor
    kind = [queue.node.gpu_type.value] if queue.node.gpu_type else []
    selector = [f"{key} {value.value}" for key, value in node_selector.items()]
    return vendor_in(kind) or vendor_in(selector) or cluster.vendor


def _of_type(
    queue: TorchrunQueue,
    nodes: Sequence[Node],
    inventory: Inventory | None,
    problems: list[Problem],
) -> Sequence[Node]:
    """Return the nodes of the requested GPU type: every word of it is in the product's name."""
    wanted = queue.node.gpu_type
    if wanted is None or inventory is None:
        return nodes
    words = product_words(wanted.value)
    matching = [node for node in nodes if words <= product_words(node.product)]
    if not any(words <= product_words(node.product) for node in inventory.nodes):
        products = sorted({node.product for node in inventory.nodes if node.product})

        close = get_close_matches(wanted.value.lower(), [product.lower() for product in products], n=1, cutoff=0.3)
        near = [product for product in products if product.lower() in close]
        message = f"no node in the evidence of {queue_cluster(inventory)} has a GPU of type {wanted.value!r}"
        hint = f"did you mean {near[0]}?" if near else f"known products: {', '.join(products) or 'none'}"
        problems.append(problem_at(wanted, "torchrun.gpu-type-unknown", message, hint, severity=Severity.WARNING))
    return matching


def queue_cluster(inventory: Inventory) -> str:
    """Return the name of the cluster that the evidence describes."""
    return inventory.cluster


def _node_sizes(
    queue: TorchrunQueue, nodes: Sequence[Node], inventory: Inventory | None
) -> tuple[Traced | None, tuple[NodeKind, ...], tuple[Origin, ...]]:
    """Return GPUs of a whole node and the kinds of node to spread over: as the queue says, else the evidence."""
    given = queue.node.gpus
    if given is not None:
        kinds: tuple[NodeKind, ...] = (NodeKind(gpus=given.value),) if given.value > 0 else ()
        return given, kinds, given.reason.origins
    if not nodes or inventory is None or inventory.document is None:
        return None, (), ()
    kinds = node_kinds(nodes)
    origins = tuple(
        Origin(document=inventory.document, field=next(node.origin for node in nodes if node.gpus == kind.gpus))
        for kind in kinds
    )
    text = f"the largest nodes measured on {inventory.cluster} have {plural(kinds[0].gpus, 'GPU')}"
    return Traced(kinds[0].gpus, Reason(rule="torchrun.node-size", text=text, origins=origins[:1])), kinds, origins


def _measured(nodes: Sequence[Node], inventory: Inventory | None) -> Traced | None:
    """Return the GPUs of the nodes that a queue may use, as the evidence lists them."""
    if not nodes or inventory is None or inventory.document is None:
        return None
    gpus = sum(node.gpus for node in nodes)
    text = f"all GPUs of its nodes that were measured on {inventory.cluster}, because the queue has no quota"
    origin = Origin(document=inventory.document, field=nodes[0].origin)
    return Traced(gpus, Reason(rule="torchrun.quota", text=text, origins=(origin,)))


def _warn_full_node(queue: TorchrunQueue, nodes: Sequence[Node]) -> Iterator[Problem]:
    """Warn of pods that leave no CPU for the daemons of a node: they fit no node and wait forever."""
    cpus, most = queue.node.cpus, max((node.cpus for node in nodes), default=0)
    if cpus is None or most == 0 or whole_cpus(cpus.value) < most:
        return
    cpu_count = "1 CPU" if cpus.value == "1" else f"{cpus.value} CPUs"
    message = f"a pod that uses a whole node requests {cpu_count}, but the largest measured node has {most}"
    hint = "leave some for the kubelet and DaemonSets: use Allocatable of `kubectl describe node` minus their requests"
    yield problem_at(cpus, "torchrun.node-cpus", message, hint, severity=Severity.WARNING)


def _product_selector(
    queue: TorchrunQueue,
    nodes: Sequence[Node],
    node_selector: Mapping[str, Traced],
    inventory: Inventory | None,
) -> dict[str, Traced]:
    """Select the only measured product that matches gpuType, unless the queue selects one itself."""
    wanted = queue.node.gpu_type
    if wanted is None or inventory is None or inventory.document is None:
        return {}
    for label in PRODUCT_LABELS:
        products = {node.labels[label] for node in nodes if label in node.labels}
        if label in node_selector or len(products) != 1:
            continue
        product = products.pop()
        origin = next(node.origin for node in nodes if node.labels.get(label) == product)
        text = f"gpuType {wanted.value} is the product {product} in the evidence of {inventory.cluster}"
        origins = (*wanted.reason.origins, Origin(document=inventory.document, field=origin))
        return {label: Traced(product, Reason(rule="torchrun.gpu-type", text=text, origins=origins))}
    return {}


def _warn_any_gpu(
    queue: TorchrunQueue,
    cluster: Cluster,
    nodes: Sequence[Node],
    selector: Collection[str],
    inventory: Inventory | None,
) -> Iterator[Problem]:
    """Warn of a gpuType that selects no nodes: one that nobody measured, or that is said of several products."""
    wanted = queue.node.gpu_type
    if wanted is None or not set(PRODUCT_LABELS).isdisjoint(selector):
        return
    if inventory is None or inventory.document is None:
        why = f"there is no evidence of cluster {cluster.name}"
        hint = f"commit evidence/{cluster.name}/nodes.yaml, or set scheduling.nodeSelector"
    elif nodes:
        products = sorted({node.product for node in nodes})
        why = (
            f"it matches {' and '.join(products)}"
            if len(products) > 1
            else "the nodes have no label with their product"
        )
        hint = "use more of the product's name, or set scheduling.nodeSelector"
    else:
        return
    message = f"gpuType {wanted.value!r} selects no nodes, because {why}: pods may run on any GPU"
    yield problem_at(wanted, "torchrun.gpu-type-unselected", message, hint, severity=Severity.WARNING)


def _warn_devices(amounts: Mapping[str, Traced]) -> Iterator[Problem]:
    """Warn of several devices that no vendor's whole GPUs are: torchrun starts one process, which uses one of them."""
    for name, amount in amounts.items():
        count = devices_in({name: int(amount.value)}) if str(amount.value).isdecimal() else {}
        if sum(count.values()) > 1:
            message = f"requests {amount.value} {name}, but torchrun starts one process, which uses one of them"
            hint = "request one device, and more pods with numNodes; or whole GPUs with numGPUs"
            yield problem_at(amount, "torchrun.devices", message, hint, severity=Severity.WARNING)


def _ignored_fields(queue: TorchrunQueue, cluster: Cluster) -> Iterator[Problem]:
    """Report fields of the pod template that are derived from the job."""
    spec, trainer = _spec(queue), trainer_of(queue)
    written: list[tuple[tuple[str | int, ...], str]] = [((*_POD, key), key) for key in _OWN_POD if key in spec]
    written += [((*_POD, "containers", 0, key), f"the trainer's {key}") for key in _OWN_TRAINER if key in trainer]
    for path, words in written:
        value = copied(queue.document, path, None)
        message = f"{words} is ignored, because it is derived from the job"
        yield problem_at(value, "torchrun.unsupported", message, "remove it", severity=Severity.WARNING)
    scheduler = queue.scheduling.scheduler or _value(queue, "schedulerName")
    if cluster.backend is Backend.KAI and scheduler and scheduler.value != SCHEDULER:
        message = f"cluster {cluster.name} uses KAI, which ignores pods of scheduler {scheduler.value!r}"
        hint = f"use {SCHEDULER}, or remove it"
        yield problem_at(scheduler, "torchrun.scheduler", message, hint, severity=Severity.WARNING)
