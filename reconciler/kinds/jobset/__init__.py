"""JobSet (`jobset.x-k8s.io`): several replicated Jobs that run together."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.aspects import Life, Pods, Source
from reconciler.kinds.facts import Body, PodSet
from reconciler.kinds.immutable import differing, every, omit, same, value_of
from reconciler.kinds.kind import Kind
from reconciler.kinds.kueue.labels import frozen_labels
from reconciler.kinds.pods import batch_job, is_suspended, of_spec
from reconciler.kinds.progress import Phase, Progress, Workers, by_conditions, status_of, total
from reconciler.kinds.workloads.training import batch_training, parallel_pods, set_parallelism
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.sizing.training_jobs.job import Allocation, Editor, JobFormat, PodCounts, TrainingJob
from reconciler.sizing.training_jobs.reader import JobReader


def _pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for index, replicated in enumerate(map(mapping, sequence(spec.get("replicatedJobs")))):
        replicas = count(replicated.get("replicas"), 1)
        job = mapping(mapping(replicated.get("template")).get("spec"))
        for pods in batch_job(job, f"{prefix}replicatedJobs[{index}].template.spec."):
            yield pods.times(replicas)


_NOTHING = ("stdin", "stdinOnce", "tty", "hostIPC", "hostNetwork", "hostPID")  # if false, as if it were not written
_PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")  # Kueue sets it before it starts a JobSet


def _admitted(body: Body) -> Body:
    """Add what the webhook adds to a new JobSet (jobset 0.10, pkg/webhooks/jobset_webhook.go)."""
    spec = mapping(body.get("spec"))
    made = {
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        **spec,
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, **mapping(spec.get("network"))},
        "replicatedJobs": [_admitted_job(job) for job in _replicated_jobs(body)],
    }
    return {**body, "spec": made}


def _admitted_job(job: Mapping[str, Any]) -> dict[str, Any]:
    template = mapping(job.get("template"))
    spec = mapping(template.get("spec"))
    pods = mapping(spec.get("template"))
    pods = {**pods, "spec": {"restartPolicy": "OnFailure", **mapping(pods.get("spec"))}}
    return {**job, "template": {**template, "spec": {"completionMode": "Indexed", **spec, "template": pods}}}


def _immutable(before: Body, after: Body) -> list[str]:
    """Check a JobSet as its webhook does: its jobs are immutable, except for placement of pods around a suspension."""
    paused = any(value_of(body, "spec.suspend") is True for body in (before, after))
    old, new = ([_compared(job, is_paused=paused) for job in _replicated_jobs(body)] for body in (before, after))
    fields = [] if same(old, new) else ["spec.replicatedJobs"]
    return [*fields, *differing(before, after, "spec.managedBy")]


def _replicated_jobs(body: Body) -> Iterator[Mapping[str, Any]]:
    return map(mapping, sequence(value_of(body, "spec.replicatedJobs")))


def _compared(job: Mapping[str, Any], *, is_paused: bool) -> dict[str, Any]:
    """Return a replicated job without what is as if it were not written, and what a suspended JobSet may change."""
    template = mapping(job.get("template"))
    spec = mapping(template.get("spec"))
    pods = mapping(spec.get("template"))
    pod, metadata = _written(mapping(pods.get("spec"))), mapping(pods.get("metadata"))
    for name in ("containers", "initContainers"):
        if name in pod:
            pod[name] = [_written(mapping(container)) for container in sequence(pod[name])]
    if is_paused:
        pod, metadata = omit(pod, _PLACEMENT), omit(metadata, ("labels", "annotations"))
    return {**job, "template": {**template, "spec": {**spec, "template": {**pods, "metadata": metadata, "spec": pod}}}}


def _written(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not False or name not in _NOTHING}


def job_set_progress(body: Body) -> Progress:
    """Read a JobSet, whose status counts its Jobs. A Job is ready when all of its pods are."""
    status, pods = status_of(body), _pods_per_job(body)
    jobs = [mapping(row) for row in sequence(status.get("replicatedJobsStatus"))]

    def counted(field: str) -> int:
        return sum(count(job.get(field), 0) * pods.get(text(job.get("name")), 1) for job in jobs)

    active, ready = counted("active"), counted("ready")
    workers = Workers(
        pending=max(active - ready, 0),
        running=ready,
        ready=ready,
        succeeded=counted("succeeded"),
        failed=total(jobs, "failed"),
    )
    progress = by_conditions(body, workers=workers, succeeded="Completed")
    progress = replace(progress, restarts=count(status.get("restarts"), 0))
    is_stopped = is_suspended(body) and not progress.finished_at
    return replace(progress, phase=Phase.TERMINATING if active else Phase.SUSPENDED) if is_stopped else progress


def _pods_per_job(body: Body) -> dict[str, int]:
    """Return the number of pods that run at once in each Job of a replicated job."""
    rows = [mapping(row) for row in sequence(mapping(body.get("spec")).get("replicatedJobs"))]
    jobs = ((text(row.get("name")), mapping(mapping(row.get("template")).get("spec"))) for row in rows)
    return {name: count(spec.get("parallelism"), 1) for name, spec in jobs}


_JOB_SPEC = ("template", "spec")


class _JobSetFormat(JobFormat):
    kind = "JobSet"

    def set_replicas(self, editor: Editor, job: TrainingJob, allocation: Allocation) -> PodCounts:
        """Write the nodes where the user counts them: as jobs of one pod, or as the pods of one job."""
        replicated = job.lead.template[: -len((*_JOB_SPEC, "template"))]
        replicas: FieldPath = (*replicated, "replicas")
        jobs = job.get(*replicas)
        if isinstance(jobs, int) and jobs > 1:
            editor.set(replicas, allocation.workers, allocation.because("workers", allocation.spread))
        else:
            set_parallelism(editor, job, (*replicated, *_JOB_SPEC), allocation)
        return {job.lead.template: allocation.workers}


_FORMAT = _JobSetFormat()


def job_set_training(reader: JobReader) -> TrainingJob | None:
    """Read a JobSet in which exactly one replicated job starts a training."""
    replicated = reader.items("spec", "replicatedJobs")
    path: FieldPath = (*reader.root, "spec", "replicatedJobs")
    starting = [index for index in range(len(replicated)) if len(replicated) == 1 or _starts(reader, (*path, index))]
    if len(starting) != 1:
        message = f"{len(starting) or 'none'} of {len(replicated)} replicated jobs start a training"
        hint = "keep the launch line in exactly one of them"
        reader.problem("sizing.containers", (*path, starting[1]) if starting else path, message, hint)
        return None
    job = ("spec", "replicatedJobs", starting[0])
    jobs, pods = reader.count(*job, "replicas"), parallel_pods(reader.mapping(*job, *_JOB_SPEC))
    if jobs > 1 and pods > 1:
        message = f"has {jobs} jobs of {pods} pods, and it is ambiguous which of them is a node"
        hint = "use either replicas or parallelism for the nodes"
        reader.problem("sizing.shape", (*reader.root, *job, "replicas"), message, hint)
        return None
    role = text(reader.mapping(*job).get("name")) or "job"
    return batch_training(reader, _FORMAT, (*job, *_JOB_SPEC), role, jobs=jobs)


def _starts(reader: JobReader, path: FieldPath) -> bool:
    """Return whether a container of a replicated job starts a training."""
    silent = JobReader(reader.document, reader.launches)
    container = silent.launching_container((*path, *_JOB_SPEC, "template"))
    return container is not None and reader.launches(container)


KINDS = (
    Kind(
        group="jobset.x-k8s.io",
        kind="JobSet",
        source=Source(training=job_set_training),
        pods=Pods(of_spec(_pods), suspend=("spec", "suspend")),
        life=Life(
            immutable=every(_immutable, frozen_labels),
            has_generations=True,
            admitted=_admitted,
            progress=job_set_progress,
        ),
    ),
)
