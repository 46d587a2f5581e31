"""The workload around the pods: an Indexed Job, the PyTorchJob that is a gang under KAI, or the kind that was set."""

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from reconciler.kinds.kueue.labels import MIN_PARALLELISM
from reconciler.kinds.rendered import problem_at
from reconciler.kinds.torchrun.intent.job import TorchrunJob
from reconciler.kinds.torchrun.render.backends import is_endless
from reconciler.kinds.torchrun.render.command import max_restarts
from reconciler.kinds.torchrun.render.dispatch import managed_by
from reconciler.kinds.torchrun.render.pods import Pod
from reconciler.kinds.torchrun.render.shape import INDEXED_JOB, JOB_SET, NODES, PYTORCH_JOB, TRAIN_JOB
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Reason, Traced, untrace
from reconciler.kube.values import plural
from reconciler.repo.config import Backend

# A job as a JobSet, or as a TrainJob with the TrainingRuntime that holds its pods.
# Both are one Indexed Job, whose pods find each other below the name of the JobSet. Kueue 0.16 admits both as a whole.


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


# Whether the pods of a job start together: by its kind of workload and the scheduler of the cluster.


def check_gang(pod: Pod) -> Iterator[Problem]:
    """Yield a problem if nothing starts the pods together, or not with the fewest that the job can use."""
    nodes, template = pod.shape.nodes.value, pod.template
    if nodes == 1:
        return
    if template.cluster.backend is Backend.KAI and pod.workload in (JOB_SET, TRAIN_JOB):
        yield _one_by_one(pod)
        return
    if template.cluster.backend is Backend.KUEUE and pod.workload is not INDEXED_JOB and pod.shape.min_nodes:
        yield _whole(pod)
    if template.cluster.backend is Backend.NONE:
        why = f"cluster {template.cluster.name} has no queueing"
        hint = "set `backend` of the cluster to kai or kueue, or accept that some pods wait for others"
    elif template.cluster.backend is Backend.KUEUE and pod.shape.gpus.value and is_endless(template):
        why = f"queue {pod.job.queue} has no GPU quota, and there is no evidence of its nodes"
        hint = f"set the quota, or commit evidence/{template.cluster.name}/nodes.yaml: Kueue then admits what fits"
    else:
        return
    message = f"{why}, so nothing starts the {nodes} pods together"
    yield problem_at(pod.job.queue_ref, "torchrun.no-gang", message, hint, severity=Severity.WARNING)


def _one_by_one(pod: Pod) -> Problem:
    """Return the error of a kind for which KAI 0.12 makes a group that needs a single pod (podgrouper, its hub)."""
    wanted = pod.job.workload or pod.template.queue.workload or pod.job.queue_ref
    nodes = pod.shape.nodes.value
    message = f"KAI starts the pods of a {pod.workload.kind} one by one, so {nodes} nodes do not form a gang"
    hint = "use `workload: auto`: the job becomes a PyTorchJob, whose pods KAI starts together"
    return problem_at(wanted, "torchrun.no-gang", message, hint)


def _whole(pod: Pod) -> Problem:
    """Return the warning that Kueue admits only Jobs in part."""
    least = pod.shape.min_nodes or pod.shape.nodes
    message = f"Kueue admits a {pod.workload.kind} with all of its {pod.shape.nodes.value} nodes or none"
    message += f", so it does not start with {least.value}"
    hint = "use `workload: auto`: a Job starts with fewer nodes; or lower the number of nodes"
    return problem_at(least, "torchrun.elastic-whole", message, hint, severity=Severity.WARNING)


RESTART_POLICY = Traced("OnFailure", Reason(rule="torchrun.default", text="restartPolicy defaults to OnFailure"))

_REPLACE = Traced(
    "Never", Reason(rule="torchrun.default", text="torchrun restarts processes; a failed pod is replaced by a new one")
)

_EVICTED = Traced(
    {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
    Reason(rule="torchrun.evictions", text="evicted or preempted pods are replaced, and do not count as failures"),
)

SUSPEND = Traced(value=False, reason=Reason(rule="torchrun.default", text="a job runs unless suspend is true"))

_NEVER = Traced("Never", Reason(rule="torchrun.restart", text="no restarts are allowed, so the first failure is final"))

_ANY_SUCCESS = Traced(
    {"rules": [{"succeededCount": 1}]},
    Reason(rule="torchrun.elastic", text="pods end together, and some pods of an elastic job may never have run"),
)

_CREATED_ONCE = {
    "kustomize.toolkit.fluxcd.io/ssa": Traced(
        "IfNotPresent",
        Reason(rule="torchrun.elastic", text="Kueue sets the parallelism of the job, which a sync must not reset"),
    )
}

_CLEAN = Traced(
    "Running",
    Reason(rule="torchrun.clean", text="a failed job must not hold GPUs with pods that wait for each other"),
)

_GANG = Reason(rule="torchrun.gang", text="KAI starts the pods only when this many can start together")


def workload_trees(
    pod: Pod, template: dict[str, Any], metadata: dict[str, Any], problems: list[Problem]
) -> list[dict[str, Any]]:
    """Return the trees of the workload, whose pods look like `template`; none if its suspension deletes it."""
    problems += check_gang(pod)
    if pod.workload is PYTORCH_JOB:
        return [_pytorch_job(pod, template, metadata, problems)]
    is_sent = pod.template.multikueue is not None
    if pod.workload is INDEXED_JOB and not (is_sent and pod.job.is_suspended):
        return [_indexed_job(pod, template, metadata, problems)]
    if pod.job.is_suspended and pod.template.cluster.backend is Backend.KUEUE:
        problems.append(_deleted(pod))
        return []
    spec = _job_spec(pod, template) | _limits(pod)
    return job_set_trees(pod, spec, metadata, problems)


def _indexed_job(
    pod: Pod, template: dict[str, Any], metadata: dict[str, Any], problems: list[Problem]
) -> dict[str, Any]:
    backend, is_paused = pod.template.cluster.backend, _is_paused(pod)
    if backend is Backend.KUEUE and pod.shape.min_nodes and not is_paused:
        own = {MIN_PARALLELISM: _text(pod.shape.min_nodes), **_CREATED_ONCE}
        metadata["annotations"] = metadata.get("annotations", {}) | own
        problems += [_elastic_sync(pod.shape.min_nodes), _elastic_growth(pod.shape.min_nodes)]
    spec = _job_spec(pod, template) | _limits(pod)
    if is_paused:
        spec["parallelism"] = Traced(0, _paused(pod.job))
    spec |= managed_by(pod)
    if backend is not Backend.KUEUE:  # Kueue itself suspends and resumes what it queues
        spec["suspend"] = pod.job.suspend or SUSPEND
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _job_spec(pod: Pod, template: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of an Indexed Job, without its limits."""
    nodes = pod.shape.nodes
    spec: dict[str, Any] = {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes}
    if pod.shape.min_nodes:
        spec["successPolicy"] = _ANY_SUCCESS
    restart = pod.job.reliability.restart_policy or _REPLACE
    template["spec"]["restartPolicy"] = restart
    if restart.value == "Never":
        spec["podFailurePolicy"] = _EVICTED
    return spec | {"template": template}


def _deleted(pod: Pod) -> Problem:
    """Return the warning that a suspended workload is deleted, because Kueue would resume it."""
    kind = pod.workload.kind
    message = f"Kueue resumes a suspended {kind} as soon as there is quota, so it is deleted; its claims stay"
    hint = f"without `suspend`, the {kind} is created again; use a Job (`workload: auto`) to keep the object"
    place = pod.job.suspend or pod.job.queue_ref
    return problem_at(place, "torchrun.suspend", message, hint, severity=Severity.WARNING)


def _elastic_sync(least: Traced) -> Problem:
    """Return the warning that only the first version of an elastic Job is synced."""
    message = "Kueue admits the job with fewer nodes if necessary and sets its parallelism, which nobody may"
    message += " change afterwards: Flux and `apply` create it and never update it"
    hint = "in Argo CD, ignore /spec/parallelism of the Job (ignoreDifferences, RespectIgnoreDifferences=true)"
    return problem_at(least, "torchrun.elastic-sync", message, hint, severity=Severity.WARNING)


def _elastic_growth(least: Traced) -> Problem:
    """Return the warning that a Job keeps the nodes that it starts with.

    Kueue's own elastic jobs (ElasticJobsViaWorkloadSlices, alpha in 0.16) follow a `parallelism` that somebody changes,
    and nobody changes that of a job that was admitted in part.
    """
    message = "the job keeps the number of nodes that Kueue admits it with, even if more become free"
    hint = "to give it more, delete the Job: it is created and admitted again, and resumes from its checkpoint"
    return problem_at(least, "torchrun.elastic-growth", message, hint, severity=Severity.WARNING)


def _is_paused(pod: Pod) -> bool:
    """Return whether Kueue runs the job without pods.

    Kueue resumes what is suspended as soon as there is room, and one that leaves its queue keeps its quota for ever. A
    Job of no pods is admitted with no quota.
    """
    return pod.job.is_suspended and pod.template.cluster.backend is Backend.KUEUE


def _paused(job: TorchrunJob) -> Reason:
    text = "the job is suspended: without pods it holds no quota, and Kueue would resume it if it set suspend"
    return Reason(rule="torchrun.suspend", text=text, origins=job.suspend.reason.origins if job.suspend else ())


def _limits(pod: Pod) -> dict[str, Any]:
    """Return restarts, deadline, and the time to live if it is set."""
    reliability = pod.job.reliability
    limits: dict[str, Any] = {"backoffLimit": _backoff(pod)}
    if reliability.ttl:
        limits["ttlSecondsAfterFinished"] = reliability.ttl
    if reliability.deadline and not _is_paused(pod):  # a Job without pods runs, as far as its deadline goes
        limits["activeDeadlineSeconds"] = reliability.deadline
    return limits


def _backoff(pod: Pod) -> Traced:
    """Return the number of pods that may fail. The limit counts pods, and one that fails makes all others restart."""
    restarts, nodes = max_restarts(pod.job), pod.shape.nodes
    if nodes.value == 1:
        return restarts
    text = f"{plural(restarts.value, 'restart')} x {plural(nodes.value, 'pod')} = {restarts.value * nodes.value}"
    origins = (*restarts.reason.origins, *nodes.reason.origins)
    return Traced(restarts.value * nodes.value, Reason(rule="torchrun.restarts", text=text, origins=origins))


_SHORTEST_TTL = 600
"""Seconds. An observation has to reach Git and the GitOps tool before the job is gone."""


def ttl_problems(ttl: Traced, cluster: str, *, has_runs: bool) -> Iterator[Problem]:
    """Warn of a time to live after which a GitOps tool creates the job again, because its end was not recorded."""
    gone = f"the job is deleted {ttl.value} s after it ends"
    if not has_runs:
        message = f"{gone}; then Argo CD or Flux creates it again, and it runs again"
        hint = f"record finished jobs (`reconciler observe --cluster {cluster}`, on a schedule), or remove it"
        yield problem_at(ttl, "torchrun.ttl", message, hint, severity=Severity.WARNING)
    elif ttl.value < _SHORTEST_TTL:
        message = f"{gone}, perhaps before its end is recorded and synced; then it runs again"
        hint = f"use {_SHORTEST_TTL} or more, and observe the cluster more often than that"
        yield problem_at(ttl, "torchrun.ttl", message, hint, severity=Severity.WARNING)


def _pytorch_job(
    pod: Pod, template: dict[str, Any], metadata: dict[str, Any], problems: list[Problem]
) -> dict[str, Any]:
    """Return workers only: with a master the operator would add its own init container and rendezvous variables."""
    shape, reliability = pod.shape, pod.job.reliability
    restart = reliability.restart_policy or RESTART_POLICY
    if restart.value == "Never" and reliability.max_restarts and reliability.max_restarts.value:
        message = "with restartPolicy Never, the first pod that fails or is lost ends the job, despite maxRestarts"
        hint = "use OnFailure, or set maxRestarts to 0"
        found = problem_at(reliability.max_restarts, "torchrun.restart", message, hint, severity=Severity.WARNING)
        problems.append(found)
    elif reliability.max_restarts and reliability.max_restarts.value == 0:
        restart = _NEVER
    spec: dict[str, Any] = {
        "nprocPerNode": _text(shape.processes),
        "runPolicy": {
            "cleanPodPolicy": _CLEAN,
            **_limits(pod),
            "suspend": pod.job.suspend or SUSPEND,
            "schedulingPolicy": {"minAvailable": _gang(shape.min_nodes or shape.nodes)},
        },
        "pytorchReplicaSpecs": {"Worker": {"replicas": shape.nodes, "restartPolicy": restart, "template": template}},
    }
    if shape.min_nodes:
        # Without it the job would wait for pods that an elastic job may never get.
        spec["elasticPolicy"] = {"minReplicas": shape.min_nodes, "maxReplicas": shape.nodes}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}


def _gang(nodes: Traced) -> Traced:
    return Traced(nodes.value, Reason(rule=_GANG.rule, text=_GANG.text, origins=nodes.reason.origins))


def _text(number: Traced) -> Traced:
    reason = number.reason
    return Traced(str(number.value), Reason(rule=reason.rule, text=reason.text, origins=reason.origins))
