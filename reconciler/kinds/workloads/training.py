"""Training in plain Jobs of Kubernetes."""

from typing import Any

from reconciler.kinds.kueue.labels import MIN_PARALLELISM
from reconciler.kube.objects import FieldPath
from reconciler.sizing.training_jobs.job import Allocation, Editor, JobFormat, PodCounts, TrainingJob, TrainingPods
from reconciler.sizing.training_jobs.reader import JobReader


class BatchJobFormat(JobFormat):
    """A Job: its pods are as many as run at the same time."""

    kind = "Job"

    def set_replicas(self, editor: Editor, job: TrainingJob, allocation: Allocation) -> PodCounts:
        """Write parallelism and completions."""
        set_parallelism(editor, job, (*job.root, "spec"), allocation)
        return {(*job.root, "spec", "template"): allocation.workers}


def set_parallelism(editor: Editor, job: TrainingJob, spec: FieldPath, allocation: Allocation) -> None:
    """Write the nodes into a JobSpec; several pods are Indexed, so that each knows its number."""
    reason = allocation.because("workers", allocation.spread)
    if not job.is_wrapped:
        why = allocation.because("workers", "a sized job starts with all its pods")
        editor.remove(("metadata", "annotations", MIN_PARALLELISM), why)
    if job.replicas == allocation.workers:
        return
    for field in ("parallelism", "completions"):
        editor.set((*spec, field), allocation.workers, reason)
    if allocation.workers > 1:
        indexed = allocation.because("indexed", f"{allocation.workers} pods that each know their number")
        editor.set((*spec, "completionMode"), "Indexed", indexed)


def job_training(reader: JobReader) -> TrainingJob | None:
    """Read a Job."""
    return batch_training(reader, BATCH_JOB, ("spec",), "pod")


BATCH_JOB = BatchJobFormat()


def batch_training(
    reader: JobReader, job_format: JobFormat, spec: FieldPath, role: str, *, jobs: int = 1
) -> TrainingJob | None:
    """Read a training from the JobSpec at a path below the job, of which there are `jobs`."""
    template: FieldPath = (*reader.root, *spec, "template")
    container = reader.launching_container(template)
    if container is None:
        return None
    replicas = jobs * parallel_pods(reader.mapping(*spec))
    return TrainingJob(
        document=reader.document,
        format=job_format,
        root=reader.root,
        pods=(TrainingPods(role=role, replicas=replicas, container=container, template=template),),
        command=container.command,
        args=container.args,
        env=container.env,
        has_rendezvous=container.has_rendezvous,
        suspended=reader.flag("spec", "suspend") or reader.is_wrapper_suspended,
    )


def parallel_pods(spec: dict[str, Any]) -> int:
    """Return the pods of a JobSpec that run at the same time."""
    parallelism = spec.get("parallelism", 1)
    completions = spec.get("completions", parallelism)
    return min(parallelism, completions) if type(parallelism) is int and type(completions) is int else 1
