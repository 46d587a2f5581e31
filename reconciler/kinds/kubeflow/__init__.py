"""Kubeflow: the jobs of the training operator (`kubeflow.org`) and TrainJob (`trainer.kubeflow.org`)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.aspects import Life, Pods, Source
from reconciler.kinds.facts import Body, Controlled, PodProvider, PodSet
from reconciler.kinds.immutable import Check, every, only, value_of
from reconciler.kinds.kind import Kind
from reconciler.kinds.kubeflow.training import (
    RUNTIME_PATCHES,
    TEMPLATE_OVERRIDES,
    overridden_pods,
    pytorch_job_training,
    train_job_training,
)
from reconciler.kinds.kueue.labels import frozen_labels, is_started
from reconciler.kinds.pods import Reader, bounds, is_suspended, of_spec, replicated
from reconciler.kinds.progress import Phase, Progress, Workers, by_conditions, holds, status_of, total
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import count, mapping, metadata_map, sequence, text

_GROUP = "kubeflow.org"
TRAINING_RUNTIME = ("trainer.kubeflow.org", "TrainingRuntime")
CLUSTER_TRAINING_RUNTIME = ("trainer.kubeflow.org", "ClusterTrainingRuntime")
_TRAINING_JOBS = ("node", "trainer-node", "trainer")
_STOPPED = "kubeflow-resource-stopped"  # annotation of a notebook


def _roles(field: str) -> Reader:
    def read(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
        for role, replica in mapping(spec.get(field)).items():
            yield from replicated(mapping(replica), f"{prefix}{field}.{role}.")

    return read


def _pytorch_job(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a PyTorchJob. `elasticPolicy` bounds its workers; without a master the fewest start."""
    elastic = mapping(spec.get("elasticPolicy"))
    pod_sets = [*_roles("pytorchReplicaSpecs")(spec, prefix)]
    for pods in pod_sets:
        least = count(elastic.get("minReplicas"), pods.replicas) if len(pod_sets) == 1 else pods.replicas
        policy = elastic if ".Worker." in pods.prefix else {}
        low, high = bounds(pods.replicas, policy.get("minReplicas"), policy.get("maxReplicas"))
        yield pods._replace(spare=max(0, pods.replicas - least), least=low, most=high)


def _train_job(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    trainer = mapping(spec.get("trainer"))
    container = {"resources": trainer.get("resourcesPerNode"), "env": trainer.get("env")}
    pod: dict[str, Any] = {"containers": [container]}
    for _, fields in overridden_pods(spec):
        pod.update(fields)
    pod["containers"] = [container]
    template = {"metadata": {"labels": spec.get("labels"), "annotations": spec.get("annotations")}, "spec": pod}
    runtime = mapping(spec.get("runtimeRef"))
    kind = TRAINING_RUNTIME if runtime.get("kind") == TRAINING_RUNTIME[1] else CLUSTER_TRAINING_RUNTIME
    name = text(runtime.get("name"))
    provider = PodProvider(
        (kind,),
        name,
        f"{prefix}runtimeRef.name",
        sets_pods=type(trainer.get("numNodes")) is not int,
        is_optional=bool(mapping(trainer.get("resourcesPerNode"))),
    )
    yield PodSet(count(trainer.get("numNodes"), 1), template, f"{prefix}trainer.", provider=provider if name else None)


def _runtime(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the nodes that train: in the jobs of the runtime that are marked so, or that are named so by convention."""
    policy = mapping(spec.get("mlPolicy"))
    nodes = count(policy.get("numNodes"), 1)
    elastic = mapping(mapping(policy.get("torch")).get("elasticPolicy"))
    least = count(elastic.get("minNodes"), nodes) if elastic else None
    jobs = [*enumerate(map(mapping, sequence(value_of(spec, "template.spec.replicatedJobs"))))]
    training = [(index, job) for index, job in jobs if _trains(job)] or jobs
    for index, job in training:
        template = mapping(value_of(job, "template.spec.template"))
        place = f"{prefix}template.spec.replicatedJobs[{index}].template.spec.template."
        low, high = bounds(least or nodes, least, elastic.get("maxNodes")) if elastic else (None, None)
        yield PodSet(least or nodes, template, place, least=low, most=high)


def _trains(job: Mapping[str, Any]) -> bool:
    labels = mapping(value_of(job, "template.metadata.labels"))
    return labels.get("trainer.kubeflow.org/trainjob-ancestor-step") == "trainer" or job.get("name") in _TRAINING_JOBS


def _experiment(body: Body) -> Iterator[tuple[FieldPath, Body]]:
    """Yield the job of a trial."""
    trial = value_of(body, "spec.trialTemplate.trialSpec")
    if type(trial) is dict:
        yield ("spec", "trialTemplate", "trialSpec"), trial


def _trials(body: Body) -> int:
    """Return the number of trials that run at the same time."""
    return count(value_of(body, "spec.parallelTrialCount"), 3)  # Katib's default


def _notebook(body: Body, prefix: str) -> Iterator[PodSet]:
    """Yield the pod of a notebook; none while it is stopped."""
    annotations = metadata_map(body, "annotations")
    template = mapping(mapping(body.get("spec")).get("template"))
    yield PodSet(0 if _STOPPED in annotations else 1, template, f"{prefix}spec.template.")


def _unapplied(before: Body, after: Body) -> list[str]:
    """Return the templates that differ: the operator applies them to no running pod.

    It compares the number of pods and not what is in them (training-operator 1.9, pkg/controller.v1/common/pod.go).
    A suspended job has no pods, and gets new ones when it resumes.
    """
    if value_of(before, "spec.runPolicy.suspend") is True:
        return []
    fields = []
    for section in (name for name in after.get("spec", {}) if name.endswith("ReplicaSpecs")):
        left, right = value_of(before, f"spec.{section}"), value_of(after, f"spec.{section}")
        for role in sorted(left if isinstance(left, Mapping) and isinstance(right, Mapping) else ()):
            path = f"spec.{section}.{role}.template"
            if role in right and value_of(before, path) != value_of(after, path):
                fields.append(path)
    return fields


def _overrides(before: Body, after: Body) -> list[str]:
    """Return what a TrainJob changes of its runtime if it differs: it changes while the job is suspended alone.

    So says its webhook: trainer 2.3, pkg/runtime/framework/plugins/jobset/jobset.go.
    """
    paused = value_of(after, "spec.suspend") is True
    was_paused = value_of(before, "spec.suspend") is True
    free = {RUNTIME_PATCHES: paused or was_paused, TEMPLATE_OVERRIDES: paused}
    paths = [f"spec.{name}" for name, is_free in free.items() if not is_free]
    return [path for path in paths if (value_of(before, path) or []) != (value_of(after, path) or [])]


def operator_job_progress(body: Body) -> Progress:
    """Read a job of the training operator, which counts the pods of each role. A pod that runs is ready."""
    spec, status = mapping(body.get("spec")), status_of(body)
    roles = [mapping(role) for name in spec if name.endswith("ReplicaSpecs") for role in mapping(spec[name]).values()]
    replicas = [mapping(row) for row in mapping(status.get("replicaStatuses")).values()]
    active = total(replicas, "active")
    is_running = holds(body, "Running") is not None
    workers = _workers(sum(count(role.get("replicas"), 1) for role in roles), active, replicas, is_running=is_running)
    progress = by_conditions(body, workers=workers, succeeded="Succeeded")
    if progress.finished_at:
        return progress
    if is_suspended(body):
        return replace(progress, phase=Phase.TERMINATING if active else Phase.SUSPENDED)
    if holds(body, "Restarting") is not None and not is_running:
        return replace(progress, phase=Phase.STARTING)
    return progress


def _workers(wanted: int, active: int, rows: Iterable[Mapping[str, Any]], *, is_running: bool) -> Workers:
    replicas = list(rows)
    running = active if is_running else 0
    return Workers(
        wanted=wanted,
        pending=active - running,
        running=running,
        ready=running,
        succeeded=total(replicas, "succeeded"),
        failed=total(replicas, "failed"),
    )


def train_job_progress(body: Body) -> Progress:
    """Read a TrainJob, whose status counts the Jobs that it made."""
    spec, status = mapping(body.get("spec")), status_of(body)
    jobs = [mapping(row) for row in sequence(status.get("jobsStatus"))]
    workers = Workers(
        wanted=count(mapping(spec.get("trainer")).get("numNodes"), 1),
        pending=max(total(jobs, "active") - total(jobs, "ready"), 0),
        running=total(jobs, "ready"),
        ready=total(jobs, "ready"),
        succeeded=total(jobs, "succeeded"),
        failed=total(jobs, "failed"),
    )
    progress = by_conditions(body, workers=workers, succeeded="Complete")
    is_stopped = is_suspended(body) and not progress.finished_at
    return replace(progress, phase=Phase.SUSPENDED) if is_stopped else progress


_SUSPEND = ("spec", "runPolicy", "suspend")
_TRAIN_JOB_CONTROLLED = (
    Controlled(
        path=("spec", RUNTIME_PATCHES),
        by="Kueue",
        source="pkg/controller/jobs/trainjob/trainjob_controller.go (RunWithPodSetsInfo)",
        when="while it runs in a queue",
        applies=is_started(("spec", "suspend")),
        adds=True,
        key="manager",
    ),
)


def _mpi_job(before: Body, after: Body) -> list[str]:
    """Check an MPIJob: Kueue manages those of the MPI operator, and not those of the training operator."""
    return frozen_labels(before, after) if after.get("apiVersion") == f"{_GROUP}/v2beta1" else []


_MANAGED_ONCE = every(only("spec.runPolicy.managedBy"), frozen_labels)
"""So say the webhooks of some kinds: training-operator 1.9, pkg/common/util/webhooks.go."""


def _job(kind: str, field: str, immutable: Check) -> Kind:
    return Kind(
        group=_GROUP,
        kind=kind,
        pods=Pods(of_spec(_roles(field)), suspend=_SUSPEND),
        life=Life(immutable=immutable, unapplied=_unapplied, has_generations=True, progress=operator_job_progress),
    )


KINDS = (
    Kind(
        group=_GROUP,
        kind="PyTorchJob",
        source=Source(training=pytorch_job_training),
        pods=Pods(of_spec(_pytorch_job), suspend=_SUSPEND),
        life=Life(immutable=frozen_labels, unapplied=_unapplied, has_generations=True, progress=operator_job_progress),
    ),
    _job("TFJob", "tfReplicaSpecs", _MANAGED_ONCE),
    _job("MPIJob", "mpiReplicaSpecs", _mpi_job),
    _job("XGBoostJob", "xgbReplicaSpecs", _MANAGED_ONCE),
    _job("PaddleJob", "paddleReplicaSpecs", _MANAGED_ONCE),
    _job("JAXJob", "jaxReplicaSpecs", frozen_labels),
    Kind(group=_GROUP, kind="Notebook", pods=Pods(_notebook)),
    Kind(group=_GROUP, kind="Experiment", pods=Pods(components=_experiment, copies=_trials)),
    Kind(group=TRAINING_RUNTIME[0], kind=TRAINING_RUNTIME[1], pods=Pods(provides=of_spec(_runtime))),
    Kind(
        group=CLUSTER_TRAINING_RUNTIME[0],
        kind=CLUSTER_TRAINING_RUNTIME[1],
        is_cluster_scoped=True,
        pods=Pods(provides=of_spec(_runtime)),
    ),
    Kind(
        group="trainer.kubeflow.org",
        kind="TrainJob",
        source=Source(training=train_job_training),
        pods=Pods(of_spec(_train_job), suspend=("spec", "suspend")),
        life=Life(
            immutable=every(_overrides, frozen_labels),
            has_generations=True,
            controlled=_TRAIN_JOB_CONTROLLED,
            progress=train_job_progress,
        ),
    ),
)
