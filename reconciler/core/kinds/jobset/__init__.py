"""JobSet (`jobset.x-k8s.io`): several replicated Jobs that run together."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.immutable import Body, differing, value_of
from reconciler.core.kinds.jobset.training import job_set_training
from reconciler.core.kinds.kind import Kind
from reconciler.core.kinds.pods import batch_job, of_spec
from reconciler.core.values import count, mapping, sequence

if TYPE_CHECKING:
    from reconciler.core.kinds.progress import Progress


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


def _job_set_progress(body: Body) -> "Progress":
    from reconciler.core.kinds.jobset.progress import job_set_progress  # noqa: PLC0415 - few commands need it

    return job_set_progress(body)


KINDS = (
    Kind(
        group="jobset.x-k8s.io",
        kind="JobSet",
        pods=of_spec(_pods),
        immutable=_immutable,
        has_generations=True,
        training=job_set_training,
        progress=_job_set_progress,
    ),
)
