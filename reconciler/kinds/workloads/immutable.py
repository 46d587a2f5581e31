"""Immutable fields of built-in kinds: Kubernetes' validation of updates, pkg/apis/{batch,core,apps}/validation.

Both sides of a change are as a server has them, with defaults.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.kinds.facts import Body
from reconciler.kinds.immutable import all_but, differing, every, omit, once, only, same, value_of
from reconciler.kinds.kueue.labels import (
    frozen_labels,
    frozen_labels_of_pod,
    frozen_labels_of_serving,
    frozen_parallelism,
    frozen_pods,
    frozen_replicas,
)
from reconciler.kube.values import mapping, sequence

_PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")  # Kueue sets it before it starts a Job (KEP-2926)
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

    While it has gates, more may be demanded of its node.
    """
    old, new = (_with_containers(mapping(value_of(body, "spec")), "image") for body in (before, after))
    gates = sequence(old.get("schedulingGates"))
    kept = [omit(mapping(one), ("tolerationSeconds",)) for one in sequence(new.get("tolerations"))]
    may_differ = {
        "activeDeadlineSeconds": _is_nearer(old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")),
        "tolerations": all(
            omit(mapping(one), ("tolerationSeconds",)) in kept for one in sequence(old.get("tolerations"))
        ),
        "schedulingGates": all(one in gates for one in sequence(new.get("schedulingGates"))),
        "nodeSelector": bool(gates)
        and mapping(old.get("nodeSelector")).items() <= mapping(new.get("nodeSelector")).items(),
        "affinity": bool(gates) and _adds_nodes(old.get("affinity"), new.get("affinity")),
    }
    names = [name for name in sorted({*old, *new}) if not same(old.get(name), new.get(name))]
    frozen = [f"spec.{name}" for name in names if not may_differ.get(name)]
    return [*frozen_labels_of_pod(before, after), *frozen]


def _is_nearer(old: Any, new: Any) -> bool:
    """Return whether a deadline is the first one, or an earlier one."""
    return old is None or (type(old) is type(new) is int and new < old)


def _adds_nodes(old: Any, new: Any) -> bool:
    """Return whether an affinity differs in demands on nodes alone, and the old one has none."""
    if value_of(old, "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"):
        return False
    return same(*(omit(mapping(side), ("nodeAffinity",)) for side in (old, new)))


def service(before: Body, after: Body) -> list[str]:
    """Check a Service: its address, the first family of addresses and its load balancer stay.

    An address or a port that nobody wrote was chosen by the server, and is hardly the one that is written later.
    """
    types = [value_of(body, "spec.type") for body in (before, after)]
    if "ExternalName" in types:
        return []
    fields = _written_anew(before, after, "spec.clusterIP")
    families = [sequence(value_of(body, "spec.ipFamilies"))[:1] for body in (before, after)]
    fields += ["spec.ipFamilies"] if all(families) and families[0] != families[1] else []
    if types == ["LoadBalancer", "LoadBalancer"]:
        fields += differing(before, after, "spec.loadBalancerClass")
        is_local = value_of(before, "spec.externalTrafficPolicy") == "Local"
        fields += _written_anew(before, after, "spec.healthCheckNodePort") if is_local else []
    return fields


def _written_anew(before: Body, after: Body, path: str) -> list[str]:
    return differing(before, after, path) if value_of(after, path) else []


def data(before: Body, after: Body) -> list[str]:
    """Check a ConfigMap or Secret: its type, and everything once it is marked `immutable`."""
    fields = differing(before, after, "type")
    if value_of(before, "immutable") is True:
        fields += differing(before, after, "data", "binaryData", "immutable")
    return [*fields, "stringData"] if "data" in fields else fields  # which a Secret may be written in


def definition(before: Body, after: Body) -> list[str]:
    """Check a CustomResourceDefinition: its scope and names stay, and so does the version of what is stored."""
    fields = list(_definition(before, after))
    names = [mapping(version).get("name") for version in sequence(value_of(after, "spec.versions"))]
    stored = [each for each in map(mapping, sequence(value_of(before, "spec.versions"))) if each.get("storage") is True]
    return fields if all(version.get("name") in names for version in stored) else [*fields, "spec.versions"]


_definition = only("spec.group", "spec.scope", "spec.names.kind", "spec.names.plural")


def deployment(before: Body, after: Body) -> list[str]:
    """Check a Deployment: its selector, and its strategy."""
    queued = frozen_labels_of_serving(before, after)
    return [*queued, *selector(before, after), *_left_over(after, "spec.strategy", "Recreate")]


def _left_over(after: Body, field: str, other: str) -> list[str]:
    """Return the strategy of updates that has another type now, and parameters of a rolling update.

    A server fills them in where nobody writes them, keeps them when the type changes, and refuses them then.
    """
    return [field] if value_of(after, f"{field}.type") == other and value_of(after, f"{field}.rollingUpdate") else []


def stateful_set(before: Body, after: Body) -> list[str]:
    """Check a StatefulSet: its pods, their number and how they are updated may change."""
    sides = (_without_types_of_claims(body) for body in (before, after))
    return [*_stateful_set(*sides), *_left_over(after, "spec.updateStrategy", "OnDelete")]


def _without_types_of_claims(body: Body) -> Body:
    """Return a StatefulSet whose claims lack what a server does not read of them."""
    spec = mapping(body.get("spec"))
    claims = [omit(each, ("apiVersion", "kind", "status")) for each in sequence(spec.get("volumeClaimTemplates"))]
    return {**body, "spec": {**spec, "volumeClaimTemplates": claims}}


_stateful_set = every(
    frozen_labels_of_serving,
    frozen_replicas,
    frozen_pods("spec.template"),
    all_but(
        "spec",
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ),
)


def gangs(before: Body, after: Body) -> list[str]:
    """Check a PodGroup or Workload of Kubernetes: of its gangs, only how many pods or groups each needs changes.

    Nothing of a CompositePodGroup changes.
    """
    if after.get("kind") == "CompositePodGroup":
        return list(all_but("spec")(before, after))
    return list(all_but("spec")(*({"spec": _without_minima(value_of(body, "spec"))} for body in (before, after))))


def _without_minima(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_minima(inner) for key, inner in value.items() if key not in ("minCount", "minGroupCount")}
    return [_without_minima(item) for item in value] if isinstance(value, list) else value


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
priority_class = only("value", "preemptionPolicy")
handler = only("handler")
quota = only("spec.scopes")
