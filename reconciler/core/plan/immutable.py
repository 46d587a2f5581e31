"""Fields that the API server accepts only on a new object.

Sources: Kubernetes' validation of updates (pkg/apis/{batch,core,apps,rbac,storage,scheduling}/validation) and the
transition rules in the CRDs of Kueue, JobSet and Trainer.
"""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.core.objects import ObjectKey

IMMUTABLE = "gpureconciler.io/immutable"
"""Annotation by which an owner forbids changes in place."""

Body = Mapping[str, Any]


def frozen_fields(key: ObjectKey, before: Body, after: Body) -> tuple[str, ...]:
    """Return the fields that differ and cannot be changed in place, as `spec.selector`."""
    judge = _JUDGES.get((key.group, key.kind))
    return tuple(judge(before, after)) if judge else ()


def unapplied_fields(key: ObjectKey, before: Body, after: Body) -> tuple[str, ...]:
    """Return the fields that differ, are accepted, and reach no pod that runs: of Kubeflow's jobs, the templates.

    The training operator compares the number of pods and not what is in them (training-operator 1.9,
    pkg/controller.v1/common/pod.go); a suspended job has no pods, and gets new ones when it goes on.
    """
    if key.group != "kubeflow.org" or _at(before, "spec.runPolicy.suspend") is True:
        return ()
    found = []
    for section in (name for name in after.get("spec", {}) if name.endswith("ReplicaSpecs")):
        left, right = _at(before, f"spec.{section}"), _at(after, f"spec.{section}")
        for role in sorted(left if isinstance(left, Mapping) and isinstance(right, Mapping) else ()):
            path = f"spec.{section}.{role}.template"
            if role in right and _at(before, path) != _at(after, path):
                found.append(path)
    return tuple(found)


def _at(body: Any, path: str) -> Any:
    for part in path.split("."):
        body = body.get(part) if isinstance(body, Mapping) else None
    return body


def _only(*paths: str) -> Callable[[Body, Body], list[str]]:
    def judge(before: Body, after: Body) -> list[str]:
        return [path for path in paths if _at(before, path) != _at(after, path)]

    return judge


def _all_but(section: str, *open_fields: str) -> Callable[[Body, Body], list[str]]:
    def judge(before: Body, after: Body) -> list[str]:
        left, right = _at(before, section), _at(after, section)
        left, right = left if isinstance(left, Mapping) else {}, right if isinstance(right, Mapping) else {}
        names = [name for name in sorted({*left, *right}) if name not in open_fields]
        return [f"{section}.{name}" for name in names if left.get(name) != right.get(name)]

    return judge


_PLACING = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def _job(before: Body, after: Body) -> list[str]:
    """Judge a Job: its template is fixed, but for where its pods may run while it is suspended (KEP-2926).

    An indexed Job may be resized by changing `completions` and `parallelism` together (KEP-3715). Kueue's webhook lets
    the queue of a suspended Job change only (pkg/controller/jobframework/validation.go, validateUpdateForQueueName).
    """
    found = [_QUEUE_PATH] if _at(after, "spec.suspend") is not True and _queue(before) != _queue(after) else []
    found += _only(
        "spec.selector",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.successPolicy",
        "spec.managedBy",
        "spec.podReplacementPolicy",
    )(before, after)
    if _at(before, "spec.completions") != _at(after, "spec.completions") and not _is_resize(after):
        found.append("spec.completions")
    left, right = _at(before, "spec.template"), _at(after, "spec.template")
    if _at(before, "spec.suspend") is True:
        left, right = _without_placing(left), _without_placing(right)
    if left != right:
        found.append("spec.template")
    return found


_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_QUEUE_PATH = f'metadata.labels["{_QUEUE_LABEL}"]'


def _queue(body: Body) -> Any:
    labels = _at(body, "metadata.labels")
    return labels.get(_QUEUE_LABEL) if isinstance(labels, Mapping) else None


def _is_resize(after: Body) -> bool:
    indexed = _at(after, "spec.completionMode") == "Indexed"
    return indexed and bool(_at(after, "spec.completions") == _at(after, "spec.parallelism"))


def _without_placing(template: Any) -> Any:
    if not isinstance(template, Mapping):
        return template
    metadata, spec = template.get("metadata"), template.get("spec")
    return {
        **template,
        "metadata": _without(metadata, ("labels", "annotations")),
        "spec": _without(spec, _PLACING),
    }


def _without(value: Any, names: tuple[str, ...]) -> Any:
    return {key: inner for key, inner in value.items() if key not in names} if isinstance(value, Mapping) else None


def _claim(before: Body, after: Body) -> list[str]:
    """Judge a claim: it is fixed but for its size, which has a risk of its own, and its attributes class."""
    found = _all_but("spec", "resources", "volumeAttributesClassName")(before, after)
    return [field for field in found if _at(before, field) is not None or field != "spec.volumeName"]


def _service(before: Body, after: Body) -> list[str]:
    old = _at(before, "spec.clusterIP")
    return ["spec.clusterIP"] if (old == "None") != (_at(after, "spec.clusterIP") == "None") else []


def _frozen_data(before: Body, after: Body) -> list[str]:
    found = _only("type")(before, after)
    if _at(before, "immutable") is True:
        found += _only("data", "binaryData", "stringData", "immutable")(before, after)
    return found


def _job_set(before: Body, after: Body) -> list[str]:
    if _at(before, "spec.suspend") is True:
        return _only("spec.successPolicy", "spec.network", "spec.managedBy")(before, after)
    return _only("spec.replicatedJobs", "spec.successPolicy", "spec.network", "spec.managedBy")(before, after)


def _flavor(before: Body, after: Body) -> list[str]:
    return _all_but("spec")(before, after) if _at(before, "spec.topologyName") else []


_STATEFUL_SET_OPEN = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_POD_OPEN = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")

_JUDGES: dict[tuple[str, str], Callable[[Body, Body], list[str]]] = {
    ("batch", "Job"): _job,
    ("", "Pod"): _all_but("spec", *_POD_OPEN),
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Service"): _service,
    ("", "ConfigMap"): _frozen_data,
    ("", "Secret"): _frozen_data,
    ("apps", "StatefulSet"): _all_but("spec", *_STATEFUL_SET_OPEN),
    ("apps", "Deployment"): _only("spec.selector"),
    ("apps", "ReplicaSet"): _only("spec.selector"),
    ("apps", "DaemonSet"): _only("spec.selector"),
    ("rbac.authorization.k8s.io", "RoleBinding"): _only("roleRef"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _only("roleRef"),
    ("storage.k8s.io", "StorageClass"): _only("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    ("scheduling.k8s.io", "PriorityClass"): _only("value", "preemptionPolicy"),
    ("kueue.x-k8s.io", "LocalQueue"): _only("spec.clusterQueue"),
    ("kueue.x-k8s.io", "ResourceFlavor"): _flavor,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("trainer.kubeflow.org", "TrainJob"): _only("spec.runtimeRef", "spec.managedBy"),
}
