"""KubeRay (`ray.io`): clusters of a head and groups of workers, alone or for a job or a service."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.kind import Body, Kind
from reconciler.core.kinds.pods import Reader, of_spec
from reconciler.core.kinds.ray.training import ray_job_training
from reconciler.core.values import count, mapping, sequence

if TYPE_CHECKING:
    from reconciler.core.kinds.progress import Progress

_GROUP = "ray.io"


def _cluster(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    head = mapping(spec.get("headGroupSpec"))
    if head:
        yield PodSet(1, mapping(head.get("template")), f"{prefix}headGroupSpec.template.")
    for index, workers in enumerate(map(mapping, sequence(spec.get("workerGroupSpecs")))):
        minimum = count(workers.get("minReplicas"), 0)
        replicas = max(count(workers.get("replicas"), minimum), minimum)
        if workers.get("suspend") is True:
            replicas = 0
        hosts = count(workers.get("numOfHosts"), 1)
        yield PodSet(replicas * hosts, mapping(workers.get("template")), f"{prefix}workerGroupSpecs[{index}].template.")


def _with_cluster(field: str) -> Reader:
    def read(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
        return _cluster(mapping(spec.get(field)), f"{prefix}{field}.")

    return read


def _ray_job_progress(body: Body) -> "Progress":
    from reconciler.core.kinds.ray.progress import ray_job_progress  # noqa: PLC0415 - few commands need it

    return ray_job_progress(body)


KINDS = (
    Kind(group=_GROUP, kind="RayCluster", pods=of_spec(_cluster)),
    Kind(
        group=_GROUP,
        kind="RayJob",
        pods=of_spec(_with_cluster("rayClusterSpec")),
        training=ray_job_training,
        progress=_ray_job_progress,
    ),
    Kind(group=_GROUP, kind="RayService", pods=of_spec(_with_cluster("rayClusterConfig"))),
)
