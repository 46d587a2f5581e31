"""Training in a JobSet: one of its jobs starts the training; others (data servers, evaluators) stay as they are."""

from reconciler.kinds.workloads.training import batch_training, parallel_pods, set_parallelism
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import text
from reconciler.sizing.training_jobs.job import Allocation, Editor, JobFormat, PodCounts, TrainingJob
from reconciler.sizing.training_jobs.reader import JobReader

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
