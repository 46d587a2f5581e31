"""JobSet (`jobset.x-k8s.io`): several replicated Jobs that run together."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.immutable import Body, differing, value_of
from reconciler.core.kinds.jobset.progress import job_set_progress
from reconciler.core.kinds.jobset.training import job_set_training
from reconciler.core.kinds.kind import Kind
from reconciler.core.kinds.pods import batch_job, of_spec
from reconciler.core.values import count, mapping, sequence


def _pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for index, replicated in enumerate(map(mapping, sequence(spec.get("replicatedJobs")))):
        replicas = count(replicated.get("replicas"), 1)
        job = mapping(mapping(replicated.get("template")).get("spec"))
        for pods in batch_job(job, f"{prefix}replicatedJobs[{index}].template.spec."):
            yield pods._replace(replicas=pods.replicas * replicas)


def _immutable(before: Body, after: Body) -> list[str]:
    """Check a JobSet: its jobs may change while it is suspended (transition rules of its CRD, and its webhook)."""
    jobs = () if value_of(before, "spec.suspend") is True else ("spec.replicatedJobs",)
    return differing(before, after, *jobs, "spec.successPolicy", "spec.failurePolicy", "spec.network", "spec.managedBy")


KINDS = (
    Kind(
        group="jobset.x-k8s.io",
        kind="JobSet",
        pods=of_spec(_pods),
        immutable=_immutable,
        has_generations=True,
        training=job_set_training,
        progress=job_set_progress,
    ),
)
