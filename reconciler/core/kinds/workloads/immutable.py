"""Immutable fields of built-in kinds: Kubernetes' validation of updates, pkg/apis/{batch,core,apps}/validation."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.kinds.immutable import Body, all_but, differing, omit, only, value_of

_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_PLACEMENT = ("nodeSelector", "tolerations", "affinity", "schedulingGates")
_JOB_FIELDS = (
    "spec.selector",
    "spec.completionMode",
    "spec.podFailurePolicy",
    "spec.backoffLimitPerIndex",
    "spec.successPolicy",
    "spec.managedBy",
    "spec.podReplacementPolicy",
)


def job(before: Body, after: Body) -> list[str]:
    """Check a Job: its template is immutable, except where its pods may run while it is suspended (KEP-2926).

    An indexed Job may be resized by changing `completions` and `parallelism` together (KEP-3715). Kueue's webhook lets
    only a suspended Job change its queue (pkg/controller/jobframework/validation.go, validateUpdateForQueueName).
    """
    fields = []
    if value_of(after, "spec.suspend") is not True and _queue(before) != _queue(after):
        fields.append(f'metadata.labels["{_QUEUE_LABEL}"]')
    fields += differing(before, after, *_JOB_FIELDS)
    if differing(before, after, "spec.completions") and not _is_resize(after):
        fields.append("spec.completions")
    left, right = value_of(before, "spec.template"), value_of(after, "spec.template")
    if value_of(before, "spec.suspend") is True:
        left, right = _without_placement(left), _without_placement(right)
    if left != right:
        fields.append("spec.template")
    return fields


def _queue(body: Body) -> Any:
    labels = value_of(body, "metadata.labels")
    return labels.get(_QUEUE_LABEL) if isinstance(labels, Mapping) else None


def _is_resize(after: Body) -> bool:
    indexed = value_of(after, "spec.completionMode") == "Indexed"
    return indexed and bool(value_of(after, "spec.completions") == value_of(after, "spec.parallelism"))


def _without_placement(template: Any) -> Any:
    if not isinstance(template, Mapping):
        return template
    metadata, spec = template.get("metadata"), template.get("spec")
    return {**template, "metadata": omit(metadata, ("labels", "annotations")), "spec": omit(spec, _PLACEMENT)}


def claim(before: Body, after: Body) -> list[str]:
    """Check a claim: it is immutable, except for its size and its attributes class; its volume may be set once."""
    fields = _claim(before, after)
    return [field for field in fields if value_of(before, field) is not None or field != "spec.volumeName"]


_claim = all_but("spec", "resources", "volumeAttributesClassName")


def service(before: Body, after: Body) -> list[str]:
    """Check a Service: it cannot become headless, or stop being headless."""
    headless = [value_of(body, "spec.clusterIP") == "None" for body in (before, after)]
    return ["spec.clusterIP"] if headless[0] != headless[1] else []


def data(before: Body, after: Body) -> list[str]:
    """Check a ConfigMap or Secret: its type, and everything once it is marked `immutable`."""
    fields = differing(before, after, "type")
    if value_of(before, "immutable") is True:
        fields += differing(before, after, "data", "binaryData", "stringData", "immutable")
    return fields


pod = all_but("spec", "activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")
stateful_set = all_but(
    "spec",
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
selector = only("spec.selector")
role_ref = only("roleRef")
storage_class = only("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
priority_class = only("value", "preemptionPolicy")
