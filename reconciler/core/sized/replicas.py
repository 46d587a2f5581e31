"""How many pods of each kind of job: the Master and its Workers, parallel pods, nodes, workers of a group."""

from collections.abc import Callable, Mapping

from reconciler.core.objects import FieldPath, format_path
from reconciler.core.sized.draft import Draft, Row
from reconciler.core.sized.grounds import Grounds, counted
from reconciler.core.sized.resources import as_written
from reconciler.core.training import Kind, TrainingJob

PodSets = Mapping[FieldPath, int]
"""Pods by the path of their template."""


def set_replicas(draft: Draft, job: TrainingJob, grounds: Grounds) -> None:
    """Write the nodes of the layout as the job's kind counts them, and as an AppWrapper that holds it does."""
    pods = _SETTERS[job.kind](draft, job, grounds)
    if job.is_wrapped:
        _set_pod_sets(draft, job, pods, grounds)


def _pytorch_job(draft: Draft, job: TrainingJob, grounds: Grounds) -> PodSets:
    """One Master, the other nodes are Workers: copied from the Master where there are none, gone where none is left."""
    spec: FieldPath = (*job.root, "spec")
    specs: FieldPath = (*spec, "pytorchReplicaSpecs")
    master, worker = (*specs, "Master"), (*specs, "Worker")
    reason = grounds.because("workers", f"{grounds.spread}: a Master and {counted(grounds.workers - 1, 'Worker')}")
    others = grounds.workers - 1
    if others and draft.get(worker) is None:
        draft.duplicate(master, worker, "sizing.worker", f"{grounds.spread}: the Workers are copies of the Master")
    draft.set((*master, "replicas"), 1, reason)
    if others:
        draft.set((*worker, "replicas"), others, reason)
    else:
        draft.remove(worker, reason)
    auto = grounds.because("processes", "as many processes on each node as it has GPUs")
    draft.set((*spec, "nprocPerNode"), "auto", auto)
    _set_gang(draft, (*spec, "runPolicy", "schedulingPolicy"), grounds)
    return {(*master, "template"): 1, (*worker, "template"): others}


def _set_gang(draft: Draft, policy: FieldPath, grounds: Grounds) -> None:
    """Make a gang scheduler wait for as many pods and GPUs as there will be, where it is told a number."""
    pods: FieldPath = (*policy, "minAvailable")
    if draft.get(pods) is not None:
        draft.set(pods, grounds.workers, grounds.because("workers", grounds.spread))
    gpus: FieldPath = (*policy, "minResources", grounds.chosen.gpu.vendor.resource)
    if draft.get(gpus) is not None:
        draft.set(gpus, as_written(draft.get(gpus), grounds.gpus), grounds.because("gpus", grounds.spread))


def _job(draft: Draft, job: TrainingJob, grounds: Grounds) -> PodSets:
    _set_parallel(draft, job, (*job.root, "spec"), grounds)
    return {(*job.root, "spec", "template"): grounds.workers}


def _set_parallel(draft: Draft, job: TrainingJob, spec: FieldPath, grounds: Grounds) -> None:
    """Write parallelism and completions; Indexed, so that every pod knows its number."""
    reason = grounds.because("workers", grounds.spread)
    if not job.is_wrapped:
        draft.remove(("metadata", "annotations", _LEAST), grounds.because("workers", "a sized job starts whole"))
    if job.replicas == grounds.workers:
        return
    for field in ("parallelism", "completions"):
        draft.set((*spec, field), grounds.workers, reason)
    if grounds.workers > 1:
        indexed = grounds.because("indexed", f"{grounds.workers} pods that each know their number")
        draft.set((*spec, "completionMode"), "Indexed", indexed)


_LEAST = "kueue.x-k8s.io/job-min-parallelism"
"""With it Kueue would start a Job with fewer pods than were sized."""


def _job_set(draft: Draft, job: TrainingJob, grounds: Grounds) -> PodSets:
    """Write the nodes where the user counts them: as jobs of one pod, or as the pods of one job."""
    replicated = job.lead.template[: -len(("template", "spec", "template"))]
    replicas: FieldPath = (*replicated, "replicas")
    jobs = job.get(*replicas)
    if isinstance(jobs, int) and jobs > 1:
        draft.set(replicas, grounds.workers, grounds.because("workers", grounds.spread))
    else:
        _set_parallel(draft, job, (*replicated, "template", "spec"), grounds)
    return {job.lead.template: grounds.workers}


def _train_job(draft: Draft, job: TrainingJob, grounds: Grounds) -> PodSets:
    trainer = job.lead.container.path
    draft.set((*trainer, "numNodes"), grounds.workers, grounds.because("workers", grounds.spread))
    per_node: FieldPath = (*trainer, "numProcPerNode")
    if draft.get(per_node) not in {"auto", "gpu"}:  # both mean a process for each GPU of the node
        reason = grounds.because("processes", f"a process for each GPU of a node: {grounds.per_worker}")
        draft.set(per_node, grounds.per_worker, reason)
    return {}


def _ray_job(draft: Draft, job: TrainingJob, grounds: Grounds) -> PodSets:
    """Write as many workers as nodes, no fewer and no more; what Ray is told of their GPUs follows."""
    group = job.lead.template[:-1]
    reason = grounds.because("workers", grounds.spread)
    if group[-1] != "headGroupSpec":
        for field in ("replicas", "minReplicas", "maxReplicas"):
            draft.set((*group, field), grounds.workers, reason)
    told: FieldPath = (*group, "rayStartParams", "num-gpus")
    if draft.get(told) is not None:
        gpus = grounds.because("gpus", grounds.spread)
        draft.set(told, as_written(draft.get(told), grounds.per_worker), gpus)
    return {job.lead.template: grounds.workers} if group[-1] != "headGroupSpec" else {}


def _torchrun_job(draft: Draft, job: TrainingJob, grounds: Grounds) -> PodSets:
    """Write the GPUs in all; its queue spreads them, unless the job counts its nodes itself."""
    draft.set(
        ("spec", "numGPUs"), grounds.gpus, grounds.because("gpus", f"{counted(grounds.gpus, 'GPU')}; {grounds.memory}")
    )
    if job.get("spec", "numNodes") is not None:
        draft.set(("spec", "numNodes"), grounds.workers, grounds.because("workers", grounds.spread))
    return {}


_SETTERS: dict[Kind, Callable[[Draft, TrainingJob, Grounds], PodSets]] = {
    Kind.PYTORCH_JOB: _pytorch_job,
    Kind.JOB: _job,
    Kind.JOB_SET: _job_set,
    Kind.TRAIN_JOB: _train_job,
    Kind.RAY_JOB: _ray_job,
    Kind.TORCHRUN_JOB: _torchrun_job,
}


def _set_pod_sets(draft: Draft, job: TrainingJob, pods: PodSets, grounds: Grounds) -> None:
    """Make the wrapper's own count of pods agree, where it has one: an AppWrapper infers what it does not say."""
    path: FieldPath = (*job.root[:-1], "podSets")
    before = draft.get(path)
    if not isinstance(before, list) or not before:
        return
    reason = grounds.because("workers", f"{grounds.spread}; the wrapper counts the same pods")
    missing = {format_path(template[len(job.root) - 1 :]): count for template, count in pods.items()}
    rows: list[Row] = []
    for index, item in enumerate(before):
        known = isinstance(item, dict) and item.get("path") in missing
        count = missing.pop(item["path"]) if known else None
        if count is None or (count == item.get("replicas", 1) and count):
            rows.append((item, index))
        elif count:
            rows.append(({**item, "replicas": count}, reason))
    rows += [({"path": template, "replicas": count}, reason) for template, count in missing.items() if count]
    draft.set_rows(path, rows)
