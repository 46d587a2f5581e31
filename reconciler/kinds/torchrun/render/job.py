"""A TorchrunJob as manifests: the workload, the Service by which its pods find each other, and its claims."""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.kueue.labels import QUEUE_LABEL
from reconciler.kinds.manifests.generations import generation_reason
from reconciler.kinds.manifests.manifest import Manifest, manifest
from reconciler.kinds.rendered import Rendered, has_errors, problem_at
from reconciler.kinds.torchrun.intent.job import TorchrunJob
from reconciler.kinds.torchrun.intent.sections import Claim, Storage, WorkspaceSource, merge_section, merge_storage
from reconciler.kinds.torchrun.networks import Network, find_network
from reconciler.kinds.torchrun.render.code import DIGEST, Code, forward_environment, resolve_code, sync_container
from reconciler.kinds.torchrun.render.command import Rendezvous, find_rendezvous, trainer_command
from reconciler.kinds.torchrun.render.dispatch import check_dispatch
from reconciler.kinds.torchrun.render.pods import Pod, code_folder, pod_template
from reconciler.kinds.torchrun.render.shape import INDEXED_JOB, JobShape, WorkloadKind, resolve_shape, workload_for
from reconciler.kinds.torchrun.render.storage import (
    CHECKPOINTS_PATH,
    DATASETS_PATH,
    WORKSPACE_PATH,
    WORKSPACE_SIZE,
    Mounted,
    claim_volume,
    shared_memory,
    size_of,
    total_gpus,
    volume_claim,
)
from reconciler.kinds.torchrun.render.template import Template
from reconciler.kinds.torchrun.render.workload import workload_trees
from reconciler.kube.objects import ObjectKey
from reconciler.kube.patterns import LETTER_LABEL, is_label_value
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin, Reason, Traced, copied
from reconciler.repo.config import Backend

Generation = Callable[[ObjectKey], str]
"""Returns the suffix of the generation in which an object runs; empty if it runs under its own name."""


def render_objects(
    job: TorchrunJob, template: Template, generation: Generation, problems: list[Problem]
) -> Iterator[Manifest]:
    """Yield the manifests of a job. If an error is added to `problems`, the caller drops them."""
    distributed = merge_section(job.distributed, template.queue.distributed)
    shape = resolve_shape(job, distributed, template, problems)
    if shape is None:
        return
    wanted = job.workload or template.queue.workload
    workload = workload_for(template, shape.nodes.value, wanted)
    job = replace(job, generation=generation(_key(workload, job.name, _namespace(job, template))))
    storage = merge_storage(job.storage, template.queue.storage)
    code = _code(job, template, storage.workspace, problems)
    _check_name(job, shape, workload, code, problems)
    rendezvous = None
    if shape.nodes.value > 1:
        rendezvous = find_rendezvous(job, distributed, shape, workload, problems)
    network = find_network(job, template.queue, problems) if shape.nodes.value > 1 else None
    labels = _labels(job, template)
    pod = Pod(
        job=job,
        template=template,
        shape=shape,
        workload=workload,
        distributed=distributed,
        scheduling=job.scheduling,
        workspace=storage.workspace,
        code=code,
        network=network,
        command=trainer_command(job, shape, workload, rendezvous, network),
        mounted=tuple(_volumes(job, template, storage, shape, network, problems)),
        labels=labels | _pod_labels(job, template),
    )
    problems += check_dispatch(pod)
    trees = [
        *_claims(job, template, storage, shape, code, labels, problems),
        *([_service(job, template, rendezvous, labels)] if rendezvous and workload.service else []),
        *([_sync_job(pod, code, code.source, labels, generation)] if code and code.source and code.inplace else []),
        *workload_trees(pod, pod_template(pod, problems), _metadata(job, template, labels), problems),
    ]
    reason = Reason(rule="torchrun.job", text="rendered for the job", origins=(Origin(document=job.document),))
    chosen = template.queue.on_immutable_change
    for tree in trees:
        yield manifest(
            cluster=template.cluster.name,
            tree=tree,
            source=job.document.source,
            reason=reason,
            on_immutable_change=chosen.value if chosen else "",
        )


def unknown_queue(job: TorchrunJob, known_queues: tuple[str, ...]) -> Rendered:
    """Return the problem of a job whose queue does not exist."""
    near = get_close_matches(job.queue, known_queues, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known queues: {', '.join(known_queues) or 'none'}"
    message = f"TorchrunQueue {job.queue!r} not found in the job's namespace"
    return Rendered(problems=(problem_at(job.queue_ref, "torchrun.queue-unknown", message, hint),))


def render(job: TorchrunJob, template: Template, generation: Generation) -> Rendered:
    """Render a job in a queue."""
    problems: list[Problem] = []
    manifests = tuple(render_objects(job, template, generation, problems))
    return Rendered(manifests=() if has_errors(problems) else manifests, problems=tuple(problems))


def _key(workload: WorkloadKind, name: str, namespace: str) -> ObjectKey:
    return ObjectKey(group=workload.group, kind=workload.kind, namespace=namespace, name=name)


def _namespace(job: TorchrunJob, template: Template) -> str:
    return job.namespace or template.cluster.namespace


def _labels(job: TorchrunJob, template: Template) -> dict[str, Any]:
    labels: dict[str, Any] = {
        "torchrun-job-name": job.name,
        "torchrun.ai/job-name": job.job_name,
        "torchrun.ai/job-queue": template.job_queue,
    }
    if job.job_id:
        labels["torchrun.ai/job-id"] = job.job_id
    return labels


def _pod_labels(job: TorchrunJob, template: Template) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    priority = job.scheduling.priority or template.priority
    if template.gpu_type and is_label_value(template.gpu_type.value):
        labels["torchrun.ai/gpu-type"] = template.gpu_type
    if template.cluster.backend is Backend.KAI:
        labels["kai.scheduler/queue"] = template.scheduler_queue
        if priority:
            labels["priorityClassName"] = priority
    return labels


def _metadata(job: TorchrunJob, template: Template, labels: dict[str, Any]) -> dict[str, Any]:
    """Return the workload's metadata: under KAI and Kueue its labels name the queue, under KAI also the priority.

    Kueue takes the priority of the pods, so that the same PriorityClass serves under each backend.
    """
    own: dict[str, Any] = {"app": "torchrun", **labels}
    if template.cluster.backend is Backend.KAI:
        own |= _pod_labels(job, template)
    elif template.cluster.backend is Backend.KUEUE:
        own[QUEUE_LABEL] = template.job_queue
    name = copied(job.document, ("metadata", "name"), job.name)
    if job.generation:
        name = Traced(job.workload_name, generation_reason(job.name, name.reason.origins))
    metadata = {"name": name, "namespace": _namespace(job, template), "labels": own}
    # Schedulers read annotations of the workload, such as KAI's topology; of pods they have them all the same.
    return metadata | ({"annotations": dict(job.annotations)} if job.annotations else {})


def _code(job: TorchrunJob, template: Template, claim: Claim, problems: list[Problem]) -> Code | None:
    workspace = merge_section(job.workspace, template.queue.workspace)
    if not claim.wanted:
        return None
    return resolve_code(workspace, job.queue_ref, problems, has_claim=claim.claim is not None)


def _check_name(
    job: TorchrunJob, shape: JobShape, workload: WorkloadKind, code: Code | None, problems: list[Problem]
) -> None:
    """Report a job whose pods would have invalid host names, which are DNS labels of at most 63 characters."""
    longest = workload.pod_name(job.workload_name, shape.nodes.value - 1)
    if code and code.inplace:
        longest = max(longest, f"{job.name}-sync-{'0' * 8}-0", key=len)
    has_letter = shape.nodes.value > 1 or workload is not INDEXED_JOB
    label = LETTER_LABEL.fullmatch(job.name if has_letter else f"x{job.name}")
    if label and len(longest) <= _LABEL_LENGTH:
        return
    name = copied(job.document, ("metadata", "name"), job.name)
    message = f"{job.name!r} is too long or not valid for the host names of the pods ({longest})"
    hint = (
        f"use at most {_LABEL_LENGTH - len(longest) + len(job.name)} lowercase letters, digits or `-`, a letter first"
    )
    problems.append(problem_at(name, "torchrun.name", message, hint))


_LABEL_LENGTH = 63  # of a host name, which is a label of DNS


def _volumes(  # noqa: PLR0917 - the resolved parts of one job
    job: TorchrunJob,
    template: Template,
    storage: Storage,
    shape: JobShape,
    network: Network | None,
    problems: list[Problem],
) -> Iterator[Mounted]:
    if storage.datasets.wanted:
        if not (storage.datasets.claim or template.queue.storage.datasets.wanted):
            message = f"queue {template.queue.name} has no datasets to mount"
            hint = "add them to storage.datasets of the queue, or set claimName"
            anchor = storage.datasets.enabled or storage.datasets.mount_path or job.queue_ref
            problems.append(problem_at(anchor, "torchrun.datasets", message, hint))
        claim = storage.datasets.claim or f"{template.queue.name}-datasets"
        yield claim_volume("datasets", claim, storage.datasets.mount_path or DATASETS_PATH, read_only=True)
    if storage.checkpoints.wanted:
        claim = storage.checkpoints.claim or f"{job.name}-checkpoints"
        yield claim_volume("checkpoints", claim, storage.checkpoints.mount_path or CHECKPOINTS_PATH)
    yield from shared_memory(storage.shm_per_gpu, shape.gpus, network, problems)


def _claims(  # noqa: PLR0917 - the resolved parts of one job
    job: TorchrunJob,
    template: Template,
    storage: Storage,
    shape: JobShape,
    code: Code | None,
    labels: dict[str, Any],
    problems: list[Problem],
) -> Iterator[dict[str, Any]]:
    """Yield the job's own claims; existing ones are only mounted."""
    several, namespace = shape.nodes.value > 1, _namespace(job, template)
    workspace, checkpoints = storage.workspace, storage.checkpoints
    if code and not code.existing and workspace.claim is None:
        size = size_of(workspace, total_gpus(shape), "workspace", problems) or WORKSPACE_SIZE
        yield volume_claim(
            name=f"{job.name}-workspace",
            namespace=namespace,
            claim=workspace,
            labels={**labels, "torchrun.ai/type": "workspace"},
            size=size,
            shared=several or code.inplace,
        )
    for claim in (workspace, checkpoints):
        _check_access(claim, shape, problems)
    if checkpoints.wanted and checkpoints.claim is None:
        found = size_of(checkpoints, total_gpus(shape), "checkpoints", problems)
        if found is None:
            message = "checkpoints have no size"
            hint = "set size, sizePerGPU, or claimName of an existing volume"
            problems.append(problem_at(checkpoints.enabled or job.queue_ref, "torchrun.size", message, hint))
            return
        yield volume_claim(
            name=f"{job.name}-checkpoints",
            namespace=namespace,
            claim=checkpoints,
            labels={**labels, "torchrun.ai/type": "checkpoints"},
            size=found,
            shared=several,
            keep=_keep(checkpoints),
        )


def _check_access(claim: Claim, shape: JobShape, problems: list[Problem]) -> None:
    """Warn of a new volume for pods on several nodes that only one node can mount: the other pods would wait."""
    modes = claim.access_modes
    if modes is None or claim.claim is not None or shape.nodes.value == 1:
        return
    if not {"ReadWriteMany", "ReadOnlyMany"} & set(modes.value):
        message = f"pods on {shape.nodes.value} nodes use the volume, but {', '.join(modes.value)} allows one node"
        found = problem_at(modes, "torchrun.access-mode", message, "use ReadWriteMany", severity=Severity.WARNING)
        problems.append(found)


_PERSIST = Traced(
    "true",
    Reason(rule="torchrun.default", text="checkpoints are kept after the job, unless persist is false"),
)


def _keep(claim: Claim) -> Traced | None:
    if claim.persist is None:
        return _PERSIST
    if not claim.persist.value:
        return None
    return Traced("true", Reason(rule="torchrun.persist", text="persist is true", origins=claim.persist.reason.origins))


def _service(job: TorchrunJob, template: Template, rendezvous: Rendezvous, labels: dict[str, Any]) -> dict[str, Any]:
    """Return the headless Service that names every pod before it is ready, because pods wait for each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": job.workload_name, "namespace": _namespace(job, template), "labels": labels},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": job.workload_name},
            "ports": [{"name": "rendezvous", "port": rendezvous.port}],
        },
    }


_SYNC_POD = ("serviceAccountName", "imagePullSecrets", "securityContext", "hostAliases", "dnsConfig", "dnsPolicy")
"""Fields of the queue's pods that decide whether a sync may run, and what it reaches."""

_SYNC_DEADLINE = Traced(3600, Reason(rule="torchrun.default", text="a sync is stopped after one hour"))


def _sync_job(
    pod: Pod, code: Code, source: WorkspaceSource, labels: dict[str, Any], generation: Generation
) -> dict[str, Any]:
    """Return the Job that fetches the code in place. A new source renders a new Job and changes nothing else."""
    job, template = pod.job, pod.template
    own = {**labels, "torchrun.ai/role": "sync"}
    queued: dict[str, Any] = {}
    if template.cluster.backend is Backend.KUEUE:  # Kueue may hold back every Job that is not in a queue
        queued[QUEUE_LABEL] = template.job_queue
    claim = pod.workspace.claim or f"{job.name}-workspace"
    digest = code.digest
    name = f"{job.name}-sync-{digest.value[:8]}"
    suffix = generation(_key(INDEXED_JOB, name, _namespace(job, template)))
    spec: dict[str, Any] = {key: template.pod[key] for key in _SYNC_POD if key in template.pod}
    spec["restartPolicy"] = "OnFailure"
    env = forward_environment([*template.env, *job.env])
    spec["containers"] = [sync_container(code, source, template, env, code_folder(pod))]
    spec["volumes"] = [claim_volume("workspace", claim, WORKSPACE_PATH).volume]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": Traced(
                f"{name}{suffix}", generation_reason(name, digest.reason.origins) if suffix else digest.reason
            ),
            "namespace": _namespace(job, template),
            "labels": own | queued,
            "annotations": {DIGEST: digest},
        },
        "spec": {
            "backoffLimit": 3,
            "activeDeadlineSeconds": _SYNC_DEADLINE,
            "template": {"metadata": {"labels": own}, "spec": spec},
        },
    }
