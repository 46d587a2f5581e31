"""Training in a PyTorchJob of the training operator, and in a TrainJob of the trainer."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.reasons import Reason
from reconciler.kube.values import mapping, plural, sequence, value_at, with_value
from reconciler.sizing.training_jobs.container import parse_container
from reconciler.sizing.training_jobs.job import (
    Allocation,
    Editor,
    JobFormat,
    PodCounts,
    TrainingJob,
    TrainingPods,
    as_written,
)
from reconciler.sizing.training_jobs.reader import JobReader

_MASTER, _WORKER = "Master", "Worker"
_SPECS = "pytorchReplicaSpecs"
RUNTIME_PATCHES = "runtimePatches"
"""What a TrainJob changes of its runtime; each patch has one manager."""
TEMPLATE_OVERRIDES = "podTemplateOverrides"
"""The same before trainer 2.2, of pods alone: a `spec` for those of `targetJobs`."""
_SPEC_OVERRIDES = "podSpecOverrides"
"""The same before trainer 2.1: the fields stand beside `targetJobs`."""
_PATCHED_JOBS = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_PATCHED_PODS = ("template", "spec", "template", "spec")
_MANAGER = "gpureconciler.io/sizing"
_TRAINER_JOB = "node"
"""Name of the job whose pods train, in the runtimes that ship with the trainer (kubeflow/trainer pkg/constants)."""
_INITIALIZERS = frozenset({"dataset-initializer", "model-initializer"})
"""Names of the jobs that fetch what the trainer needs."""


class _PyTorchJobFormat(JobFormat):
    kind = "PyTorchJob"
    suspend = ("spec", "runPolicy", "suspend")
    passes_process_counts = True

    def set_replicas(self, editor: Editor, job: TrainingJob, allocation: Allocation) -> PodCounts:
        """Write one Master; the other nodes are Workers, copied from the Master if the job has none yet."""
        spec: FieldPath = (*job.root, "spec")
        master, worker = (*spec, _SPECS, _MASTER), (*spec, _SPECS, _WORKER)
        workers = allocation.workers - 1
        text = f"{allocation.spread}: a Master and {plural(workers, 'Worker')}"
        reason = allocation.because("workers", text)
        if workers and editor.get(worker) is None:
            text = f"{allocation.spread}: the Workers are copies of the Master"
            editor.duplicate(master, worker, "sizing.worker", text)
        editor.set((*master, "replicas"), 1, reason)
        if workers:
            editor.set((*worker, "replicas"), workers, reason)
        else:
            editor.remove(worker, reason)
        auto = allocation.because("processes", "as many processes on each node as it has GPUs")
        editor.set((*spec, "nprocPerNode"), "auto", auto)
        _set_gang(editor, (*spec, "runPolicy", "schedulingPolicy"), allocation)
        return {(*master, "template"): 1, (*worker, "template"): workers}

    def containers(self, editor: Editor, job: TrainingJob) -> list[FieldPath]:
        """Return the containers of Master and Worker; a Worker may have been added or removed."""
        lead = job.lead.container.path
        specs: FieldPath = (*job.root, "spec", _SPECS)
        others = [pods.container.path for pods in job.pods[1:]] or [(*specs, _WORKER, *lead[len(specs) + 1 :])]
        return [lead, *(path for path in others if editor.get(path) is not None)]

    def select_product(self, editor: Editor, job: TrainingJob, label: str, product: str, reason: Reason) -> None:
        """Bind all roles."""
        specs: FieldPath = (*job.root, "spec", _SPECS)
        for role in editor.get(specs):
            editor.set((*specs, role, "template", "spec", "nodeSelector", label), product, reason)


def _set_gang(editor: Editor, policy: FieldPath, allocation: Allocation) -> None:
    """Make a gang scheduler wait for all pods and GPUs, if the job says how many it waits for."""
    pods: FieldPath = (*policy, "minAvailable")
    if editor.get(pods) is not None:
        editor.set(pods, allocation.workers, allocation.because("workers", allocation.spread))
    gpus: FieldPath = (*policy, "minResources", allocation.resource)
    if editor.get(gpus) is not None:
        value = as_written(editor.get(gpus), allocation.gpus)
        editor.set(gpus, value, allocation.because("gpus", allocation.spread))


class _TrainJobFormat(JobFormat):
    kind = "TrainJob"
    resources = "resourcesPerNode"
    passes_process_counts = True
    rank_variable = "PET_NODE_RANK"
    main_variable = "PET_MASTER"

    def set_replicas(self, editor: Editor, job: TrainingJob, allocation: Allocation) -> PodCounts:
        """Write the nodes, and the processes per node if they are a number."""
        trainer = job.lead.container.path
        editor.set((*trainer, "numNodes"), allocation.workers, allocation.because("workers", allocation.spread))
        per_node: FieldPath = (*trainer, "numProcPerNode")
        if editor.get(per_node) not in {"auto", "gpu"}:  # both mean one process per GPU of the node
            text = f"one process per GPU of a node: {allocation.per_worker}"
            editor.set(per_node, allocation.per_worker, allocation.because("processes", text))
        return {}

    def select_product(self, editor: Editor, job: TrainingJob, label: str, product: str, reason: Reason) -> None:
        """Add a patch for the pods that train, in the form that the job has already."""
        spec: FieldPath = (*job.root, "spec")
        selector: dict[str, Any] = {"nodeSelector": {label: product}}
        target: dict[str, Any] = {"targetJobs": [{"name": _TRAINER_JOB}]}
        rows = {
            _SPEC_OVERRIDES: {**target, **selector},
            TEMPLATE_OVERRIDES: {**target, "spec": selector},
            RUNTIME_PATCHES: with_value(
                {"manager": _MANAGER},
                _PATCHED_JOBS,
                [with_value({"name": _TRAINER_JOB}, _PATCHED_PODS, selector)],
            ),
        }
        field = next((name for name in rows if editor.get((*spec, name))), RUNTIME_PATCHES)
        before = editor.get((*spec, field)) or []
        editor.set_rows((*spec, field), [*((item, index) for index, item in enumerate(before)), (rows[field], reason)])


_PYTORCH_JOB, _TRAIN_JOB = _PyTorchJobFormat(), _TrainJobFormat()


def pytorch_job_training(reader: JobReader) -> TrainingJob | None:
    """Read a PyTorchJob under the rules of the autoconf controller: a Master, at most a Worker, one container each."""
    path: FieldPath = (*reader.root, "spec", _SPECS)
    specs = reader.mapping("spec", _SPECS)
    _check_roles(reader, list(specs), path)
    if "elasticPolicy" in reader.mapping("spec"):
        hint = "remove elasticPolicy, or the watch label"
        message = "an elastic job runs with any number of pods, so it cannot be sized"
        reader.problem("sizing.shape", (*reader.root, "spec", "elasticPolicy"), message, hint)
    pods = [pod for role in (_MASTER, _WORKER) if role in specs and (pod := _pods(reader, role, path))]
    if not pods or reader.problems:
        return None
    lead, *others = pods
    for other in others:
        _check_same_line(reader, lead, other)
    return TrainingJob(
        document=reader.document,
        format=_PYTORCH_JOB,
        root=reader.root,
        pods=tuple(pods),
        command=lead.container.command,
        args=lead.container.args,
        env=lead.container.env,
        suspended=reader.flag("spec", "runPolicy", "suspend") or reader.is_wrapper_suspended,
    )


def _check_roles(reader: JobReader, roles: list[str], path: FieldPath) -> None:
    hint = "use a Master, and at most a Worker"
    if len(roles) > len((_MASTER, _WORKER)):
        message = f"has {len(roles)} replica specs ({', '.join(roles)})"
        reader.problem("sizing.replica-specs", path, message, hint)
        return
    for role in roles:
        if role not in {_MASTER, _WORKER}:
            reader.problem("sizing.replica-specs", (*path, role), f"{role!r} is neither Master nor Worker", hint)
    if _MASTER not in roles:
        message = f"has no Master, only {' and '.join(roles)}" if roles else "has no Master"
        reader.problem("sizing.master", path, message, "put the launch line into the Master's container")


def _pods(reader: JobReader, role: str, path: FieldPath) -> TrainingPods | None:
    template: FieldPath = (*path, role, "template")
    container = reader.only_container(template)
    if container is None:
        return None
    replicas = reader.count("spec", _SPECS, role, "replicas")
    return TrainingPods(role=role, replicas=replicas, container=container, template=template)


def _check_same_line(reader: JobReader, lead: TrainingPods, other: TrainingPods) -> None:
    """Report pods that run another line than the Master: their needs are unknown."""
    for field in ("command", "args"):
        if getattr(lead.container, field) != getattr(other.container, field):
            message = f"{other.role} runs a different {field} than {lead.role}"
            hint = f"make both equal, or remove {other.role}: it is copied from {lead.role} when it is needed"
            reader.problem("sizing.worker-differs", (*other.container.path, field), message, hint)


def train_job_training(reader: JobReader) -> TrainingJob | None:
    """Read a TrainJob with a command of its own; that of its runtime is not in the document."""
    path: FieldPath = (*reader.root, "spec", "trainer")
    container = parse_container(reader.mapping("spec", "trainer"), path, resources=_TRAIN_JOB.resources)
    if not container.command and not container.args:
        hint = "set command and args: the command of the runtime is not in this file"
        reader.problem("sizing.shape", path, "the trainer has no command of its own", hint)
        return None
    if reader.check_container(container) is None:
        return None
    overrides = [(*reader.root, "spec", *path) for path, _ in overridden_pods(reader.mapping("spec"))]
    return TrainingJob(
        document=reader.document,
        format=_TRAIN_JOB,
        root=reader.root,
        pods=(TrainingPods(role="node", replicas=reader.count("spec", "trainer", "numNodes"), container=container),),
        command=container.command,
        args=container.args,
        env=container.env,
        suspended=reader.flag("spec", "suspend") or reader.is_wrapper_suspended,
        node_selectors=tuple((*path, "nodeSelector") for path in overrides),
        node_affinities=tuple((*path, "affinity") for path in overrides),
    )


def overridden_pods(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """Yield where a TrainJob has fields of pods that train, not of those that fetch before, and the fields."""
    for path, targets, pods in _overrides(spec):
        if not targets or targets - _INITIALIZERS:
            yield path, pods


def _overrides(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, set[Any], Mapping[str, Any]]]:
    for index, patch in enumerate(map(mapping, sequence(spec.get(RUNTIME_PATCHES)))):
        for number, job in enumerate(map(mapping, sequence(value_at(patch, _PATCHED_JOBS)))):
            path = (RUNTIME_PATCHES, index, *_PATCHED_JOBS, number, *_PATCHED_PODS)
            yield path, {job.get("name")}, mapping(value_at(job, _PATCHED_PODS))
    for field, below in ((TEMPLATE_OVERRIDES, ("spec",)), (_SPEC_OVERRIDES, ())):
        for index, override in enumerate(map(mapping, sequence(spec.get(field)))):
            targets = {mapping(job).get("name") for job in sequence(override.get("targetJobs"))}
            yield (field, index, *below), targets, mapping(value_at(override, below))
