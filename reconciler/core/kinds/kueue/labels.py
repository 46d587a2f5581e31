"""What Kueue reads and protects of the workloads in its queues.

Kueue 0.16, pkg/controller/jobframework/validation.go and pkg/controller/jobs/job/job_webhook.go.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.immutable import Body, value_of
from reconciler.core.kinds.pods import is_suspended
from reconciler.core.objects import FieldPath
from reconciler.core.values import annotation, mapping, value_at

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""Annotation of a Job that Kueue may admit with fewer pods; it then sets `parallelism` itself."""
_ELASTIC = "kueue.x-k8s.io/elastic-job"
"""Annotation of a workload whose number of pods Kueue changes while it runs."""
_PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
_LONGEST = "kueue.x-k8s.io/max-exec-time-seconds"


def is_started(suspend: FieldPath) -> Callable[[Body], bool]:
    """Return a function that tells whether an object names a queue and is not suspended by this field."""
    return lambda body: bool(_label(body, QUEUE_LABEL)) and value_at(body, suspend) is not True


def as_admitted(body: Body, pods: Iterable[PodSet]) -> list[tuple[Any, ...]]:
    """Return what Kueue compares of the pods of a running workload with those that it admitted.

    It stops one that differs, and admits it again: pkg/util/equality/podset.go (ComparePodSets).
    """
    is_elastic = annotation(body, _ELASTIC) == "true"
    specs = ((None if is_elastic else one.replicas, mapping(one.template.get("spec"))) for one in pods)
    return [(replicas, spec.get("initContainers"), spec.get("containers")) for replicas, spec in specs]


def frozen_labels(before: Body, after: Body) -> list[str]:
    """Check the labels of a workload: queue and prebuilt workload change only with a suspended one.

    A priority class may change, be added while the workload is suspended, and never be removed.
    """
    return [f'metadata.labels["{label}"]' for label in _frozen(before, after)]


def frozen_labels_in_queue(before: Body, after: Body) -> list[str]:
    """Check as `frozen_labels` does, but only while a queue is named: so do the webhooks for kinds of Ray."""
    return frozen_labels(before, after) if _label(after, QUEUE_LABEL) else []


def _frozen(before: Body, after: Body) -> Iterator[str]:
    paused = is_suspended(after)
    for label in (QUEUE_LABEL, _PREBUILT):
        if not paused and _label(before, label) != _label(after, label):
            yield label
    old, new = (_label(body, PRIORITY_LABEL) for body in (before, after))
    if (old and not new) or (new and not old and not paused):
        yield PRIORITY_LABEL
    if _label(before, _LONGEST) != _label(after, _LONGEST) and not (paused and is_suspended(before)):
        yield _LONGEST


def frozen_parallelism(before: Body, after: Body) -> list[str]:
    """Check a Job that Kueue may admit with fewer pods: its `parallelism` changes only while it is suspended."""
    annotations = value_of(before, "metadata.annotations")
    is_elastic = isinstance(annotations, dict) and MIN_PARALLELISM in annotations
    if not is_elastic or is_suspended(before):
        return []
    old, new = (value_of(body, "spec.parallelism") for body in (before, after))
    return ["spec.parallelism"] if old != new else []


def _label(body: Body, name: str) -> Any:
    labels = value_of(body, "metadata.labels")
    return (labels.get(name) if isinstance(labels, dict) else None) or ""
