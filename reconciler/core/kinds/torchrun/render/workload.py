"""The workload around the pods: an Indexed Job, the PyTorchJob that is a gang under KAI, or the kind that was set."""

from collections.abc import Iterator
from typing import Any

from reconciler.core.config import Backend
from reconciler.core.kinds.kueue.labels import MIN_PARALLELISM
from reconciler.core.kinds.rendered import problem_at
from reconciler.core.kinds.torchrun.intent.job import TorchrunJob
from reconciler.core.kinds.torchrun.render.command import max_restarts
from reconciler.core.kinds.torchrun.render.dispatch import managed_by
from reconciler.core.kinds.torchrun.render.gangs import check_gang
from reconciler.core.kinds.torchrun.render.jobsets import job_set_trees
from reconciler.core.kinds.torchrun.render.pods import Pod
from reconciler.core.kinds.torchrun.render.shape import INDEXED_JOB, PYTORCH_JOB
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Reason, Traced
from reconciler.core.values import plural

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
    """Return how many pods may fail. The limit counts pods, and a failure of one makes all others restart as well."""
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
