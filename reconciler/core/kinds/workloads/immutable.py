"""Immutable fields of built-in kinds: Kubernetes' validation of updates, pkg/apis/{batch,core,apps}/validation.

Both sides of a change are as a server has them, with defaults.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.core.kinds.immutable import Body, all_but, differing, every, omit, once, only, same, value_of
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
        return {"metadata": metadata, "spec": pod}
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
    left, right = old.get("affinity"), new.get("affinity")
    if is_gated and not value_of(left, "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"):
        left, right = (omit(mapping(side), ("nodeAffinity",)) for side in (left, right))
    return fields if same(left, right) else [*fields, "spec.affinity"]


def service(before: Body, after: Body) -> list[str]:
    """Check a Service: what it is reached at stays, unless its type has no such thing; so does its load balancer.

    An address or a port that nobody wrote has been chosen by the server: it is hardly the one that is written later.
    """
    types = {value_of(body, "spec.type") for body in (before, after)}
    paths = [] if "ExternalName" in types else ["spec.clusterIP"]
    if types == {"LoadBalancer"}:
        policies = {value_of(body, "spec.externalTrafficPolicy") for body in (before, after)}
        paths += ["spec.healthCheckNodePort"] if policies == {"Local"} else []
    fields = [path for path in paths if value_of(after, path) not in (None, "", value_of(before, path))]
    families = [sequence(value_of(body, "spec.ipFamilies"))[:1] for body in (before, after)]
    if "ExternalName" not in types and all(families) and families[0] != families[1]:
        fields.append("spec.ipFamilies")
    return [*fields, *_load_balancer(before, after)] if types == {"LoadBalancer"} else fields


_load_balancer = only("spec.loadBalancerClass")


def data(before: Body, after: Body) -> list[str]:
    """Check a ConfigMap or Secret: its type, and everything once it is marked `immutable`."""
    fields = differing(before, after, "type")
    if value_of(before, "immutable") is True:
        fields += differing(before, after, "data", "binaryData", "immutable")
    return [*fields, "stringData"] if "data" in fields else fields  # which a Secret may be written in


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
    """Check a PersistentVolume: where the data lies cannot change, but for the secret with which it grows."""
    found: list[str] = []
    for field in _volume_fields(before, after):
        left, right = value_of(before, field), value_of(after, field)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            left, right = ({"readOnly": False, **omit(side, ("controllerExpandSecretRef",))} for side in (left, right))
        found += [] if same(left, right) else [field]
    return [*found, *_reached_from(before, after)]


_volume_fields = all_but(
    "spec",
    "capacity",
    "accessModes",
    "persistentVolumeReclaimPolicy",
    "claimRef",
    "storageClassName",
    "mountOptions",
    "volumeAttributesClassName",
    "nodeAffinity",
)
_reached_from = once("spec.nodeAffinity")
claim = every(
    all_but("spec", "resources", "volumeAttributesClassName", "volumeName"),
    only("spec.resources.limits"),
    once("spec.volumeName"),
)
node = once("spec.providerID", "spec.podCIDR", "spec.podCIDRs")
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
attachment = only("spec")
addresses = only("spec.cidrs")
address = only("spec.parentRef")
