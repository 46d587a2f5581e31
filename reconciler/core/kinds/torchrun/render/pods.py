"""The pod template of a job: the queue's pod, the job's own parts, and the trainer with its share of a node."""

from typing import Any

from msgspec import Struct

from reconciler.core.config import Backend
from reconciler.core.kinds.rendered import about
from reconciler.core.kinds.torchrun.intent.job import TorchrunJob
from reconciler.core.kinds.torchrun.intent.sections import Claim, Distributed, Scheduling
from reconciler.core.kinds.torchrun.render.amounts import share_of_cpus, share_of_memory
from reconciler.core.kinds.torchrun.render.code import (
    DIGEST,
    Code,
    forwarded,
    sync_container,
    waiting_container,
)
from reconciler.core.kinds.torchrun.render.kinds import Workload
from reconciler.core.kinds.torchrun.render.merge import merged_entries, merged_env, merged_mounts, merged_volumes
from reconciler.core.kinds.torchrun.render.shape import Shape
from reconciler.core.kinds.torchrun.render.storage import WORKSPACE_PATH, Mounted, claim_volume
from reconciler.core.kinds.torchrun.render.template import KAI_SCHEDULER, Template
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Reason, Traced


class Pod(Struct, frozen=True, kw_only=True):
    """What a pod template is made of, all settled."""

    job: TorchrunJob
    template: Template
    shape: Shape
    workload: Workload
    distributed: Distributed
    scheduling: Scheduling
    workspace: Claim
    code: Code | None
    command: list[str | Traced]
    mounted: tuple[Mounted, ...]
    labels: dict[str, Any]


_KAI = Traced(KAI_SCHEDULER, Reason(rule="torchrun.default", text="the cluster uses KAI"))
_SERVICE_NAME = Reason(rule="torchrun.service", text="pods find each other by the headless Service of the job")
_RANK = Reason(rule="torchrun.rank", text="the operator labels each pod with its index")
_BACKEND = Traced("nccl", Reason(rule="torchrun.default", text="backend defaults to nccl with GPUs"))
_NO_GPU_BACKEND = Traced("gloo", Reason(rule="torchrun.default", text="backend defaults to gloo without GPUs"))


def pod_template(pod: Pod, problems: list[Problem]) -> dict[str, Any]:
    """Return the tree of the pod template."""
    job, template = pod.job, pod.template
    labels = merged_entries(template.labels, job.labels, "label", problems)
    annotations = merged_entries(template.annotations, job.annotations, "annotation", problems)
    code = pod.code
    if code and code.source and not code.inplace:
        annotations[DIGEST] = code.digest
    metadata: dict[str, Any] = {"labels": {"app": "torchrun", **labels, **pod.labels}}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": _spec(pod, problems)}


def _spec(pod: Pod, problems: list[Problem]) -> dict[str, Any]:
    job, template = pod.job, pod.template
    mounted = _with_workspace(pod)
    volumes = merged_volumes([each.volume for each in mounted], template.volumes, job.volumes, problems)
    mounts = merged_mounts([each.mount for each in mounted], template.mounts, job.mounts, volumes, problems)
    env = merged_env(_own_env(pod, problems), template.env, job.env, problems)
    spec: dict[str, Any] = dict(template.pod)
    spec |= _placement(pod, problems)
    inits = [*_code_containers(pod, env), *template.init_containers]
    if inits:
        spec["initContainers"] = inits
    spec["containers"] = [_trainer(pod, env, mounts, problems), *template.containers]
    if volumes:
        spec["volumes"] = volumes
    if pod.workload.service and pod.shape.nodes.value > 1:
        spec["subdomain"] = Traced(job.name, _SERVICE_NAME)
    return spec


def _placement(pod: Pod, problems: list[Problem]) -> dict[str, Any]:
    """Return scheduler, priority, selector, tolerations and affinity."""
    template, scheduling = pod.template, pod.scheduling
    spec: dict[str, Any] = {}
    scheduler = scheduling.scheduler or template.scheduler
    if template.cluster.backend is Backend.KAI:
        spec["schedulerName"] = scheduler or _KAI
    elif scheduler and scheduler.value != KAI_SCHEDULER:
        spec["schedulerName"] = scheduler
    priority = scheduling.priority or template.priority
    if priority:
        spec["priorityClassName"] = priority
    selector = merged_entries(template.node_selector, scheduling.node_selector, "node selector", problems)
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
    if image is None:
        message = f"neither the job nor its queue {pod.job.queue} sets an image"
        problems.append(about(pod.job.queue_ref, "torchrun.image", message, "set `image` in the queue"))
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
    """Return GPUs (request equals limit), and CPU and memory: the template's own, else the pod's share of a node."""
    template, gpus = pod.template, pod.shape.gpus
    limits: dict[str, Any] = dict(template.limits)
    requests: dict[str, Any] = dict(template.requests)
    if "cpu" not in requests and "cpu" not in limits:
        requests |= _share(pod, "cpu", problems)
    if "memory" not in requests and "memory" not in limits:
        memory = _share(pod, "memory", problems)
        limits |= memory
        requests |= memory
    if gpus.value:
        limits[template.gpu_key] = requests[template.gpu_key] = gpus
    parts = (("limits", limits), ("requests", requests))
    return {name: amounts for name, amounts in parts if amounts}


def _share(pod: Pod, resource: str, problems: list[Problem]) -> dict[str, Traced]:
    """Return CPU or memory of `nodeResources` in proportion to the GPUs that the pod takes of its node."""
    node, part = pod.template.queue.node, pod.shape.gpus
    amount = node.cpus if resource == "cpu" else node.memory
    if amount is None:
        return {}
    whole = node.gpus.value if node.gpus and node.gpus.value else 0
    split = share_of_cpus if resource == "cpu" else share_of_memory
    taken = (part.value, whole) if whole and part.value else (1, 1)
    share = split(amount.value, *taken)
    if share is None:
        problems.append(about(amount, "torchrun.quantity", f"{amount.value!r} is not a valid quantity of {resource}"))
        return {}
    if taken[0] == taken[1]:
        return {
            resource: Traced(share, Reason(rule="torchrun.share", text="a whole node", origins=amount.reason.origins))
        }
    text = f"{taken[0]} of {whole} GPUs of a node: {taken[0]}/{whole} of {amount.value} = {share}"
    origins = (*amount.reason.origins, *part.reason.origins)
    return {resource: Traced(share, Reason(rule="torchrun.share", text=text, origins=origins))}


def _own_env(pod: Pod, problems: list[Problem]) -> list[dict[str, Any]]:
    """Return the variables that we set: the backend of torch.distributed, and the rank where the kind sets none."""
    backend, gpus = pod.distributed.backend, pod.shape.gpus
    if backend and backend.value == "mpi":
        message = "torchrun does not start MPI processes; the command itself must configure torch.distributed for MPI"
        hint = "use nccl or gloo"
        problems.append(about(backend, "torchrun.backend", message, hint, severity=Severity.WARNING))
    own_backend = pod.job.distributed.backend
    if own_backend and own_backend.value == "nccl" and not gpus.value:
        message = "nccl requires GPUs, but the job has none"
        problems.append(about(own_backend, "torchrun.backend", message, "use gloo, or request GPUs"))
    if backend is None or (backend.value == "nccl" and not gpus.value):
        backend = _BACKEND if gpus.value else _NO_GPU_BACKEND
    env: list[dict[str, Any]] = [{"name": "TORCH_DISTRIBUTED_BACKEND", "value": backend}]
    if pod.workload.rank_label and pod.shape.nodes.value > 1:
        field = Traced(f"metadata.labels['{pod.workload.rank_label}']", _RANK)
        env.append({"name": pod.workload.rank, "valueFrom": {"fieldRef": {"fieldPath": field}}})
    return env


def _with_workspace(pod: Pod) -> tuple[Mounted, ...]:
    if not pod.workspace.wanted:
        return pod.mounted
    path = pod.workspace.mount_path or WORKSPACE_PATH
    return claim_volume("workspace", _workspace_claim(pod), path, sub_path=_sub_path(pod)), *pod.mounted


def _workspace_claim(pod: Pod) -> Traced | str:
    return pod.workspace.claim or f"{pod.job.name}-workspace"


def _sub_path(pod: Pod) -> str:
    """Return the folder of a pod on the volume: pods that fetch for themselves must not write over each other."""
    code = pod.code
    own = code and code.source and not code.inplace and pod.shape.nodes.value > 1
    return f"$({pod.workload.rank})" if own else ""


def _code_containers(pod: Pod, env: list[Any]) -> list[dict[str, Any]]:
    code = pod.code
    if code is None or code.source is None:
        return []
    if code.inplace:
        return [waiting_container(code)]
    rank = [item for item in env if isinstance(item, dict) and item["name"] == pod.workload.rank]
    return [sync_container(code, code.source, [*rank, *forwarded(env)], _sub_path(pod))]
