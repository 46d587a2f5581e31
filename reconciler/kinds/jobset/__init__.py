"""JobSet (`jobset.x-k8s.io`): several replicated Jobs that run together."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Life, Pods, Source
from reconciler.kinds.facts import Body, PodSet
from reconciler.kinds.immutable import differing, every, omit, same, value_of
from reconciler.kinds.jobset.progress import job_set_progress
from reconciler.kinds.jobset.training import job_set_training
from reconciler.kinds.kind import Kind
from reconciler.kinds.kueue.labels import frozen_labels
from reconciler.kinds.pods import batch_job, of_spec
from reconciler.kinds.progress import Progress
from reconciler.kube.values import count, mapping, sequence


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


def _job_set_progress(body: Body) -> Progress:
    return job_set_progress(body)


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
            progress=_job_set_progress,
        ),
    ),
)
