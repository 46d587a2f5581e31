"""A job as a JobSet, or as a TrainJob with the TrainingRuntime that holds its pods.

Both are one Indexed Job, whose pods find each other below the name of the JobSet. Kueue 0.16 admits both as a whole.
"""

import json
from hashlib import sha256
from typing import Any

from reconciler.core.config import Backend
from reconciler.core.kinds.rendered import problem_at
from reconciler.core.kinds.torchrun.render.dispatch import managed_by
from reconciler.core.kinds.torchrun.render.pods import Pod
from reconciler.core.kinds.torchrun.render.shape import JOB_SET, NODES
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Reason, Traced, untrace

_RUNS = Traced(value=False, reason=Reason(rule="torchrun.default", text="a job runs unless suspend is true"))
_NETWORK = Traced(
    {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    Reason(
        rule="torchrun.service", text="pods find each other before they are ready, because they wait for each other"
    ),
)
_DIGITS = 8  # hexadecimal, of the digest in the name of a runtime


def job_set_trees(
    pod: Pod, job: dict[str, Any], metadata: dict[str, Any], problems: list[Problem]
) -> list[dict[str, Any]]:
    """Return a JobSet, or a TrainingRuntime and its TrainJob. `job` is the spec of the Job that runs the nodes."""
    ttl = job.pop("ttlSecondsAfterFinished", None)
    control: dict[str, Any] = dict(managed_by(pod))
    if pod.template.cluster.backend is not Backend.KUEUE:  # Kueue itself suspends and resumes what it queues
        control["suspend"] = pod.job.suspend or _RUNS
    if pod.workload is JOB_SET:
        spec = _job_set(job, {}) | control | ({"ttlSecondsAfterFinished": ttl} if ttl else {})
        return [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}]
    if ttl is not None:
        message = "a TrainJob has no time to live: it stays until it is removed from the repository"
        problems.append(problem_at(ttl, "torchrun.unsupported", message, "remove it", severity=Severity.WARNING))
    runtime = _runtime(pod, job, metadata)
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": runtime["metadata"]["name"]}
    return [
        runtime,
        {
            "apiVersion": _TRAINER,
            "kind": "TrainJob",
            "metadata": metadata,
            "spec": {"runtimeRef": reference, "trainer": {"numNodes": pod.shape.nodes}, **control},
        },
    ]


_TRAINER = "trainer.kubeflow.org/v1alpha1"
_STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def _job_set(job: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    template = {"metadata": {"labels": labels}, "spec": job} if labels else {"spec": job}
    return {"network": _NETWORK, "replicatedJobs": [{"name": NODES, "replicas": 1, "template": template}]}


def _runtime(pod: Pod, job: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the runtime of one job.

    Its name holds the digest of its contents: a running TrainJob keeps the JobSet that was made of its runtime, so that
    another runtime is a change of the TrainJob, which the API server accepts only on a new one.
    """
    spec = {"mlPolicy": {"numNodes": pod.shape.nodes}, "template": {"spec": _job_set(job, _STEP)}}
    digest = sha256(json.dumps(untrace(spec), sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]
    text = "a change of the pods is a new runtime, because a running TrainJob never takes over a changed one"
    name = Traced(f"{pod.job.name}-{digest}", Reason(rule="torchrun.runtime", text=text))
    own = {key: value for key, value in metadata["labels"].items() if key.startswith("torchrun")}
    return {
        "apiVersion": _TRAINER,
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "namespace": metadata["namespace"], "labels": {"app": "torchrun", **own}},
        "spec": spec,
    }
