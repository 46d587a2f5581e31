"""Building blocks of `Pods.read`: pod templates in the shapes that several kinds share.

Each API has its own defaults: an absent `replicas` is 1 in `apps/v1` and Kubeflow, 0 in KubeRay.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.kinds.facts import PodSet
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import annotation, count, mapping

Reader = Callable[[Mapping[str, Any], str], Iterator[PodSet]]
"""Yields the pods of a mapping; the second argument is the prefix of its fields, with a trailing dot."""


def of_spec(read: Reader) -> Reader:
    """Return a `Pods.read` that reads the object's `spec`."""

    def read_object(body: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
        return read(mapping(body.get("spec")), f"{prefix}spec.")

    return read_object


def replicated(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield `replicas` pods of `template`."""
    yield PodSet(count(spec.get("replicas"), 1), mapping(spec.get("template")), f"{prefix}template.")


def replicas(body: Mapping[str, Any]) -> int:
    """Return the number of copies of an object: `spec.replicas`, by default 1."""
    return count(mapping(body.get("spec")).get("replicas"), 1)


def batch_job(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a `batch/v1` JobSpec: as many as run at the same time."""
    parallelism = count(spec.get("parallelism"), 1)
    pods = min(parallelism, count(spec.get("completions"), parallelism))
    yield PodSet(pods, mapping(spec.get("template")), f"{prefix}template.")


def bounds(replicas: int, least: Any, most: Any) -> tuple[int | None, int | None]:
    """Return `PodSet.least` and `most` of what an autoscaler may set; (None, None) where it can set nothing else."""
    low = min(count(least, replicas), replicas)
    high = max(count(most, replicas), replicas)
    return (None, None) if low == high else (low, high)


def is_suspended(body: Mapping[str, Any]) -> bool:
    """Return whether an object says that its pods are not to run: `spec.suspend`, or Kubeflow's `spec.runPolicy`."""
    spec = mapping(body.get("spec"))
    return spec.get("suspend") is True or mapping(spec.get("runPolicy")).get("suspend") is True


REPLICAS: FieldPath = ("spec", "replicas")
SUSPEND = "gpureconciler.io/suspend"
"""Annotation of a workload that runs no pods while it is `"true"`: the wish of a person, which no queue undoes."""


def is_stopped(body: Mapping[str, Any]) -> bool:
    """Return whether a person stops an object by the annotation."""
    return annotation(body, SUSPEND) == "true"


def is_paused(body: Mapping[str, Any]) -> bool:
    """Return whether a Job runs no pods until its `parallelism` is raised from 0, whatever queue it is in."""
    parallelism = mapping(body.get("spec")).get("parallelism")
    return type(parallelism) is int and parallelism == 0
