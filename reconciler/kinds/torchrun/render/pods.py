"""The pod template of a job: the queue's pod, the job's own parts, and the trainer with its share of a node."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.kai import SCHEDULER
from reconciler.kinds.rendered import place, problem_at
from reconciler.kinds.torchrun.intent.job import TorchrunJob
from reconciler.kinds.torchrun.intent.sections import Claim, Distributed, Scheduling
from reconciler.kinds.torchrun.networks import Network, conflicts
from reconciler.kinds.torchrun.render.amounts import share_of_cpus, share_of_memory
from reconciler.kinds.torchrun.render.code import DIGEST, Code, forward_environment, sync_container, waiting_container
from reconciler.kinds.torchrun.render.shape import JobShape, WorkloadKind
from reconciler.kinds.torchrun.render.storage import WORKSPACE_PATH, Mounted, claim_volume, network_volumes
from reconciler.kinds.torchrun.render.template import Template
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Reason, Traced
from reconciler.kube.values import plural
from reconciler.repo.config import Backend


def merge_env(own: list[Any], queue: tuple[Traced, ...], job: tuple[Traced, ...], problems: list[Problem]) -> list[Any]:
    """Return our variables, then those of the queue, then those of the job; of one name, the last one is kept."""
    if not queue and not job:
        return own
    of_job = {item.value.get("name"): item for item in job}
    kept = []
    for item in queue:
        name = item.value.get("name")
        over = of_job.get(name)
        if over is None:
            kept.append(item)
        elif over.value != item.value:
            _warn_override(over, item, f"variable {name}", problems)
    taken = {item.value.get("name") for item in (*queue, *job)}
    return [*(item for item in own if _plain(_fields(item), "name") not in taken), *kept, *job]


def merge_entries(
    queue: Mapping[str, Traced], job: Iterable[tuple[str, Traced]], what: str, problems: list[Problem]
) -> dict[str, Any]:
    """Return labels or the like of the queue under those of the job; an overridden value is a warning."""
    merged: dict[str, Any] = dict(queue)
    for key, value in job:
        if key in queue and queue[key].value != value.value:
            _warn_override(value, queue[key], f"{what} {key}", problems)
        merged[key] = value
    return merged


def merge_volumes(
    own: list[dict[str, Any]], queue: tuple[Traced, ...], job: tuple[Traced, ...], problems: list[Problem]
) -> list[Any]:
    """Return all volumes; two volumes of one name are a problem."""
    seen: dict[Any, Traced | None] = {volume["name"]: None for volume in own}
    for item in (*queue, *job):
        _unique(seen, item, _plain(item.value, "name"), "volume", problems)
    return [*own, *queue, *job]


def merge_mounts(
    own: list[dict[str, Any]],
    queue: tuple[Traced, ...],
    job: tuple[Traced, ...],
    volumes: list[Any],
    problems: list[Problem],
) -> list[Any]:
    """Return all mounts; two at one path are a problem, and each needs its volume."""
    if not queue and not job:
        return own
    seen: dict[Any, Traced | None] = {_plain(mount, "mountPath"): None for mount in own}
    names = [_plain(volume.value if isinstance(volume, Traced) else volume, "name") for volume in volumes]
    for item in (*queue, *job):
        _unique(seen, item, item.value.get("mountPath"), "mount path", problems)
        if item.value.get("name") not in names:
            message = f"volume {item.value.get('name')!r} not found"
            hint = f"known volumes: {', '.join(map(str, names)) or 'none'}"
            problems.append(problem_at(item, "torchrun.mount-unknown", message, hint))
    return [*own, *queue, *job]


def _fields(item: Mapping[str, Any] | Traced) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = item.value if isinstance(item, Traced) else item
    return fields


def _plain(mapping: Mapping[str, Any], key: str) -> Any:
    value = mapping.get(key)
    return value.value if isinstance(value, Traced) else value


def _unique(seen: dict[Any, Traced | None], item: Traced, name: Any, what: str, problems: list[Problem]) -> None:
    if name not in seen:
        seen[name] = item
        return
    other = seen[name]
    where = f"at {place(other)}" if other else "by the storage of the job"
    message = f"{what} {name!r} is already used {where}"
    problems.append(problem_at(item, "torchrun.clash", message, "choose a different one"))


def _warn_override(job: Traced, queue: Traced, what: str, problems: list[Problem]) -> None:
    message = f"{what} overrides the one of the queue at {place(queue)}"
    problems.append(problem_at(job, "torchrun.override", message, severity=Severity.WARNING))


class Pod(Struct, frozen=True, kw_only=True):
    """The resolved parts of a pod template."""

    job: TorchrunJob
    template: Template
    shape: JobShape
    workload: WorkloadKind
    distributed: Distributed
    scheduling: Scheduling
    workspace: Claim
    code: Code | None
    network: Network | None
    command: list[str | Traced]
    mounted: tuple[Mounted, ...]
    labels: dict[str, Any]


_KAI = Traced(SCHEDULER, Reason(rule="torchrun.default", text="the cluster uses KAI"))
_SERVICE_NAME = Reason(rule="torchrun.service", text="pods find each other by the headless Service of the job")
_OWN_STORE = Traced(
    "1",
    Reason(rule="torchrun.elastic", text="a node that joins fails if the processes share the store of the agents"),
)
_RANK = Reason(rule="torchrun.rank", text="the operator labels each pod with its index")
_BACKEND = Traced("nccl", Reason(rule="torchrun.default", text="backend defaults to nccl with GPUs"))
_NO_GPU_BACKEND = Traced("gloo", Reason(rule="torchrun.default", text="backend defaults to gloo without GPUs"))


def pod_template(pod: Pod, problems: list[Problem]) -> dict[str, Any]:
    """Return the tree of the pod template."""
    job, template = pod.job, pod.template
    labels = merge_entries(template.labels, job.labels, "label", problems)
    annotations = merge_entries(template.annotations, job.annotations, "annotation", problems)
    if pod.network:
        problems += conflicts(pod.network, annotations, "annotation")
        annotations = {**pod.network.annotations, **annotations}
    code = pod.code
    if code and code.source and not code.inplace:
        annotations[DIGEST] = code.digest
    metadata: dict[str, Any] = {"labels": {"app": "torchrun", **labels, **pod.labels}}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": _spec(pod, problems)}


def _spec(pod: Pod, problems: list[Problem]) -> dict[str, Any]:
    job, template = pod.job, pod.template
    mounted = (*_with_workspace(pod), *(network_volumes(pod.network) if pod.network else ()))
    volumes = merge_volumes([each.volume for each in mounted], template.volumes, job.volumes, problems)
    mounts = merge_mounts(
        [each.mount for each in mounted if each.mount], template.mounts, job.mounts, volumes, problems
    )
    env = merge_env(_own_env(pod, problems), template.env, job.env, problems)
    spec: dict[str, Any] = dict(template.pod)
    spec |= _placement(pod, problems)
    if pod.network and pod.network.preset.host:
        spec |= {"hostNetwork": pod.network.traced(value=True)}
        # The DNS of the node does not know the Service by which pods find each other.
        spec |= {"dnsPolicy": pod.network.traced("ClusterFirstWithHostNet")}
    sidecar = pod.network.preset.sidecar if pod.network else {}
    inits: list[Any] = [pod.network.traced(sidecar)] if pod.network and sidecar else []
    inits += [*_code_containers(pod, env), *template.init_containers]
    if inits:
        spec["initContainers"] = inits
    spec["containers"] = [_trainer(pod, env, mounts, problems), *template.containers]
    if volumes:
        spec["volumes"] = volumes
    if pod.workload.service and pod.shape.nodes.value > 1:
        spec["subdomain"] = Traced(job.workload_name, _SERVICE_NAME)
    return spec


def _placement(pod: Pod, problems: list[Problem]) -> dict[str, Any]:
    """Return scheduler, priority, selector, tolerations and affinity."""
    template, scheduling = pod.template, pod.scheduling
    spec: dict[str, Any] = {}
    scheduler = scheduling.scheduler or template.scheduler
    if template.cluster.backend is Backend.KAI:
        spec["schedulerName"] = scheduler or _KAI
    elif scheduler and scheduler.value != SCHEDULER:
        spec["schedulerName"] = scheduler
    priority = scheduling.priority or template.priority
    if priority:
        spec["priorityClassName"] = priority
    selector = merge_entries(template.node_selector, scheduling.node_selector, "node selector", problems)
    if selector:
        spec["nodeSelector"] = selector
    tolerations = [*template.tolerations, *scheduling.tolerations]
    if tolerations:
        spec["tolerations"] = tolerations
    affinity = scheduling.affinity or template.affinity
    if affinity:
        spec["affinity"] = affinity
    return spec


def _trainer(pod: Pod, env: list[Any], mounts: list[Any], problems: list[Problem]) -> dict[str, Any]:
    template = pod.template
    container: dict[str, Any] = {"name": pod.workload.container, **template.trainer}
    image = pod.job.image or template.queue.image
    security = pod.network.security(template.trainer.get("securityContext")) if pod.network else None
    if security:
        container["securityContext"] = security
    if image is None:
        message = f"neither the job nor its queue {pod.job.queue} sets an image"
        problems.append(problem_at(pod.job.queue_ref, "torchrun.image", message, "set `image` in the queue"))
    container["image"] = image
    container["command"] = pod.command
    if pod.workspace.wanted and "workingDir" not in container:
        container["workingDir"] = pod.workspace.mount_path or WORKSPACE_PATH
    resources = _resources(pod, problems)
    if resources:
        container["resources"] = resources
    if env:
        container["env"] = env
    if mounts:
        container["volumeMounts"] = mounts
    return container


def _resources(pod: Pod, problems: list[Problem]) -> dict[str, Any]:
    """Return GPUs (request equals limit), and CPU and memory: the template's own, else a share of the node's."""
    template, gpus = pod.template, pod.shape.gpus
    limits: dict[str, Any] = dict(template.limits)
    requests: dict[str, Any] = dict(template.requests)
    if "cpu" not in requests and "cpu" not in limits:
        requests |= _share(pod, "cpu", problems)
    if "memory" not in requests and "memory" not in limits:
        memory = _share(pod, "memory", problems)
        limits |= memory
        requests |= memory
    if pod.network:
        _request_network(pod, pod.network, limits, requests, problems)
    if gpus.value:
        limits[template.gpu_key] = requests[template.gpu_key] = gpus
    parts = (("limits", limits), ("requests", requests))
    return {name: amounts for name, amounts in parts if amounts}


def _request_network(
    pod: Pod, network: Network, limits: dict[str, Any], requests: dict[str, Any], problems: list[Problem]
) -> None:
    """Request what the network needs, unless the pod template says another amount."""
    whole = pod.template.per_node.value if pod.template.per_node else None
    for key, amount in network.resources(pod.shape.gpus.value, whole, problems).items():
        written = limits.get(key) or requests.get(key)
        if written is None:
            limits[key] = requests[key] = amount
        elif str(written.value) != str(amount.value):
            message = f"{written.value} {key} of the pod template replaces {amount.value} of network {network.name}"
            problems.append(problem_at(written, "torchrun.network-conflict", message, severity=Severity.WARNING))
    if any(key.startswith("hugepages-") for key in limits) and not {"cpu", "memory"} & {*limits, *requests}:
        message = f"network {network.name} uses huge pages, which no pod gets without a request of CPU or memory"
        hint = "set nodeResources.cpus and nodeResources.memory in the queue"
        problems.append(problem_at(network.chosen, "torchrun.network", message, hint))
    if network.preset.whole and whole and pod.shape.gpus.value not in (0, whole):
        message = f"network {network.name} needs whole nodes: a pod has {pod.shape.gpus.value} of {whole} GPUs"
        problems.append(
            problem_at(network.chosen, "torchrun.network", message, "request whole nodes, or another network")
        )


def _share(pod: Pod, resource: str, problems: list[Problem]) -> dict[str, Traced]:
    """Return CPU or memory of `nodeResources` in proportion to the pod's share of the GPUs of a node."""
    node, per_node, part = pod.template.queue.node, pod.template.per_node, pod.shape.gpus
    amount = node.cpus if resource == "cpu" else node.memory
    if amount is None:
        return {}
    whole = per_node.value if per_node else 0
    split = share_of_cpus if resource == "cpu" else share_of_memory
    taken = (part.value, whole) if whole and part.value else (1, 1)
    share = split(amount.value, *taken)
    if share is None:
        problems.append(
            problem_at(amount, "torchrun.quantity", f"{amount.value!r} is not a valid quantity of {resource}")
        )
        return {}
    if taken[0] == taken[1]:
        return {
            resource: Traced(share, Reason(rule="torchrun.share", text="a whole node", origins=amount.reason.origins))
        }
    text = f"{taken[0]} of {plural(whole, 'GPU')} per node: {taken[0]}/{whole} of {amount.value} = {share}"
    origins = (*amount.reason.origins, *part.reason.origins)
    return {resource: Traced(share, Reason(rule="torchrun.share", text=text, origins=origins))}


def _own_env(pod: Pod, problems: list[Problem]) -> list[Any]:
    """Return the variables that we set: the backend, and the rank if the operator does not set it."""
    backend, gpus = pod.distributed.backend, pod.shape.gpus
    if backend and backend.value == "mpi":
        message = "torchrun does not start MPI processes; the command itself must configure torch.distributed for MPI"
        hint = "use nccl or gloo"
        problems.append(problem_at(backend, "torchrun.backend", message, hint, severity=Severity.WARNING))
    own_backend = pod.job.distributed.backend
    if own_backend and own_backend.value == "nccl" and not gpus.value:
        message = "nccl requires GPUs, but the job has none"
        problems.append(problem_at(own_backend, "torchrun.backend", message, "use gloo, or request GPUs"))
    if backend is None or (backend.value == "nccl" and not gpus.value):
        backend = _BACKEND if gpus.value else _NO_GPU_BACKEND
    env: list[Any] = [{"name": "TORCH_DISTRIBUTED_BACKEND", "value": backend}]
    if pod.shape.min_nodes:
        env.append({"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": _OWN_STORE})
    if pod.network:
        given = {str(item.value.get("name")): item for item in (*pod.template.env, *pod.job.env)}
        problems += conflicts(pod.network, given, "variable")
        env += list(pod.network.env.values())
    if pod.workload.rank_label and pod.shape.nodes.value > 1:
        field = Traced(f"metadata.labels['{pod.workload.rank_label}']", _RANK)
        env.append({"name": pod.workload.rank, "valueFrom": {"fieldRef": {"fieldPath": field}}})
    return env


def _with_workspace(pod: Pod) -> tuple[Mounted, ...]:
    if not pod.workspace.wanted:
        return pod.mounted
    path = pod.workspace.mount_path or WORKSPACE_PATH
    return claim_volume("workspace", _workspace_claim(pod), path, sub_path=code_folder(pod)), *pod.mounted


def _workspace_claim(pod: Pod) -> Traced | str:
    return pod.workspace.claim or f"{pod.job.name}-workspace"


def code_folder(pod: Pod) -> str:
    """Return the folder of the volume that is the job's workspace; empty for the whole volume.

    Code is fetched into a folder of the job's own, so that it mixes neither with another job's nor with anything
    else on the volume. All pods of a job share it, so that a file is there whatever rank a pod has after a restart.
    """
    return pod.job.name if pod.code and pod.code.source else ""


def _code_containers(pod: Pod, env: list[Any]) -> list[dict[str, Any]]:
    code, folder = pod.code, code_folder(pod)
    if code is None or code.source is None:
        return []
    if code.inplace:
        return [waiting_container(code, pod.template, folder)]
    return [sync_container(code, code.source, pod.template, forward_environment(env), folder)]
