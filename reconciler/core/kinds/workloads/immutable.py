"""Immutable fields of built-in kinds: Kubernetes' validation of updates, pkg/apis/{batch,core,apps}/validation.

Both sides of a change are as a server has them, with defaults.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.core.kinds.immutable import Body, all_but, omit, only, same, value_of
from reconciler.core.kinds.kueue.labels import frozen_labels, frozen_parallelism
from reconciler.core.values import mapping, sequence

_PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")
_CONTAINERS = ("containers", "initContainers")
_job_fields = only(
    "spec.selector",
    "spec.completionMode",
    "spec.podFailurePolicy",
    "spec.backoffLimitPerIndex",
    "spec.successPolicy",
    "spec.managedBy",
)


def job(before: Body, after: Body) -> list[str]:
    """Check a Job: its template is immutable, except for placement (KEP-2926) and resources while it is suspended.

    An indexed Job may be resized by changing `completions` and `parallelism` together (KEP-3715).
    """
    fields = [*frozen_labels(before, after), *frozen_parallelism(before, after), *_job_fields(before, after)]
    if value_of(before, "spec.completions") != value_of(after, "spec.completions") and not _is_resize(after):
        fields.append("spec.completions")
    is_suspended = value_of(before, "spec.suspend") is True
    if not same(*(_compared(value_of(body, "spec.template"), is_suspended=is_suspended) for body in (before, after))):
        fields.append("spec.template")
    return fields


def _is_resize(after: Body) -> bool:
    indexed = value_of(after, "spec.completionMode") == "Indexed"
    return indexed and bool(value_of(after, "spec.completions") == value_of(after, "spec.parallelism"))


def _compared(template: Any, *, is_suspended: bool) -> dict[str, Any]:
    """Return the metadata and the spec of a pod template, without what a suspended Job may change."""
    metadata, pod = mapping(mapping(template).get("metadata")), mapping(mapping(template).get("spec"))
    if not is_suspended:
        return {"metadata": {name: value for name, value in metadata.items() if value}, "spec": pod}
    pod = omit(_with_containers(pod, "resources"), _PLACEMENT)
    affinity = omit(mapping(pod.pop("affinity", None)), ("nodeAffinity",))
    return {"spec": {**pod, "affinity": affinity} if affinity else pod}


def _with_containers(pod: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """Return the spec of a pod whose containers lack fields."""
    names = [name for name in _CONTAINERS if name in pod]
    return {**pod, **{name: [omit(mapping(each), without) for each in sequence(pod[name])] for name in names}}


def pod(before: Body, after: Body) -> list[str]:
    """Check a Pod: images may change, the deadline may come nearer, tolerations may be added, and gates removed.

    While it has gates, more labels of nodes may be demanded of it.
    """
    old, new = (_with_containers(mapping(value_of(body, "spec")), "image") for body in (before, after))
    names = sorted({*old, *new} - _OF_PODS)
    fields = [f"spec.{name}" for name in names if not same(old.get(name), new.get(name))]
    if not _is_within(old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")):
        fields.append("spec.activeDeadlineSeconds")
    left, right = ([omit(mapping(one), ("tolerationSeconds",)) for one in sequence(side.get("tolerations"))]
                   for side in (old, new))  # fmt: skip
    if any(one not in right for one in left):
        fields.append("spec.tolerations")
    gates = sequence(old.get("schedulingGates"))
    if any(one not in gates for one in sequence(new.get("schedulingGates"))):
        fields.append("spec.schedulingGates")
    return [*fields, *(field for field in _demands(old, new, is_gated=bool(gates)))]


_OF_PODS = {"activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeSelector", "affinity"}


def _is_within(old: Any, new: Any) -> bool:
    """Return whether a deadline is the same, the first one, or nearer."""
    return old == new or old is None or (new is not None and new < old)


def _demands(old: Mapping[str, Any], new: Mapping[str, Any], *, is_gated: bool) -> list[str]:
    """Return the demands on nodes that a Pod cannot change."""
    left, right = mapping(old.get("nodeSelector")), mapping(new.get("nodeSelector"))
    fields = [] if left == right or (is_gated and left.items() <= right.items()) else ["spec.nodeSelector"]
    left, right = mapping(old.get("affinity")), mapping(new.get("affinity"))
    if is_gated and not value_of(left, "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"):
        left, right = (omit(side, ("nodeAffinity",)) for side in (left, right))
    return fields if same(left, right) else [*fields, "spec.affinity"]


def claim(before: Body, after: Body) -> list[str]:
    """Check a claim: it is immutable, except for its size and its attributes class; its volume may be set once."""
    fields = _claim(before, after)
    return [field for field in fields if value_of(before, field) is not None or field != "spec.volumeName"]


_claim = all_but("spec", "resources", "volumeAttributesClassName")


def service(before: Body, after: Body) -> list[str]:
    """Check a Service: its address cannot change, nor become none; nor can the class of its load balancer."""
    types = {value_of(body, "spec.type") for body in (before, after)}
    fields: list[str] = []
    address = value_of(after, "spec.clusterIP")
    if "ExternalName" not in types and address and address != value_of(before, "spec.clusterIP"):
        fields.append("spec.clusterIP")
    return [*fields, *_load_balancer(before, after)] if types == {"LoadBalancer"} else fields


_load_balancer = only("spec.loadBalancerClass")


def data(before: Body, after: Body) -> list[str]:
    """Check a ConfigMap or Secret: its type, and everything once it is marked `immutable`."""
    fields = [] if value_of(before, "type") == value_of(after, "type") else ["type"]
    return [*fields, *_fixed_data(before, after)] if value_of(before, "immutable") is True else fields


def _fixed_data(before: Body, after: Body) -> list[str]:
    """Return the fields of data that differ; that of a Secret may be written in two fields."""
    fields = _data_fields(before, after)
    return [*fields, "stringData"] if "data" in fields else fields


_data_fields = only("data", "binaryData", "immutable")


def definition(before: Body, after: Body) -> list[str]:
    """Check a CustomResourceDefinition: its scope, its names, and that the version stays in which objects are stored."""
    fields = list(_definition(before, after))
    names = {mapping(version).get("name") for version in sequence(value_of(after, "spec.versions"))}
    stored = [each for each in map(mapping, sequence(value_of(before, "spec.versions"))) if each.get("storage") is True]
    return fields if all(version.get("name") in names for version in stored) else [*fields, "spec.versions"]


_definition = only("spec.group", "spec.scope", "spec.names.kind", "spec.names.plural")


def deployment(before: Body, after: Body) -> list[str]:
    """Check a Deployment: its selector, and its strategy."""
    return [*selector(before, after), *_left_over(after, "spec.strategy", "Recreate")]


def _left_over(after: Body, field: str, other: str) -> list[str]:
    """Return the strategy of updates that has another type now, and parameters of a rolling update.

    A server fills them in where nobody writes them, keeps them when the type changes, and refuses them then.
    """
    return [field] if value_of(after, f"{field}.type") == other and value_of(after, f"{field}.rollingUpdate") else []


def stateful_set(before: Body, after: Body) -> list[str]:
    """Check a StatefulSet: its pods, their number and how they are updated may change."""
    return [*_stateful_set(before, after), *_left_over(after, "spec.updateStrategy", "OnDelete")]


_stateful_set = all_but(
    "spec",
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def volume(before: Body, after: Body) -> list[str]:
    """Check a PersistentVolume: where the data lies cannot change; from which nodes it is reached can be set once."""
    found: list[str] = []
    for field in _volume_fields(before, after):
        left, right = value_of(before, field), value_of(after, field)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            left, right = {"readOnly": False, **left}, {"readOnly": False, **right}
        if not same(left, right) and not (field == "spec.nodeAffinity" and left is None):
            found.append(field)
    return found


_volume_fields = all_but(
    "spec",
    "capacity",
    "accessModes",
    "persistentVolumeReclaimPolicy",
    "claimRef",
    "storageClassName",
    "mountOptions",
    "volumeAttributesClassName",
)
selector = only("spec.selector")
role_ref = only("roleRef.apiGroup", "roleRef.kind", "roleRef.name")
storage_class = only("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
attributes_class = only("driverName", "parameters")
storage_capacity = only("storageClassName", "nodeTopology")
priority_class = only("value", "preemptionPolicy")
handler = only("handler")
controller = only("spec.controller")
csi_driver = only("spec.attachRequired", "spec.volumeLifecycleModes")
quota = only("spec.scopes")
endpoints = only("addressType")
revision = only("data")
addresses = only("spec.cidrs")
address = only("spec.parentRef")
