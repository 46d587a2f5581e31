"""Rules between the fields of built-in kinds, beyond what their schemas express.

Rules about single fields are part of the schemas (`tools/schemas/constraints.py`).
Source: pkg/apis/core/validation/validation.go of Kubernetes 1.37; the modules that this one lists name theirs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.kube.cel import Checked, Declarations, check, type_of
from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import is_dns_label, is_dns_name, is_path_segment, is_qualified_name
from reconciler.kube.problems import Violation
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.schemas.builtin.appwrapper import app_wrapper_violations
from reconciler.kube.schemas.builtin.network import ingress_violations, network_policy_violations, service_violations
from reconciler.kube.schemas.builtin.objects import (
    binding_violations,
    config_map_violations,
    namespace_violations,
    priority_class_violations,
    role_binding_violations,
    role_violations,
    secret_violations,
)
from reconciler.kube.schemas.builtin.pod_specs import total_violations
from reconciler.kube.schemas.builtin.pods import duplicate, template_violations
from reconciler.kube.schemas.builtin.storage import storage_class_violations, volume_claim_violations, volume_violations
from reconciler.kube.schemas.builtin.volcano import volcano_job_violations, volcano_queue_violations
from reconciler.kube.schemas.builtin.workloads import (
    controller_violations,
    cron_job_violations,
    job_violations,
    share_violations,
)
from reconciler.kube.schemas.messages import bad_value, format_choices, missing
from reconciler.kube.schemas.metadata import embedded_violations, label_violations
from reconciler.kube.schemas.rules.definitions import definition_violations

# Rules between the fields of objects that limit others: quotas, ranges, budgets, autoscalers.
# Sources: pkg/apis/{core,autoscaling,policy}/validation/validation.go and pkg/apis/core/helper of Kubernetes 1.37.


Data = dict[str, Any]

_METRIC_TARGETS = ("averageUtilization", "averageValue", "value")

_COUNTED = frozenset((
    *("pods", "replicationcontrollers", "services", "secrets", "configmaps", "persistentvolumeclaims"),
    *("resourcequotas", "services.nodeports", "services.loadbalancers"),
))  # fmt: skip

_COMPUTE = frozenset(("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"))

_STANDARD = _COUNTED | _COMPUTE | {"requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage"}

_OF_PODS = _COMPUTE | {"pods"}

_SCOPES = {
    "BestEffort": frozenset({"pods"}),
    **dict.fromkeys(("CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass"), _OF_PODS),
    "Terminating": _OF_PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The standard resources that each scope is for."""

_FIXED_SCOPES = ("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "Terminating")

_OPPOSITES = {
    "BestEffort": ("NotBestEffort",), "NotBestEffort": ("BestEffort",),
    "Terminating": ("NotTerminating",), "NotTerminating": ("Terminating",),
}  # fmt: skip

_ORDERED = (
    *(("defaultRequest", "default"), ("min", "max"), ("min", "default"), ("min", "defaultRequest")),
    *(("default", "max"), ("defaultRequest", "max")),
)

_WORDS = {"default": "the default limit", "max": "the maximum", "defaultRequest": "the default request"}


def quota_violations(data: Data) -> Iterator[Violation]:
    """Validate a ResourceQuota: its scopes, and that each is for the resources of the quota."""
    spec = data.get("spec") or {}
    hard = spec.get("hard") or {}
    for name, amount in hard.items():
        count = parse_quantity(amount or 0)
        if name in _COUNTED and count is not None and count.denominator != 1:
            yield bad_value(("spec", "hard", name), f"{amount} is not a whole number", "write a whole number")
    path: FieldPath = ("spec", "scopes")
    scopes = [(scope or "", (*path, index)) for index, scope in enumerate(spec.get("scopes") or ())]
    yield from _scopes(scopes, hard)
    place: FieldPath = ("spec", "scopeSelector", "matchExpressions")
    selector = spec.get("scopeSelector") or {}
    expressions = [*enumerate([one or {} for one in selector.get("matchExpressions") or ()])]
    yield from _scopes([(one.get("scopeName") or "", (*place, index, "scopeName")) for index, one in expressions], hard)
    for index, one in expressions:
        operator, values = one.get("operator"), one.get("values") or ()
        if one.get("scopeName") in _FIXED_SCOPES and operator != "Exists":
            yield bad_value((*place, index, "operator"), "must be Exists for this scope", "use Exists")
        if operator in ("In", "NotIn") and not values:
            yield missing((*place, index, "values"))
        elif operator in ("Exists", "DoesNotExist") and values:
            yield bad_value((*place, index, "values"), f"is not allowed with the operator {operator}", "remove it")


def _scopes(scopes: list[tuple[str, FieldPath]], hard: Data) -> Iterator[Violation]:
    names = [name for name, _ in scopes]
    for name, path in scopes:
        if name not in _SCOPES:
            yield bad_value(path, f"{name[:80]!r} is not a scope", f"use {format_choices([*_SCOPES])}")
            continue
        if opposite := next((one for one in _OPPOSITES.get(name, ()) if one in names), ""):
            yield bad_value(path, f"{name} contradicts {opposite}", "remove one of the two")
        outside = [resource for resource in hard if resource in _STANDARD and resource not in _SCOPES[name]]
        if outside:
            yield bad_value(path, f"is not a scope of {outside[0]}", "use a quota of its own for each scope")


def limit_range_violations(data: Data) -> Iterator[Violation]:
    """Validate a LimitRange: limits of one resource do not contradict each other."""
    seen: set[str] = set()
    for index, item in enumerate((data.get("spec") or {}).get("limits") or ()):
        path: FieldPath = ("spec", "limits", index)
        if item["type"] in seen:
            yield duplicate((*path, "type"), f"type {item['type']} already has limits", "merge the two")
        seen.add(item["type"])
        for field in ("default", "defaultRequest") if item["type"] == "Pod" else ():
            if item.get(field):
                yield bad_value((*path, field), "is not allowed for the type Pod", "remove it")
        bounds = {*(item.get("min") or ()), *(item.get("max") or ())}
        if item["type"] == "PersistentVolumeClaim" and "storage" not in bounds:
            yield bad_value(path, "must have a min or max of storage", "set one of the two")
        for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
            amount = parse_quantity(ratio or 0)
            if amount is not None and amount < 1:
                yield bad_value((*path, "maxLimitRequestRatio", name), "must be at least 1", "raise it")
            low, high = (parse_quantity((item.get(field) or {}).get(name) or 0) for field in ("min", "max"))
            if amount is not None and low and high and amount > high / low:
                yield bad_value((*path, "maxLimitRequestRatio", name), "must be at most max / min", "lower it")
        for smaller, larger in _ORDERED:
            yield from _ordered(item, smaller, larger, path)


def _ordered(item: Data, smaller: str, larger: str, path: FieldPath) -> Iterator[Violation]:
    """Check that no amount of one field exceeds that of another."""
    most = item.get(larger) or {}
    for name, written in (item.get(smaller) or {}).items():
        amount, limit = parse_quantity(written or 0), parse_quantity(most.get(name) or 0)
        if name in most and amount is not None and limit is not None and amount > limit:
            yield Violation(
                rule="schema.request-over-limit",
                path=(*path, smaller, name),
                message=f"{written} exceeds {_WORDS[larger]} {most[name]}",
                hint="raise the limit",
            )


def disruption_budget_violations(data: Data) -> Iterator[Violation]:
    """Validate a PodDisruptionBudget."""
    spec = data.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        message = "minAvailable and maxUnavailable are mutually exclusive"
        yield bad_value(("spec", "maxUnavailable"), message, "remove one of the two")
    for field in ("minAvailable", "maxUnavailable"):
        yield from share_violations(spec.get(field), ("spec", field))


def autoscaler_violations(data: Data) -> Iterator[Violation]:
    """Validate a HorizontalPodAutoscaler."""
    spec, target = data["spec"], data["spec"]["scaleTargetRef"]
    group, slash, _ = (target.get("apiVersion") or "").partition("/")
    if not (group and slash) and target["kind"] != "ReplicationController":
        hint = "write apps/v1 for a Deployment or StatefulSet"
        yield bad_value(("spec", "scaleTargetRef", "apiVersion"), "must include the group of the kind", hint)
    for field in ("kind", "name"):
        if not is_path_segment(target[field]):
            message = f"{target[field][:80]!r} is not a name"
            yield bad_value(("spec", "scaleTargetRef", field), message, "remove '/' and '%'")
    least = spec.get("minReplicas") or 1
    if spec["maxReplicas"] < least:
        yield bad_value(("spec", "maxReplicas"), f"must not be less than minReplicas ({least})", "raise it")
    for index, metric in enumerate(spec.get("metrics") or ()):
        field = metric["type"][:1].lower() + metric["type"][1:]
        source = metric.get(field)
        if not source:
            yield missing(("spec", "metrics", index, field))
        elif field in ("resource", "containerResource"):
            yield from _metric_target(source["target"], ("spec", "metrics", index, field, "target"))
        elif field in ("external", "object") and not any(map(source["target"].get, ("averageValue", "value"))):
            yield missing(("spec", "metrics", index, field, "target", "averageValue"))


def _metric_target(target: Data, path: FieldPath) -> Iterator[Violation]:
    if not any(map(target.get, _METRIC_TARGETS)):
        yield missing((*path, "averageUtilization"))
    if target.get("averageUtilization") is not None and target.get("averageValue") is not None:
        yield bad_value(
            (*path, "averageValue"), "must not be set together with averageUtilization", "remove one of the two"
        )
    for field in ("averageValue", "value"):
        amount = parse_quantity(target.get(field) or 0)
        if target.get(field) is not None and amount is not None and amount <= 0:
            yield bad_value((*path, field), "must be greater than 0", "raise it")


# Rules of claims on devices and their classes (DRA).
# Source: pkg/apis/resource/validation/validation.go of Kubernetes 1.37.


_DEVICE = {
    "driver": "string",
    "attributes": "map<string,map<string,dyn>>",
    "capacity": "map<string,map<string,quantity>>",
    "allowMultipleAllocations": "bool",
}


def claim_violations(data: Data) -> Iterator[Violation]:
    """Validate a ResourceClaim."""
    yield from _devices((data.get("spec") or {}).get("devices") or {}, ("spec", "devices"))


def claim_template_violations(data: Data) -> Iterator[Violation]:
    """Validate a ResourceClaimTemplate."""
    metadata = (data.get("spec") or {}).get("metadata") or {}
    yield from label_violations(metadata, ("spec", "metadata"))
    for field, value in metadata.items():
        if value not in (None, "", 0) and field not in ("annotations", "labels"):
            hint = "keep labels and annotations only"
            yield bad_value(("spec", "metadata", field), "is not allowed in a template", hint)
    inner = (data.get("spec") or {}).get("spec") or {}
    yield from _devices(inner.get("devices") or {}, ("spec", "spec", "devices"))


def device_class_violations(data: Data) -> Iterator[Violation]:
    """Validate a DeviceClass."""
    spec = data.get("spec") or {}
    yield from _selectors(spec.get("selectors") or (), ("spec", "selectors"))
    name = spec.get("extendedResourceName")
    if name is not None and ("/" not in name or "kubernetes.io/" in name or not is_qualified_name(name)):
        yield bad_value(
            ("spec", "extendedResourceName"), "is not the name of an extended resource", "write domain/name"
        )


def _devices(devices: Data, path: FieldPath) -> Iterator[Violation]:
    names: set[str] = set()
    for index, request in enumerate(devices.get("requests") or ()):
        place: FieldPath = (*path, "requests", index)
        yield from _request_name(request.get("name") or "", names, place)
        names.add(request.get("name") or "")
        exact, alternatives = request.get("exactly"), request.get("firstAvailable")
        if (exact is None) is not bool(alternatives) and "deviceClassName" not in request:
            yield bad_value(place, "must have either exactly or firstAvailable", "set one of the two")
        if exact is not None:
            yield from _exact(exact, (*place, "exactly"))
        inner: set[str] = set()
        for position, alternative in enumerate(alternatives or ()):
            below: FieldPath = (*place, "firstAvailable", position)
            yield from _request_name(alternative.get("name") or "", inner, below)
            inner.add(alternative.get("name") or "")
            yield from _exact(alternative, below)
        names |= {f"{request.get('name')}/{name}" for name in inner}
    yield from _about_requests(devices, path, names)


def _about_requests(devices: Data, path: FieldPath, names: set[str]) -> Iterator[Violation]:
    for field in ("constraints", "config"):
        for index, one in enumerate([one or {} for one in devices.get(field) or ()]):
            place: FieldPath = (*path, field, index)
            for position, name in enumerate(one.get("requests") or ()):
                if name not in names:
                    yield bad_value(
                        (*place, "requests", position), f"request {name} not found in the claim", "correct it"
                    )
            if field == "constraints" and not (one.get("matchAttribute") or one.get("distinctAttribute")):
                yield missing((*place, "matchAttribute"))
            if field == "config" and one.get("opaque") is None:
                yield missing((*place, "opaque"))


def _request_name(name: str, seen: set[str], path: FieldPath) -> Iterator[Violation]:
    if not is_dns_label(name):
        yield bad_value((*path, "name"), f"{name!r} is not a DNS label", "use a-z, 0-9 and -")
    elif name in seen:
        yield bad_value((*path, "name"), f"the name {name} is used by another request", "rename one of the two")


def _exact(request: Data, path: FieldPath) -> Iterator[Violation]:
    name, mode, number = request.get("deviceClassName"), request.get("allocationMode"), request.get("count")
    if name and not is_dns_name(name):
        yield bad_value((*path, "deviceClassName"), f"{name!r} is not the name of a device class", "correct it")
    if mode == "All" and number:
        yield bad_value((*path, "count"), "must not be set together with allocationMode: All", "remove one of the two")
    elif number is not None and number < 0:
        yield bad_value((*path, "count"), "must be greater than 0", "raise it")
    yield from _selectors(request.get("selectors") or (), (*path, "selectors"))


def _selectors(selectors: Any, path: FieldPath) -> Iterator[Violation]:
    for index, selector in enumerate(selectors):
        cel = (selector or {}).get("cel")
        if cel:
            yield from _selector(cel.get("expression") or "", (*path, index, "cel", "expression"))
        else:
            yield missing((*path, index, "cel"))


def _selector(expression: str, path: FieldPath) -> Iterator[Violation]:
    """Check the expression that selects devices (k8s.io/dynamic-resource-allocation/cel)."""
    fields = {name: type_of(kind) for name, kind in _DEVICE.items()}
    declared = Declarations(variables={"device": type_of("DRADevice")}, objects={"DRADevice": fields})
    found = check(expression, declared)
    if not isinstance(found, Checked):
        for error in found:
            yield bad_value(path, f"{error.message} (column {error.column})", "the only variable is `device`")
    elif found.kind.name not in ("bool", "dyn"):
        yield bad_value(path, f"must evaluate to bool, not {found.kind}", "compare it with something")


_ANY_RESTART = ("Always", "OnFailure", "Never")


def builtin_violations(data: Data, group: str, kind: str) -> Iterator[Violation]:
    """Validate an object of a built-in kind, or of one with a known webhook, that its schema has accepted."""
    validate = _VALIDATORS.get((group, kind))
    if validate is not None:
        yield from validate(data)


def _pod(data: Data) -> Iterator[Violation]:
    found = [*template_violations({"spec": data["spec"]}, (), _ANY_RESTART)]
    yield from found
    if data["spec"].get("resources"):
        totals = total_violations(data["spec"], ("spec", "resources"), defaulted=True)
        yield from (one for one in totals if one not in found)
    yield from _pod_priority(data["spec"])
    for field in ("initContainers", "containers"):
        for index, container in enumerate(data["spec"].get(field) or ()):
            if container["image"] != container["image"].strip():
                yield bad_value(("spec", field, index, "image"), "has leading or trailing whitespace", "remove it")
    for index, volume in enumerate(data["spec"].get("volumes") or ()):
        if volume.get("image") is not None and not volume["image"].get("reference"):
            yield missing(("spec", "volumes", index, "image", "reference"))


def _pod_priority(spec: Data) -> Iterator[Violation]:
    """Check what the server computes from the class of priority."""
    if spec.get("priorityClassName"):
        return
    if spec.get("priority"):
        yield bad_value(("spec", "priority"), "is set by the server", "set priorityClassName")
    if spec.get("preemptionPolicy") == "Never":
        yield bad_value(("spec", "preemptionPolicy"), "is set by the server", "set priorityClassName")


def _pod_template(data: Data) -> Iterator[Violation]:
    yield from template_violations(data.get("template") or {}, ("template",), _ANY_RESTART)


def _app_wrapper(data: Data) -> Iterator[Violation]:
    found = [*app_wrapper_violations(data)]
    yield from found
    seen = {one.path for one in found}
    for index, component in enumerate((data.get("spec") or {}).get("components") or ()):
        metadata = ((component or {}).get("template") or {}).get("metadata")
        if isinstance(metadata, dict):
            path = ("spec", "components", index, "template", "metadata")
            yield from (one for one in embedded_violations(metadata, path) if one.path not in seen)


_VALIDATORS: Mapping[tuple[str, str], Callable[[Data], Iterator[Violation]]] = {
    ("", "Pod"): _pod,
    ("", "ConfigMap"): config_map_violations,
    ("", "Secret"): secret_violations,
    ("scheduling.k8s.io", "PriorityClass"): priority_class_violations,
    ("networking.k8s.io", "NetworkPolicy"): network_policy_violations,
    ("resource.k8s.io", "ResourceClaim"): claim_violations,
    ("resource.k8s.io", "ResourceClaimTemplate"): claim_template_violations,
    ("resource.k8s.io", "DeviceClass"): device_class_violations,
    ("networking.k8s.io", "Ingress"): ingress_violations,
    ("batch", "Job"): job_violations,
    ("batch", "CronJob"): cron_job_violations,
    ("apps", "Deployment"): controller_violations,
    ("apps", "ReplicaSet"): controller_violations,
    ("apps", "StatefulSet"): controller_violations,
    ("apps", "DaemonSet"): controller_violations,
    ("", "Service"): service_violations,
    ("", "Namespace"): namespace_violations,
    ("", "PersistentVolume"): volume_violations,
    ("", "PersistentVolumeClaim"): volume_claim_violations,
    ("", "PodTemplate"): _pod_template,
    ("storage.k8s.io", "StorageClass"): storage_class_violations,
    ("", "ResourceQuota"): quota_violations,
    ("rbac.authorization.k8s.io", "Role"): role_violations,
    ("rbac.authorization.k8s.io", "ClusterRole"): role_violations,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): binding_violations,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): binding_violations,
    ("", "LimitRange"): limit_range_violations,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaler_violations,
    ("policy", "PodDisruptionBudget"): disruption_budget_violations,
    ("rbac.authorization.k8s.io", "RoleBinding"): role_binding_violations,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): role_binding_violations,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definition_violations,
    ("workload.codeflare.dev", "AppWrapper"): _app_wrapper,
    ("batch.volcano.sh", "Job"): volcano_job_violations,
    ("scheduling.volcano.sh", "Queue"): volcano_queue_violations,
}
"""Which validation of a server or webhook each kind has, beside its schema."""
