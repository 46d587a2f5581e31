"""The labels and annotations that Kueue reads and protects on the workloads in its queues.

Kueue 0.19, pkg/controller/jobframework/validation.go and pkg/controller/jobs/*/*_webhook.go.
"""

from collections.abc import Callable, Sequence
from typing import Any

from reconciler.kinds.facts import Body, PodSet
from reconciler.kinds.immutable import Check, differing, same, value_of
from reconciler.kinds.pods import is_suspended
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import annotation, mapping, sequence, value_at

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
NAMED_BY_LABELS = ("LocalQueue", "WorkloadPriorityClass")
"""The kinds that workloads name by labels."""
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""Annotation of a Job that Kueue may admit with fewer pods; it then sets `parallelism` itself."""
SYNCED = "kueue.x-k8s.io/job-completions-equal-parallelism"
ELASTIC = "kueue.x-k8s.io/elastic-job"
"""Annotation of a workload whose number of pods Kueue changes while it runs."""
POD_GROUP = "kueue.x-k8s.io/pod-group-name"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
MAX_LENGTH = "kueue.x-k8s.io/max-exec-time-seconds"


def is_started(suspend: FieldPath) -> Callable[[Body], bool]:
    """Return a function that tells whether an object names a queue and is not suspended by this field."""
    return lambda body: bool(_label(body, QUEUE_LABEL)) and value_at(body, suspend) is not True


_COMPARED = ("initContainers", "containers", "tolerations")


def as_admitted(body: Body, pods: Sequence[PodSet]) -> list[tuple[Any, ...]]:
    """Return what Kueue compares of the pods of a running workload with those that it admitted.

    It stops one that differs, and admits it again: pkg/util/equality/podset.go (ComparePodSets).
    """
    is_elastic = annotation(body, ELASTIC) == "true"
    counts = ((None, None) if is_elastic else (one.replicas, one.spare) for one in pods)
    specs = (mapping(one.template.get("spec")) for one in pods)
    return [(*count, *map(spec.get, _COMPARED)) for count, spec in zip(counts, specs, strict=True)]


def frozen_labels(before: Body, after: Body) -> list[str]:
    """Check the labels of a workload: queue and prebuilt workload change only with a suspended one.

    A priority class may change, be added while the workload is suspended, and never be removed. Whether Kueue may
    resize a job is said once.
    """
    paused = is_suspended(after)
    changed = [] if paused else [label for label in (QUEUE_LABEL, PREBUILT) if _differs(before, after, label)]
    if _differs(before, after, MAX_LENGTH) and not (paused and is_suspended(before)):
        changed.append(MAX_LENGTH)
    elastic = [_annotations(body).get(ELASTIC) == "true" for body in (before, after)]
    return [
        *_labels(*changed, *_priority(before, after, is_paused=paused)),
        *([f'metadata.annotations["{ELASTIC}"]'] if elastic[0] != elastic[1] else []),
    ]


def in_queue(check: Check) -> Check:
    """Return a check that is made only while a queue is named."""
    return lambda before, after: check(before, after) if _label(after, QUEUE_LABEL) else []


frozen_labels_in_queue = in_queue(frozen_labels)
"""So do the webhooks for kinds of Ray."""


def frozen_labels_of_pod(before: Body, after: Body) -> list[str]:
    """Check as `frozen_labels` does, and that a pod stays in its group."""
    leaves = _label(before, POD_GROUP) and _differs(before, after, POD_GROUP)
    return [*frozen_labels(before, after), *_labels(*([POD_GROUP] if leaves else []))]


def frozen_labels_of_serving(before: Body, after: Body) -> list[str]:
    """Check the labels of what serves, which counts as suspended while none of its pods is ready.

    A plan takes them to be ready where there are to be any; it keeps to its queue then, and never leaves all queues.
    """
    paused = value_of(before, "spec.replicas") == 0
    stays = _differs(before, after, QUEUE_LABEL) and not (paused and _label(after, QUEUE_LABEL))
    return _labels(*([QUEUE_LABEL] if stays else []), *_priority(before, after, is_paused=paused))


def frozen_pods(*templates: str) -> Check:
    """Return a check of the pods of what serves in a queue: what Kueue counts of them stays, and where they may run."""

    def check(before: Body, after: Body) -> list[str]:
        if not _label(after, QUEUE_LABEL):
            return []
        paths = [f"{template}.spec.{name}" for template in templates for name in (*_CONTAINERS, *_SHAPE)]
        return [path for path in paths if not same(_counted(before, path), _counted(after, path))]

    return check


_CONTAINERS = ("containers", "initContainers")
_SHAPE = (
    *("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority"),
    *("topologySpreadConstraints", "overhead", "resourceClaims"),
)


def _counted(body: Body, path: str) -> Any:
    value = value_of(body, path)
    if not path.endswith(_CONTAINERS):
        return value
    return [
        {"requests": value_of(container, "resources.requests"), "ports": value_of(container, "ports")}
        for container in sequence(value)
    ]


def frozen_replicas(before: Body, after: Body) -> list[str]:
    """Check a StatefulSet in a queue: it is scaled to nothing, and from there."""
    counts = [value_of(body, "spec.replicas") for body in (before, after)]
    return ["spec.replicas"] if _label(after, QUEUE_LABEL) and all(counts) and counts[0] != counts[1] else []


def frozen_parallelism(before: Body, after: Body) -> list[str]:
    """Check a Job that runs: `parallelism` stays if Kueue may admit fewer pods, and whether it sets `completions`."""
    if is_suspended(before):
        return []
    partial = MIN_PARALLELISM in _annotations(before)
    fields = differing(before, after, "spec.parallelism") if partial else []
    synced = [_annotations(body).get(SYNCED) == "true" for body in (before, after)]
    stays = synced[0] != synced[1] and not is_suspended(after)
    return [*fields, *([f'metadata.annotations["{SYNCED}"]'] if stays else [])]


def _priority(before: Body, after: Body, *, is_paused: bool) -> list[str]:
    old, new = (_label(body, PRIORITY_LABEL) for body in (before, after))
    return [PRIORITY_LABEL] if (old and not new) or (new and not old and not is_paused) else []


def _labels(*names: str) -> list[str]:
    return [f'metadata.labels["{name}"]' for name in names]


def _differs(before: Body, after: Body, label: str) -> bool:
    return bool(_label(before, label) != _label(after, label))


def _label(body: Body, name: str) -> Any:
    return mapping(value_of(body, "metadata.labels")).get(name) or ""


def _annotations(body: Body) -> dict[str, Any]:
    return mapping(value_of(body, "metadata.annotations"))
